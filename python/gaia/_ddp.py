"""DDP inside a data center: all its processes are one worker, and the first of them takes part in the run."""

from __future__ import annotations

import atexit
import sys
from typing import Any

import torch
from torch import distributed

from gaia._errors import GaiaError, RunStopped
from gaia._exit import exit_at_once, unhandled
from gaia._failures import Listening, tell_failures
from gaia._place import Worker
from gaia._rows import Rows
from gaia._run import STOPPED, Evaluate, Run
from gaia._torch import Module
from gaia._united import device_of_group, united


class DdpRun(Run):
    """The part in a run of one of the processes of a worker.

    The first process exchanges changes with the run, judges and ends. After each clock the others receive its clock, whether the
    run is over, and the values that the run has given it, so that all go on alike. Where the run has given none, as between two
    rounds of local steps, DDP has kept the weights equal, and they receive its statistics. One of the others that fails tells the
    first one, which fails the run.
    """

    _parameters: Module

    def __init__(
        self, parameters: Module, worker: Worker | None, evaluate: Evaluate, steps_per_clock: int, sharded: bool
    ) -> None:
        super().__init__(parameters, worker, evaluate, steps_per_clock, sharded)
        self._device = device_of_group(parameters.subject().parameters())
        self._listening: Listening | None = None

    def _begin(self, metric: str | None, higher_is_better: bool, momentum: float, average: bool) -> None:
        if self._worker is None:
            tell_failures(lambda: self._over)
        else:
            self._listening = Listening(self._worker, lambda: self._over)
        self._as_one(lambda: super(DdpRun, self)._begin(metric, higher_is_better, momentum, average))
        if self._worker is None:
            # The first process ends the run when its script ends, and tells the others.
            atexit.register(self._end_with_script)

    @property
    def _is_alone(self) -> bool:
        return False

    def _end_clock(self, examples: int, needed: Rows | None) -> None:
        # The processes make one step on the batches of all.
        needed = united(needed, self._device)
        self._as_one(lambda: super(DdpRun, self)._end_clock(examples * distributed.get_world_size(), needed))

    def end(self) -> None:
        try:
            self._end()
        finally:
            if self._listening is not None:
                self._listening.stop()

    def _end(self) -> None:
        if self._over:
            return
        if not distributed.is_initialized():
            raise GaiaError("the process group was destroyed before the run was over, expected run.end() before that")
        if self._waits:
            self._exchange(None)
        if not self._over:
            self._as_one(super().end if self._worker is not None else lambda: None)

    def _end_with_script(self) -> None:
        # One that has failed takes part in no further collective.
        if unhandled() is not None:
            return
        try:
            self.end()
        except BaseException as error:  # noqa: BLE001
            sys.excepthook(type(error), error, error.__traceback__)
            exit_at_once(1)

    def _as_one(self, act: Any) -> None:
        """Lets the first process act, and then gives all of them its values."""
        state = torch.zeros(4, dtype=torch.int64, device="cpu")
        failure: BaseException | None = None
        if self._worker is not None:
            try:
                act()
            except BaseException as error:  # noqa: BLE001
                failure = error
            if failure is not None and self._listening is not None and self._listening.has_heard:
                # A collective would wait for the process that has failed.
                raise failure
            found = [self.clock, self._over, failure is not None, self._has_loaded]
            state = torch.tensor(found, dtype=torch.int64, device="cpu")
        self._take_from_first(state)
        if failure is not None:
            raise failure
        self.clock, self._over, failed, has_loaded = int(state[0]), *(bool(one) for one in state[1:])
        if failed:
            self._over = True
            raise RunStopped(STOPPED)
        if not has_loaded:
            for measured in self._parameters.measured:
                self._take_from_first(measured)
            return
        self._take_from_first(self._parameters.flat)
        if self._worker is None:
            self._parameters.load(self._over)

    def _take_from_first(self, tensor: torch.Tensor) -> None:
        """Gives a tensor the values that it has in the first process."""
        sent = tensor.to(self._device)
        distributed.broadcast(sent, src=0)
        if self._worker is None:
            tensor.copy_(sent)
