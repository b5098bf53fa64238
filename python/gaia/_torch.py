"""Models that are modules of torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gaia._errors import GaiaError
from gaia._inside import inside
from gaia._optimizers import on_the_host, steps_under_way
from gaia._place import Worker, named
from gaia._run import Evaluate, Parameters, Run
from gaia._sparse import SparseTable, evaluated_rows
from gaia._staging import Staging, host_buffer, parts_of, rounded_buffer, storage_of
from gaia._statistics import Places, statistics_of
from gaia._trained import Trained, check_own, note_own, watch_others
from gaia.torch import Embedding, check_row_state


def join_module(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None,
    worker: Worker | None,
    evaluate: Evaluate,
    steps_per_clock: int,
    metric: str | None,
    higher_is_better: bool,
    average: bool,
    sharded: bool,
    evaluate_rows: Mapping[str, Any] | None,
) -> Run:
    """Joins a run with a module and its optimizer."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        found = "" if optimizer is None else f", but with a value of type {type(optimizer).__name__}"
        raise GaiaError(f"join(model, ...) without an optimizer{found}, expected join(model, optimizer, evaluate=...)", 2)
    subject, model = model, original(model)
    _, processes = inside()
    tables = _tables(model)
    evaluated = evaluated_rows(evaluate_rows, [name for name, _ in tables])
    if tables and (sharded or (processes > 1 and named() is not None)):
        raise GaiaError(
            f"{tables[0][0]} is a gaia.torch.Embedding, and the processes of a data center are one worker or share a model, expected "
            "one process a worker, or torch.nn.Embedding",
            2,
        )
    check_row_state(optimizer)
    trained = None
    weights: list[torch.Tensor] = [table.weight for _, table in tables]
    if worker is not None or named() is not None:
        weights += [one for _, one in _parameters(model)]
        trained = Trained(model, weights, optimizer)
        check_own(model, weights)
    if _is_sharded(model) and worker is not None:
        from gaia._fsdp import FsdpRun, Sharded

        share = Sharded(model, _parameters(model), statistics_of(model), subject)
        run: Run = FsdpRun(share, worker, evaluate, steps_per_clock)
    elif processes > 1 and named() is not None:
        from gaia._ddp import DdpRun

        run = DdpRun(Module(model, subject=subject), worker, evaluate, steps_per_clock, sharded)
    else:
        # What `save` writes is collected then: alone, nothing of the model is touched.
        parameters = Unjoined(model) if worker is None else Module(model, _sparse(tables, evaluated), subject)
        run = Run(parameters, worker, evaluate, steps_per_clock, sharded)
    if trained is not None:
        note_own(model, weights, run)
    run._begin(metric, higher_is_better, _momentum(optimizer, steps_per_clock), average)

    def stepped(*_: Any) -> None:
        # Of a step that calls the one of the class that it extends, the end of that one is not the end.
        if sum(one is optimizer for one in steps_under_way()) > 1:
            return
        if trained is not None and not run._over:
            trained.check()
        run._stepped(rate=_rate(optimizer, run._ends_clock))

    optimizer.register_step_post_hook(on_the_host(stepped))
    if trained is not None:
        watch_others(optimizer, run, trained)
    return run


def _rate(optimizer: torch.optim.Optimizer, waits: bool) -> float | None:
    """The learning rate of the step that has just been done: the largest of the groups. ``None`` where no group has one, and of
    one that is on a device, for which the host would have to wait, unless it ``waits``."""
    # An optimizer that finds its rates by itself may have `None` there.
    rates = [rate for group in optimizer.param_groups if (rate := group.get("lr")) is not None]
    if not waits and any(isinstance(one, torch.Tensor) and one.device.type != "cpu" for one in rates):
        return None
    return max(map(float, rates), default=None)


def _momentum(optimizer: torch.optim.Optimizer, steps_per_clock: int) -> float:
    """The momentum that residuals are corrected for: that of plain SGD, where a clock is one of its steps."""
    shares = {group.get("momentum", 0.0) for group in optimizer.param_groups}
    if steps_per_clock > 1 or not isinstance(optimizer, torch.optim.SGD) or len(shares) != 1:
        return 0.0
    return float(shares.pop())


