"""FSDP2 inside a data center: each of its processes is a worker for the rows that it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import torch
from torch import distributed
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Shard

from gaia import _gaia
from gaia._errors import GaiaError
from gaia._place import Worker
from gaia._rows import Rows
from gaia._run import Asked, Evaluate, Parameters, Run, wait
from gaia._staging import Staging, host_buffer, rounded_buffer
from gaia._statistics import Places
from gaia._torch import _whole, restoring_modes
from gaia._united import device_of_group, united


class Sharded(Parameters):
    """The rows of a module's tensors that this process holds, and all of its statistics."""

    def __init__(
        self,
        model: torch.nn.Module,
        parameters: Sequence[tuple[str, Any]],
        statistics: Sequence[tuple[str, Any]],
        subject: torch.nn.Module,
    ) -> None:
        self._model, self._subject = model, subject
        self._shard_again()
        self._found = [*parameters, *statistics]
        self._places = Places(model, statistics)
        self.tensors = [(name, tuple(one.shape)) for name, one in self._found]
        self.statistics = len(statistics)
        #: Of each tensor: the first row of its first dimension that this process holds, and the one after the last.
        self.rows = [_rows_of(name, one) for name, one in parameters] + [(0, one.shape[0] if one.shape else 1) for _, one in statistics]
        self._locals = [_local(one) for _, one in self._found]
        flat = host_buffer(self._locals)
        # Tensors of fewer bits round what they are given. What is sent is the change since then.
        rounded = rounded_buffer(self._locals)
        self._stagings = Staging.of(self._locals, flat, rounded)
        self.store()
        self.values = flat.numpy()
        self.rounded = None if rounded is None else rounded.copy_(flat).numpy()

    def whole(self) -> Any:
        """The values of the whole model. All processes of the data center call this together."""
        return torch.cat([_whole(one).reshape(-1) for _, one in self._found]).numpy()

    def load(self, evaluates: bool) -> None:
        self._shard_again()
        for staging in self._stagings:
            staging.load()

    def store(self) -> None:
        for staging in self._stagings:
            staging.store()

    def check(self) -> None:
        self._places.take_assigned()
        for (name, one), tensor in zip(self._found, self._locals, strict=True):
            local = _local(one)
            if local.data_ptr() != tensor.data_ptr() or local.dtype != tensor.dtype:
                raise GaiaError(
                    f"{name} was moved or converted after gaia.join(...), expected join last: after .to(...), .half() and fully_shard", 2
                )

    def subject(self) -> torch.nn.Module:
        return self._subject

    def evaluating(self) -> Callable[[], None]:
        restore_modes = restoring_modes(self._subject)

        def restore() -> None:
            restore_modes()
            self._places.put_back()

        return restore

    def _shard_again(self) -> None:
        """Drops what an evaluation has gathered: later steps would go on with it."""
        for module in self._model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


class FsdpRun(Run):
    """The part in a run of one of the processes that share a model.

    An iteration and an evaluation are the work of all of them together. The first process decides which request is next, and
    each takes that one.
    """

    _parameters: Sharded

    def __init__(self, parameters: Sharded, worker: Worker, evaluate: Evaluate, steps_per_clock: int) -> None:
        super().__init__(parameters, worker, evaluate, steps_per_clock, sharded=True)
        self._device = device_of_group(parameters.subject().parameters())
        self._rank = distributed.get_rank()
        self._has_ended = False

    def end(self) -> None:
        if self._over:
            return
        if not distributed.is_initialized():
            raise GaiaError("the process group was destroyed before the run was over, expected run.end() before that")
        self._has_ended = True
        super().end()

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the values of the whole model to a safetensors file. All processes of the data center call this together,
        and the first of them writes."""
        values = self._parameters.whole()
        if self._rank == 0:
            _gaia.write_tensors(path, self._parameters.tensors, values)

    def _end_clock(self, examples: int, needed: Rows | None) -> None:
        # Each process computes with the rows of all, and reads and sends its own of them.
        super()._end_clock(examples, united(needed, self._device))

    def _share(self) -> tuple[Sequence[tuple[int, int]], bool, Any]:
        # Statistics are whole in each process. Those of the first are sent, and all take what comes back.
        return self._parameters.rows, self._rank == 0, self._parameters.whole()

    def _request(self, worker: Worker) -> Asked:
        while True:
            own = wait(worker, stop=not self._has_ended) if self._rank == 0 else NOTHING
            request = KINDS[self._from_first(KINDS.index(own.request) if self._rank == 0 else 0)]
            if self._rank > 0 and request in ("iterate", "evaluate", "finish"):
                own = wait(worker, only=request, stop=request == "iterate")
            elif self._rank > 0:
                own = NOTHING._replace(request=request)
            if request == "iterate" and not self._is_of_all(own.request == "iterate", own.clock):
                # Iterations of a data center are those of all its workers: none is the last one of some.
                request = "stop"
            elif own.request == "closed" or request == "closed":
                return NOTHING._replace(request="closed")
            if request != "stop":
                return own._replace(request=request)
            self._has_ended = True
            worker.exchange.end()

    def _is_of_all(self, has_begun: bool, clock: int) -> bool:
        """Whether the iteration of this clock has begun in all processes."""
        own = torch.tensor([clock if has_begun else -1], dtype=torch.int64, device=self._device)
        clocks = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
        distributed.all_gather(clocks, own)
        begun = {int(one) for one in clocks}
        if len(begun - {-1}) > 1:
            raise GaiaError(f"the workers of this data center are at different clocks, {sorted(begun)}, expected one: restart all of them")
        return -1 not in begun

    def _from_first(self, number: int) -> int:
        sent = torch.tensor([number], dtype=torch.int64, device=self._device)
        distributed.broadcast(sent, src=0)
        return int(sent)


def check_rows(parameters: Sequence[tuple[str, Any]]) -> None:
    """Checks that ``fully_shard`` has sharded parameters among all processes, by rows.

    Raises:
        GaiaError: It has sharded some of them, or in another way.
    """
    processes = distributed.get_world_size()
    for name, one in parameters:
        if not isinstance(one, DTensor):
            raise GaiaError(f"{name} is in each process as a whole, expected fully_shard(...) of the whole module", 2)
        if one.device_mesh.ndim != 1 or one.device_mesh.size() != processes or tuple(one.placements) != (Shard(0),):
            raise GaiaError(
                f"{name} is sharded as {tuple(one.placements)} over {one.device_mesh}, expected (Shard(dim=0),) over {processes} processes", 2
            )


def _rows_of(name: str, one: DTensor) -> tuple[int, int]:
    """The rows that this process holds: equal parts of the first dimension, of which the last ones may be shorter."""
    count, processes, rank = one.shape[0], distributed.get_world_size(), distributed.get_rank()
    each = -(-count // processes)
    first, last = min(each * rank, count), min(each * (rank + 1), count)
    if (found := _local(one).shape[0]) != last - first:
        raise GaiaError(f"{name} has {found} rows in process {rank}, expected {last - first} of {count}", 2)
    return first, last


def _local(one: Any) -> torch.Tensor:
    detached: Any = one.detach()
    local: torch.Tensor = detached.to_local() if isinstance(one, DTensor) else detached
    return local


#: What a process knows that waits for no request of its own.
NOTHING = Asked("", 0, is_written=False, may_stay=False)

#: What the first process tells the others.
KINDS = ("iterate", "evaluate", "finish", "stop", "closed")
