"""A script's part in a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from gaia import _gaia
from gaia._errors import GaiaError, RunStopped
from gaia._random import Streams

if TYPE_CHECKING:
    from gaia._place import Worker

T = TypeVar("T")

Evaluate = Callable[[Any], "float | tuple[float, ...]"]


class Parameters:
    """The values that a run trains: one flat buffer of single-precision numbers, and the tensors in it."""

    #: Names and shapes, in the order of the buffer.
    tensors: list[tuple[str, tuple[int, ...]]]
    #: How many of them, at the end, are statistics: values that are measured, such as the running mean of a batch
    #: normalisation. Data centers agree on their mean.
    statistics: int = 0
    #: A buffer that the nodes of the run read and write.
    values: Any
    #: The values as rounded by tensors of fewer bits, in another buffer, or ``None``.
    rounded: Any = None

    def load(self) -> None:
        """Puts the values of the buffer into the script's tensors."""

    def store(self) -> None:
        """Puts the values of the script's tensors into the buffer."""

    def check(self) -> None:
        """Checks that the script still trains these tensors."""

    def subject(self) -> Any:
        """What ``evaluate`` is called with."""

    def evaluating(self) -> Callable[[], None]:
        """Prepares an evaluation, and returns what to call after it."""
        return lambda: None


class Run:
    """A script's part in a run: what :func:`gaia.join` returns.

    ``run(loader)`` hands on the batches of a loader, and ends once the run is over. Each clock of the run, which is
    ``steps_per_clock`` steps of the optimizer, the changes of this worker go to its data center, and what others have changed
    comes back.
    """

    def __init__(
        self,
        parameters: Parameters,
        worker: Worker | None,
        evaluate: Evaluate,
        steps_per_clock: int,
    ) -> None:
        self._parameters = parameters
        self._worker = worker
        self._evaluate = evaluate
        self._steps_per_clock = steps_per_clock
        self._steps = 0
        self._examples = 0
        self._over = False
        self._ending = False
        #: The latest evaluation by this worker: its clock, the loss and the metric. Empty before the first.
        self.metrics: dict[str, float] = {}
        self.clock: int = 0
        """The clocks that this worker has finished. A worker that takes up the work of an earlier process begins there."""

    @property
    def over(self) -> bool:
        """Whether the run is over. The model then holds the final values, which are equal in all data centers."""
        return self._over

    def __call__(self, loader: Iterable[T]) -> Iterator[T]:
        """The batches of a loader, until the run is over. The examples of a batch are counted by its first dimension."""
        if self._over:
            return
        for batch in loader:
            self._examples += _examples_of(batch)
            yield batch
            if self._over:
                return

    def end(self) -> None:
        """Ends the run for all workers, and waits until it is over.

        A script that ends does this by itself. Call it to use the final model after the loop.
        """
        if self._worker is None:
            self._over = True
        elif not self._over:
            self._ending = True
            self._worker.exchange.end()
            self._serve()

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the values of the model to a safetensors file, by the names and shapes of the script's tensors.

        Statistics and parameters that are trained are in it; tensors of whole numbers and frozen ones are not.
        """
        self._parameters.store()
        _gaia.write_tensors(path, self._parameters.tensors, self._parameters.values)

    def _begin(self, metric: str, higher_is_better: bool, momentum: float, average: bool) -> None:
        """Declares the tensors to the run, and takes the values of the first clock."""
        if self._worker is None:
            return
        parameters = self._parameters
        self._worker.exchange.declare(
            parameters.tensors,
            parameters.statistics,
            parameters.values,
            parameters.rounded,
            metric,
            higher_is_better,
            momentum,
            average,
        )
        self._worker.run = self
        self._metric = metric
        self._serve()

    def _stepped(self) -> None:
        """A step of the optimizer has been done."""
        if self._over:
            return
        self._steps += 1
        self._parameters.check()
        if self._steps % self._steps_per_clock == 0:
            examples, self._examples = self._examples, 0
            self._end_clock(examples)

    def _end_clock(self, examples: int) -> None:
        """Sends what has changed in a clock, and takes what others have changed."""
        self.clock += 1
        if self._worker is not None:
            self._parameters.store()
            self._worker.exchange.iterated(examples or self._steps_per_clock)
            self._serve()

    def _serve(self) -> None:
        """Answers requests until the next iteration begins, or the run is over."""
        worker, parameters = self._worker, self._parameters
        assert worker is not None
        while True:
            request, clock = _wait(worker)
            if request == "closed":
                self._over = True
                raise RunStopped(worker.reason() or STOPPED)
            parameters.load()
            if request == "iterate" and self._ending:
                worker.exchange.end()
                continue
            if request == "iterate":
                self.clock = clock
                return
            if request == "finish":
                self._over = True
                worker.exchange.taken()
                return
            self._judge(worker)

    def _judge(self, worker: Worker) -> None:
        """Evaluates the values that were loaded. The streams of random numbers go on as without it."""
        streams = Streams.current()
        restore = self._parameters.evaluating()
        try:
            found = self._evaluate(self._parameters.subject())
        finally:
            restore()
            streams.resume()
        loss, metric, weight = _judged(found)
        self.metrics = {"clock": self.clock, "loss": loss, self._metric: metric}
        worker.exchange.evaluated(loss, metric, weight)


STOPPED = "the run has ended without this script: another node has failed, or was killed"


def leave(worker: Worker) -> None:
    """Ends the part of a script that has done its work."""
    if worker.run is None:
        worker.exchange.end()
    else:
        worker.run.end()


def _wait(worker: Worker) -> tuple[str, int]:
    if worker.turn is None:
        return worker.exchange.wait()
    worker.turn.give()
    try:
        return worker.exchange.wait()
    finally:
        worker.turn.take()


def _judged(found: float | Sequence[float]) -> tuple[float, float, float]:
    """The loss, the metric and the weight of an evaluation."""
    values = [float(one) for one in found] if isinstance(found, (tuple, list)) else [float(found)]  # type: ignore[arg-type]
    if not 1 <= len(values) <= 3:
        raise GaiaError(f"evaluate(model) has returned {len(values)} values, expected loss, (loss, metric) or (loss, metric, examples)", 2)
    loss = values[0]
    metric = values[1] if len(values) > 1 else loss
    weight = values[2] if len(values) > 2 else 1.0
    if not (math.isfinite(weight) and weight >= 0):
        raise GaiaError(f"evaluate(model) has returned {weight} examples, expected a number from 0", 2)
    return loss, metric, weight


def _examples_of(batch: Any) -> int:
    """The first dimension of the first tensor in a batch. 1 of what has none."""
    while True:
        shape = getattr(batch, "shape", None)
        if shape is not None and len(shape) > 0:
            return int(shape[0])
        if isinstance(batch, dict) and batch:
            batch = next(iter(batch.values()))
        elif isinstance(batch, (tuple, list)) and batch:
            batch = batch[0]
        else:
            return 1