def check_sharding(model: torch.nn.Module, sharded: bool) -> None:
    """Checks that a module is shared among the processes of its data center as ``join`` was told.

    Raises:
        GaiaError: It is not, or in a way that its workers cannot take part in a run.
    """
    place = named()
    if not _is_sharded(model):
        if place is not None and not place.is_group and inside()[1] > 1:
            raise GaiaError(
                f"{place.data_center} has a worker for each process of torch.distributed, and the module is not shared among them, "
                "expected fully_shard(...), or 1 worker in the run file",
                2,
            )
        return
    if place is None:
        return
    from gaia._fsdp import check_rows

    check_rows(_parameters(model))
    if not sharded:
        raise GaiaError(
            "fully_shard has sharded the module among processes, expected gaia.join(..., sharded=True): the coordinator has to know it, too", 2
        )
    if place.is_group:
        raise GaiaError(
            f"the processes of {place.data_center} share the module and are one worker of the run, expected a worker for each in the "
            "run file, and no GAIA_INDEX",
            2,
        )


def original(model: torch.nn.Module) -> torch.nn.Module:
    """The module that ``torch.compile`` has compiled: it has the names of the script. Others are what they are."""
    while isinstance(inner := getattr(model, "_orig_mod", None), torch.nn.Module):
        model = inner
    return model


