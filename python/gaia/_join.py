"""``gaia.join``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from gaia._arrays import Arrays, ArraysRun
from gaia._errors import GaiaError
from gaia._inside import inside
from gaia._place import IN_ANOTHER_PROCESS, Worker, check_thread, imports_script, named, worker
from gaia._run import Evaluate, Run
from gaia._sparse import evaluated_rows

if TYPE_CHECKING:
    import torch


@overload
def join(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    evaluate: Evaluate,
    steps_per_clock: int = 1,
    metric: str | None = None,
    higher_is_better: bool = False,
    average: bool = True,
    sharded: bool = False,
    evaluate_rows: Mapping[str, Any] | None = None,
) -> Run: ...
@overload
def join(
    model: Any,
    optimizer: None = None,
    *,
    evaluate: Evaluate,
    steps_per_clock: int = 1,
    metric: str | None = None,
    higher_is_better: bool = False,
    average: bool = True,
    statistics: Sequence[str] | None = (),
    momentum: float = 0.0,
) -> ArraysRun: ...
def join(
    model: Any,
    optimizer: Any = None,
    *,
    evaluate: Evaluate,
    steps_per_clock: int = 1,
    metric: str | None = None,
    higher_is_better: bool = False,
    average: bool = True,
    sharded: bool = False,
    evaluate_rows: Mapping[str, Any] | None = None,
    statistics: Sequence[str] | None = (),
    momentum: float = 0.0,
) -> Run:
    """Joins the run that this process is part of. A script that is started alone trains as without this call, to the bit.

    Join last: after the model is on its device and in its type, and before it is wrapped or compiled. All workers build the
    same model with the same initial values, so set the seed of the weights. Values of the model are replaced by those of the
    run, which are the same in the first clock.

    Args:
        model: A ``torch.nn.Module``, or arrays: a dict, list or tuple of NumPy or JAX arrays of floating-point numbers, nested
            as you like. Parameters that need no gradient and tensors of whole numbers stay as they are. What ``torch.compile``
            returns joins with the names of the module that it has compiled. Arrays keep their types; what workers send one
            another is of single precision.
        optimizer: The optimizer of a module. After each of its steps the run goes on. Its state stays in this worker.
        evaluate: Called with the model, and returns what it is worth on this worker's held-out data: the loss, or
            ``(loss, metric)``, or ``(loss, metric, examples)`` where workers have held out different numbers of examples. The
            metric may be the loss, with ``metric="loss"``.
        steps_per_clock: Steps between two exchanges with other workers, at least 1.
        metric: The name of the metric in reports and in ``run.metrics``, such as ``"accuracy"``. Left out, reports call it
            ``loss``, and a second number of ``evaluate`` is ``run.metrics["metric"]``.
        higher_is_better: Whether a higher metric is better, as of an accuracy.
        average: Whether changes of workers are averaged: a clock of BSP is then a step on the examples of all workers. Without
            it they are added, and statistics are averaged still.
        sharded: Whether the processes of each data center share the module among them, by ``fully_shard``. Each is a worker
            then. Processes without ``torch.distributed``, such as the coordinator, need to know it as well.
        evaluate_rows: By the name of the weight of a :class:`gaia.torch.Embedding`: the rows that ``evaluate`` reads, as a
            tensor, an array or a list of whole numbers. This worker holds them during evaluations and after the run.
        statistics: Of arrays, the paths of those that are statistics, such as ``["norm.mean"]``, or of parts of the tree that
            have them. Data centers agree on their mean; with ASP, TAP and SSP each script goes on from its own while it trains.
            Those of a module are its buffers.
        momentum: Of arrays, the share of the last step that each step adds, as plain SGD with momentum does: ASP then shares
            gradients instead of steps. Needs ``steps_per_clock=1``. That of a module is its optimizer's.

    Raises:
        GaiaError: An argument is wrong, or the run cannot be joined.
        RunStopped: The run has failed elsewhere.
    """
    statistics = () if statistics is None else statistics
    if steps_per_clock < 1:
        raise GaiaError(f"steps_per_clock is {steps_per_clock}, expected at least 1", 2)
    if metric == "clock":
        raise GaiaError('metric is "clock", which is the name of the clock in run.metrics, expected another name', 2)
    if not callable(evaluate):
        raise GaiaError("evaluate is not a function, expected one that takes the model and returns its loss", 2)
    if imports_script():
        raise GaiaError(f"gaia.join(...) {IN_ANOTHER_PROCESS}", 2)
    torch = sys.modules.get("torch")
    is_module = torch is not None and isinstance(model, torch.nn.Module)
    if is_module:
        from gaia._torch import check_sharding, check_wrapping, join_module, original

        check_wrapping(net := original(model))
        check_sharding(net, sharded)
    else:
        _check_processes()
    own = _worker()
    if own is not None and own.run is not None:
        raise GaiaError("gaia.join(...) was called before, expected one call in a script", 2)

    if is_module:
        if momentum or len(statistics) > 0:
            raise GaiaError(
                "statistics= or momentum= with a torch.nn.Module, expected neither: its buffers and its optimizer say them",
                2,
            )
        return join_module(
            model, optimizer, own, evaluate, steps_per_clock, metric, higher_is_better, average, sharded, evaluate_rows
        )
    evaluated_rows(evaluate_rows, ())
    if optimizer is not None:
        raise GaiaError(
            f"an optimizer without a torch.nn.Module, but with a value of type {type(model).__name__}, expected join(module, optimizer, "
            "evaluate=...), where a torch.nn.ModuleList may have several modules, or join(arrays, evaluate=...) and run.step(...)",
            2,
        )
    if sharded:
        raise GaiaError("sharded=True with arrays, expected a torch.nn.Module that fully_shard shares among processes", 2)
    if not 0 <= momentum < 1:
        raise GaiaError(f"momentum is {momentum}, expected from 0 to below 1", 2)
    if momentum and steps_per_clock > 1:
        raise GaiaError(
            f"momentum is {momentum} and steps_per_clock is {steps_per_clock}, expected clocks of one step, or no momentum", 2
        )
    run = ArraysRun(Arrays(model, statistics), own, evaluate, steps_per_clock)
    run._begin(metric, higher_is_better, momentum, average)
    return run


def _check_processes() -> None:
    """Checks that arrays are those of one process: of several that are one worker, the others would train alone.

    Raises:
        GaiaError: They are not.
    """
    if worker() is None and (place := named()) is not None and place.is_group:
        raise GaiaError(
            f"arrays in {inside()[1]} processes of torch.distributed, which are one worker of {place.data_center}, expected one "
            "process a worker: as many workers in the run file as processes, and no GAIA_INDEX",
            2,
        )


def _worker() -> Worker | None:
    """This script's worker. Where the environment names one, the node beside it is started."""
    if (current := worker()) is not None:
        return current
    place, (process, _) = named(), inside()
    # Of several processes that are one worker, the first takes part in the run.
    if place is None:
        check_thread("gaia.join(...)", "the loop over its steps to run there")
    if place is None or (place.is_group and process > 0):
        return None
    from gaia._node import Node

    return Node(place).start()