def check_wrapping(model: torch.nn.Module) -> None:
    """Checks that a module joins before it is wrapped.

    Raises:
        GaiaError: It is, or has in it, one of DDP, ``DataParallel`` or FSDP1.
    """
    # Whoever has a module of FSDP1 has imported it.
    first_fsdp: Any = getattr(sys.modules.get("torch.distributed.fsdp"), "FullyShardedDataParallel", ())
    for name, one in model.named_modules():
        if isinstance(one, first_fsdp):
            raise GaiaError(
                f"{name or 'the module'} is a FullyShardedDataParallel (FSDP1), which keeps the parameters of its layers in one "
                "flat tensor, expected FSDP2: torch.distributed.fsdp.fully_shard(net), and then gaia.join(..., sharded=True)",
                2,
            )
        if isinstance(one, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            kind, where = type(one).__name__, f"{name} of the module" if name else "the module"
            raise GaiaError(
                f"{where} is a {kind}, which renames the tensors inside and computes on several devices also where one process "
                "evaluates, expected to join before it is wrapped: run = gaia.join(net, optimizer, ...) and then "
                f"model = {kind}(net)",
                2,
            )


def _is_sharded(model: torch.nn.Module) -> bool:
    """Whether parameters are sharded among processes: they are tensors of a mesh of devices."""
    return any(hasattr(one, "device_mesh") for one in model.parameters())


def _tables(model: torch.nn.Module) -> list[tuple[str, Embedding]]:
    """Tables of which a worker holds the rows in hand, by the names of their weights."""
    found = [(name, one) for name, one in model.named_modules() if isinstance(one, Embedding)]
    return [(f"{name}.weight" if name else "weight", one) for name, one in found]


def _sparse(tables: Sequence[tuple[str, Embedding]], evaluated: Sequence[Any]) -> list[tuple[SparseTable, Embedding]]:
    """Tables as a run knows them.

    Raises:
        GaiaError: One of them was built outside of the run, or converted.
    """
    sparse = []
    for (name, table), rows in zip(tables, evaluated, strict=True):
        if not table.holds_rows_in_hand:
            raise GaiaError(f"{name} was built outside of the run, expected the script to build gaia.torch.Embedding itself", 2)
        if table.weight.dtype != torch.float32:
            raise GaiaError(f"{name} holds {table.weight.dtype}, expected a gaia.torch.Embedding of single precision", 2)
        table._take_name(name)
        sparse.append((SparseTable(name, table.num_embeddings, table.embedding_dim, table.initial, rows), table))
    return sparse


def _parameters(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Parameters that need a gradient, without tables of which rows are in hand. A tensor of two names is one.

    Raises:
        GaiaError: One of them holds other numbers than floating-point ones.
    """
    in_hand = {id(table.weight) for _, table in _tables(model) if table.holds_rows_in_hand}
    found: list[tuple[str, torch.Tensor]] = [
        (name, one) for name, one in model.named_parameters() if one.requires_grad and id(one) not in in_hand
    ]
    for name, one in found:
        if torch.nn.parameter.is_lazy(one):
            raise GaiaError(f"{name} is of a lazy module and has no shape yet, expected a forward pass before gaia.join(...)", 2)
        if one.device.type == "meta":
            raise GaiaError(
                f"{name} is on the device meta and has no values, expected model.to_empty(device=...) and initial values before "
                "gaia.join(...)",
                2,
            )
        if not one.is_floating_point():
            raise GaiaError(f"{name} holds {one.dtype}, expected floating-point numbers", 2)
    return found


def _tensors(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """What is trained: parameters and statistics."""
    return _parameters(model) + statistics_of(model)


def _check_apart(tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
    """Checks that no two tensors of a run are the same memory. Each would be sent and received for itself, and what is received
    for one of them, such as a part of its values, would be undone by the other.

    Raises:
        GaiaError: Two are.
    """
    names: dict[tuple[torch.device, int], str] = {}
    for name, one in tensors:
        if address := _address(one):
            first = names.setdefault((one.device, address), name)
            if first != name:
                raise GaiaError(
                    f"{first} and {name} are two tensors in the same memory, expected one: tie the parameters themselves, as in "
                    "decoder.weight = encoder.weight, and not their data",
                    2,
                )


def _with_shared_memory(model: torch.nn.Module) -> set[int]:
    """The tensors of a module whose memory other tensors of it, or other processes, have as well, by their ids."""
    of_storage: dict[int, list[int]] = {}
    found = set()
    for one in [*model.parameters(), *model.buffers()]:
        storage = storage_of(one)
        if one.device.type != "cpu" or storage == 0:
            continue
        if one.untyped_storage().is_shared():
            found.add(id(one))
        of_storage.setdefault(storage, []).append(id(one))
    return found.union(*(ids for ids in of_storage.values() if len(ids) > 1))


def _takes_copies(one: torch.Tensor) -> bool:
    """Whether values can be written into a tensor: it is not of the inference mode, and each of its values has its own place."""
    return not (one.is_inference() or any(size > 1 and stride == 0 for size, stride in zip(one.shape, one.stride(), strict=True)))


def _address(one: torch.Tensor) -> int:
    """Where the values of a tensor are. 0 of one that has none, or has no memory of its own, as those that wrap others."""
    try:
        return int(one.data_ptr())
    except (RuntimeError, ValueError):
        return 0


def _whole(one: Any) -> torch.Tensor:
    """The values of a tensor in single precision on the host, gathered where it is sharded among processes."""
    whole: torch.Tensor = one.detach().full_tensor() if hasattr(one, "full_tensor") else one.detach()
    return whole.float().cpu()


class Unjoined(Parameters):
    """The tensors of a module that trains alone."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model

    def store(self) -> None:
        found = _tensors(self._model)
        self.tensors = [(name, tuple(one.shape)) for name, one in found]
        # All processes that share the module gather it together.
        self.values = torch.cat([_whole(one).reshape(-1) for _, one in found]).numpy()
        self.writes = inside()[0] == 0


class Module(Parameters):
    """The tensors of a module in a run.

    Those of single precision on a CPU become views of the flat buffer that the run reads and writes, so that nothing is copied,
    unless others have their memory as well, or their layout is another, such as ``channels_last``. Others are copied to and from
    it. ``evaluate`` is called with the ``subject``: the module, or what is compiled of it.

    Raises:
        GaiaError: Two of the tensors are the same memory.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        sparse: Sequence[tuple[SparseTable, Embedding]] = (),
        subject: torch.nn.Module | None = None,
    ) -> None:
        self._subject = model if subject is None else subject
        self._tables = sparse
        self.sparse = [table for table, _ in sparse]
        found = _tensors(model)
        _check_apart(found)
        self.tensors = [(name, tuple(one.shape)) for name, one in found]
        #: Those of them that are statistics.
        self.measured = [one for _, one in found if not isinstance(one, torch.nn.Parameter)]
        self.statistics = len(self.measured)
        tensors = [one for _, one in found]
        #: All values, one tensor after the other.
        self.flat = host_buffer(tensors)
        self._views: list[tuple[str, torch.Tensor, int]] = []
        #: Those of the views in which torch counts changes.
        self._counted: list[torch.Tensor] = []
        weights = [(table.name, embedding.weight) for table, embedding in sparse]
        self._kinds = [(name, one, one.dtype, one.device) for name, one in [*found, *weights]]
        self.values = self.flat.numpy()
        self._places = Places(model, [(name, one) for name, one in found if not isinstance(one, torch.nn.Parameter)])
        stays = _with_shared_memory(model)
        shared, copied, parts, start = [], [], parts_of(self.flat, tensors), 0
        for at, ((name, one), part) in enumerate(zip(found, parts, strict=True)):
            part.copy_(one.detach())
            has_to_stay = (id(one) in stays or not one.is_contiguous()) and _takes_copies(one)
            if one.dtype == torch.float32 and one.device.type == "cpu" and not has_to_stay:
                # Those of the inference mode have no count, and no graph keeps them.
                if not one.is_inference():
                    self._counted.append(one)
                # A storage of its own, so that who writes one tensor to a file does not write all.
                one.data = torch.from_numpy(self.values[start : start + one.numel()]).view(one.shape)
                self._views.append((name, one, part.data_ptr()))
                shared.append(at)
            else:
                copied.append(at)
            start += one.numel()
        self.writes = inside()[0] == 0

        # Tensors of fewer bits round what they are given. What is sent is the change since then.
        rounded = rounded_buffer(tensors)
        self.rounded = None if rounded is None else rounded.copy_(self.flat).numpy()
        self._stagings = Staging.of(tensors, self.flat, rounded, copied)
        rounded_parts = None if rounded is None else parts_of(rounded, tensors)
        #: Of tensors that are in the buffer itself: their parts of the two buffers.
        self._unrounded = [] if rounded_parts is None else [(rounded_parts[at], parts[at]) for at in shared]

    def load(self, evaluates: bool) -> None:
        for staging in self._stagings:
            staging.load()
        # The run writes these by their addresses. Where torch does not know, the backward pass of an earlier graph computes wrong
        # gradients with the new values, and not an error.
        for one in self._counted:
            torch.autograd.graph.increment_version(one)
        for table, embedding in self._tables:
            hand = table.evaluated if evaluates else table.hand
            embedding._hold(hand.ids, hand.values)
        for rounded, part in self._unrounded:
            rounded.copy_(part)

    def store(self) -> None:
        for staging in self._stagings:
            staging.store()
        for table, embedding in self._tables:
            if embedding.weight.device.type != "cpu":
                torch.from_numpy(table.hand.values).copy_(embedding.weight.detach())

    def check(self) -> None:
        self._places.take_assigned()
        moved = [name for name, one, dtype, device in self._kinds if (one.dtype, one.device) != (dtype, device)]
        moved += [name for name, one, address in self._views if one.data_ptr() != address]
        on_host = [(table, one.weight) for table, one in self._tables if one.weight.device.type == "cpu" and one.weight.numel()]
        moved += [table.name for table, weight in on_host if weight.data_ptr() != table.hand.values.ctypes.data]
        if moved:
            raise GaiaError(
                f"{moved[0]} was moved or converted after gaia.join(...), expected join last: after .to(...), .half() and .cuda()", 2
            )

    def subject(self) -> torch.nn.Module:
        return self._subject

    def evaluating(self) -> Callable[[], None]:
        restore_modes = restoring_modes(self._subject)

        def restore() -> None:
            restore_modes()
            self._places.put_back()

        return restore


def restoring_modes(model: torch.nn.Module) -> Callable[[], None]:
    """What puts each part of a module into the mode, of training or not, that it is in."""
    modes = [(module, module.training) for module in model.modules()]

    def restore() -> None:
        for module, training in modes:
            module.training = training

    return restore
