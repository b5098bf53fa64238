"""A script's part in a run."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gaia import _gaia
from gaia._errors import GaiaError, RunStopped
from gaia._learning_rate import LearningRate
from gaia._random import Streams
from gaia._rows import Ahead, Rows, listed
from gaia._sparse import SparseTable

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
    #: Whether this process writes files of them: of several that share them, the first does.
    writes: bool = True
    #: Tables of which rows are in hand. Their numbers follow those of the other tensors, and the buffer does not have them.
    sparse: Sequence[SparseTable] = ()

    @property
    def named(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of all tensors of which rows can be named, in the order of their numbers."""
        return [*self.tensors, *((table.name, table.shape) for table in self.sparse)]

    def load(self, evaluates: bool) -> None:
        """Puts the values of the buffer into the script's tensors. Of sparse tables these are the rows of the clock, or those
        that an evaluation reads."""

    def store(self) -> None:
        """Puts the values of the script's tensors into the buffer."""

    def check(self) -> None:
        """Checks that the script still trains these tensors."""

    def subject(self) -> Any:
        """What ``evaluate`` is called with."""

    def evaluating(self) -> Callable[[], None]:
        """Prepares an evaluation, and returns what to call after it."""
        return lambda: None


class Asked(NamedTuple):
    """What a script is asked for."""

    request: str
    clock: int
    #: Whether the buffer has other values than after the iteration before.
    is_written: bool
    #: Whether the values after an iteration may stay out of the buffer.
    may_stay: bool


class Batches(Iterator[T]):
    """The batches of one call of a :class:`Run`, for one loop.

    A loop that is left ends for the run as well, also where these batches have a name. So the loop is a generator of its own,
    that nothing but the loop holds. Batches that are taken by ``next()`` are in no loop.
    """

    def __init__(self, run: Run, begin: Callable[[], Generator[T, None, None]]) -> None:
        self._run = run
        self._begin = begin
        self._begun: Generator[T, None, None] | None = None
        #: Whether there is a loop, and whether it has had all batches.
        self._has_loop = self._ended = False

    def __iter__(self) -> Iterator[T]:
        if self._ended:
            return iter(())
        if self._has_loop:
            raise GaiaError("a second loop over the batches of one run(loader), expected run(loader) in each loop", 2)
        self._has_loop = True
        # A loader may draw random numbers where its loop begins, and not with the first batch.
        self._batches()
        return self._loop()

    def __next__(self) -> T:
        return next(self._batches())

    def _batches(self) -> Generator[T, None, None]:
        if self._begun is None:
            self._begun = self._begin()
        return self._begun

    def _loop(self) -> Iterator[T]:
        self._run._loops += 1
        try:
            yield from self._batches()
            self._ended = True
        finally:
            self._run._loops -= 1

    def close(self) -> None:
        """Ends the loop for the run."""
        if self._begun is not None:
            self._begun.close()


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
        sharded: bool = False,
    ) -> None:
        self._parameters = parameters
        self._worker = worker
        self._evaluate = evaluate
        self._steps_per_clock = steps_per_clock
        self._sharded = sharded
        self._steps = 0
        #: The examples of this clock, and those of its steps so far.
        self._examples = self._stepped_examples = 0
        self._over = False
        #: How many loops over batches the script is in. A batch that is taken by `next()` is in none.
        self._loops = 0
        #: Where the end of a clock finds the rows that the next one needs. ``None``: it needs all.
        self._ahead: Ahead[Any] | None = None
        #: Whether the clock has ended, and ends for the run once it is known which rows the next one needs.
        self._waits = False
        #: The rows that this clock has read. ``None``: all.
        self._read: Rows | None = None
        #: Whether the values after this iteration may stay out of the buffer.
        self._may_stay = False
        #: Whether the latest exchange has given the script other values.
        self._has_loaded = False
        self._learning_rate = LearningRate()
        self.metrics: dict[str, float] = {}
        """The latest evaluation by this worker: the ``clock`` after which it was, the ``loss``, and the metric by its name, which
        is ``metric`` where :func:`gaia.join` was given none. The numbers are as ``evaluate`` returns them. Empty before the first
        evaluation, in a script that trains alone, and in all but the first process of DDP. Each evaluation makes a new dict."""
        #: The name of the metric, if the script has given one.
        self._metric: str | None = None
        self.clock: int = 0
        """The clocks that this worker has finished. A worker that takes up the work of an earlier process begins there."""

    @property
    def _is_alone(self) -> bool:
        """Whether this script is part of no run."""
        return self._worker is None

    @property
    def _is_active(self) -> bool:
        """Whether the script still takes part in the run."""
        return not (self._over or (self._worker is not None and self._worker.has_left))

    @property
    def over(self) -> bool:
        """Whether the run is over. The model then holds the final values, which are equal in all data centers."""
        return self._over

    def __call__(
        self,
        loader: Iterable[T],
        *,
        rows: Mapping[str, Callable[[T], Any]] | None = None,
        batches_per_clock: int | None = None,
    ) -> Batches[T]:
        """The batches of a loader, until the run is over. The examples of a batch are counted by its first dimension.

        They are for one loop. What the script does with the values after it has left the loop is its own.

        Args:
            loader: Gives the batches.
            rows: By the name of a tensor: a function from a batch to the rows of its first dimension that a step on the batch
                reads and changes, as a tensor, an array or a list of whole numbers. A clock then reads no other rows, which
                stay what they were, and none of them may change. The loader is read one clock ahead, and a clock ends where
                the loader ends.
            batches_per_clock: With ``rows``: the batches between two exchanges, where a step is made on several. By default
                as many as there are steps.

        Raises:
            GaiaError: ``rows`` names no tensor, or a row that the tensor does not have; or a second loop is over the same
                batches.
        """

        def begin() -> Generator[T, None, None]:
            # A run that is over wants no batches, for which a loader may start processes.
            batches: Iterable[T] = () if self._over else iter(loader)
            return self._batches(batches, rows, batches_per_clock)

        return Batches(self, begin)

    def _batches(
        self,
        loader: Iterable[T],
        rows: Mapping[str, Callable[[T], Any]] | None,
        batches_per_clock: int | None,
    ) -> Generator[T, None, None]:
        if self._over:
            return
        batches = self._steps_per_clock if batches_per_clock is None else batches_per_clock
        if batches < 1:
            raise GaiaError(f"batches_per_clock is {batches}, expected at least 1", 2)
        if rows is None or self._is_alone:
            yield from self._counted(loader)
            return
        ahead = Ahead(loader, rows, batches, self._parameters.named)
        # Of sparse tables no row is at hand that was not named.
        has_read_some = self._read is not None or len(self._parameters.sparse) > 0
        self._ahead = ahead
        try:
            while (needed := ahead.name()) is not None:
                # After a clock that has read all rows, each is at hand. After one that has read others, a clock ends early:
                # the batches that it was read for are used up, or were never used.
                if self._waits or (has_read_some and self._read is not needed):
                    self._exchange(needed)
                has_read_some = True
                yield from self._counted(ahead.take())
                if self._over:
                    return
        finally:
            if self._ahead is ahead:
                self._ahead = None
                # A clock ends where its loop ends: what follows may need other rows.
                self._waits = not self._over and (self._waits or self._steps > 0 or self._read is not None)

    def _counted(self, batches: Iterable[T]) -> Iterator[T]:
        """Batches until the run is over, whose examples are counted."""
        if self._waits:
            self._exchange(None)
        if self._over:
            return
        began = False
        try:
            for batch in batches:
                began = True
                self._examples += _examples_of(batch)
                yield batch
                if self._over:
                    return
        finally:
            if began and self._worker is not None and not self._over:
                self._parameters.store()
                self._worker.exchange.left(self._steps == 0 and self._read is None)

    def end(self) -> None:
        """Ends the run for all workers, and waits until it is over.

        A script that ends does this by itself. Call it to use the final model after the loop.
        """
        if self._worker is None:
            self._over = True
            return
        if self._waits:
            self._exchange(None)
        if not self._over:
            self._parameters.store()
            self._worker.exchange.end()
            self._serve()

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the values of the model to a safetensors file, by the names and shapes of the script's tensors.

        Statistics and parameters that are trained are in it; tensors of whole numbers and frozen ones are not.

        Raises:
            GaiaError: There are tables of which this worker holds rows alone.
        """
        if self._parameters.sparse:
            name = self._parameters.sparse[0].name
            raise GaiaError(
                f"run.save(...) in a worker that holds rows of {name}, expected the model.safetensors in the directory of the "
                "run, which has the whole table",
                2,
            )
        self._parameters.store()
        if self._parameters.writes:
            _gaia.write_tensors(path, self._parameters.tensors, self._parameters.values)

    def _begin(self, metric: str | None, higher_is_better: bool, momentum: float, average: bool) -> None:
        """Declares the tensors to the run, and takes the values of the first clock."""
        if self._worker is None:
            return
        parameters = self._parameters
        self._worker.exchange.declare(
            parameters.tensors,
            parameters.statistics,
            parameters.values,
            parameters.rounded,
            DEFAULT_METRIC if metric is None else metric,
            higher_is_better,
            momentum,
            average,
            self._sharded,
            self._share(),
            [(one.name, one.shape, one.initial, one.evaluated.ids, one.evaluated.values) for one in parameters.sparse],
        )
        self._worker.run = self
        self._metric = metric
        self._serve()

    def _share(self) -> tuple[Sequence[tuple[int, int]], bool, Any] | None:
        """Of a worker that has a part of the model: the rows of each tensor, whether it sends changes of statistics, and the
        initial values of the whole model. ``None`` of one that has all of it."""
        return None

    def _request(self, worker: Worker) -> Asked:
        """Waits for the next request."""
        return wait(worker)

    @property
    def _ends_clock(self) -> bool:
        """Whether the worker of this process may end a clock with the step that has just been done."""
        return self._worker is not None and self._steps + 1 >= self._steps_per_clock

    def _stepped(self, rows: Mapping[str, Any] | None = None, rate: float | None = None) -> None:
        """A step of the optimizer has been done, at a learning rate. ``rows`` are those that the next clock needs, if this one
        ends here."""
        if self._over:
            return
        if rate is not None:
            self._learning_rate.note(rate)
        self._steps += 1
        self._parameters.check()
        said = None if rows is None else listed(rows, self._parameters.named)
        # A clock that waits for the names of rows takes further steps as well.
        if self._steps < self._steps_per_clock:
            return
        if said is None and self._ahead is not None:
            said = self._ahead.name()
            if said is None:
                self._waits = True
                return
        self._exchange(said)

    def _exchange(self, needed: Rows | None) -> None:
        """Ends a clock. The next one needs these rows. ``None``: all."""
        examples, steps = self._examples, self._steps
        self._examples, self._stepped_examples, self._steps, self._waits = 0, 0, 0, False
        self._read = needed
        self._end_clock(examples or steps, needed)

    def _end_clock(self, examples: int, needed: Rows | None) -> None:
        """Sends what has changed in a clock, and takes what others have changed of these rows."""
        self.clock += 1
        if self._worker is not None:
            # Where a clock has several steps, a script may end within one, whose steps do not count.
            may_keep = self._loops > 0 and self._steps_per_clock == 1
            is_stored = not (self._may_stay and may_keep and needed is None)
            if is_stored:
                self._parameters.store()
            try:
                rows, rate = self._with_buffers(needed), self._learning_rate.factor
                self._worker.exchange.iterated(examples, rows, rate, may_keep, is_stored)
            except ValueError as error:
                raise GaiaError(str(error), 2) from None
            self._serve()

    def _with_buffers(self, needed: Rows | None) -> list[tuple[int, Any, Any]] | None:
        """Rows as the exchange takes them, those of sparse tables with the memory for their values."""
        parameters = self._parameters
        if needed is None and not parameters.sparse:
            return None
        named = dict(needed or ())
        count = len(parameters.tensors)
        rows = [(number, ids, None) for number, ids in named.items() if number < count]
        for number, table in enumerate(parameters.sparse, count):
            hand = table.name_rows(named.get(number, ()))
            rows.append((number, hand.ids, hand.values))
        return rows

    def _serve(self) -> None:
        """Answers requests until the next iteration begins, or the run is over."""
        worker, parameters = self._worker, self._parameters
        assert worker is not None
        self._has_loaded = False
        while True:
            asked = self._request(worker)
            request = asked.request
            if request == "closed":
                self._over = True
                raise RunStopped(worker.reason() or STOPPED)
            if request == "store":
                parameters.store()
                worker.exchange.stored()
                continue
            # After an evaluation the script has the values that were judged.
            if asked.is_written or self._has_loaded:
                parameters.load(request != "iterate")
                self._has_loaded = True
            if request == "iterate":
                self.clock, self._may_stay = asked.clock, asked.may_stay
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
        if self._metric == "loss" and metric is not None and (metric == loss or math.isnan(metric) and math.isnan(loss)):
            # Who gives examples has to give a second number.
            metric = None
        self.metrics = {"clock": self.clock, "loss": loss}
        if self._metric is not None or metric is not None:
            self.metrics[self._name_of_metric(metric is not None)] = loss if metric is None else metric
        worker.exchange.evaluated(loss, loss if metric is None else metric, weight)

    def _name_of_metric(self, is_second: bool) -> str:
        """The name of the metric in ``metrics``, where it may be a second number beside the loss.

        Raises:
            GaiaError: It would take the place of the loss.
        """
        if self._metric is None:
            warnings.warn(
                f'evaluate(model) has returned a second number, which has no name: it is run.metrics["{UNNAMED_METRIC}"], and '
                f'reports call it {DEFAULT_METRIC}, expected a name: gaia.join(..., metric="accuracy")',
                stacklevel=2,
            )
            return UNNAMED_METRIC
        if is_second and self._metric == "loss":
            raise GaiaError(
                'evaluate(model) has returned a second number, and metric="loss" names it as the loss, expected another name: '
                'gaia.join(..., metric="accuracy")',
                2,
            )
        return self._metric


#: What reports call the metric of a script that names none. Mostly it is the loss alone.
DEFAULT_METRIC = "loss"

#: What ``metrics`` calls a second number of an evaluation, where the script has no name for it.
UNNAMED_METRIC = "metric"

STOPPED = "the run has ended without this script: another node has failed, or was killed"


def leave(worker: Worker) -> None:
    """Ends the part of a script that has done its work."""
    if worker.run is None:
        worker.exchange.end()
    else:
        worker.run.end()


def wait(worker: Worker, only: str | None = None, stop: bool = False) -> Asked:
    """Waits for the next request, or for the ``only`` one that is taken. With ``stop``, also until the worker has stopped."""
    if worker.turn is None:
        return Asked(*worker.exchange.wait(only, stop))
    worker.turn.give()
    try:
        return Asked(*worker.exchange.wait(only, stop))
    finally:
        worker.turn.take()


def _judged(found: float | Sequence[float]) -> tuple[float, float | None, float]:
    """The loss, the metric and the weight of an evaluation. The metric is ``None`` where it is the loss.

    Raises:
        GaiaError: These are not one to three numbers.
    """
    values = [_number(one) for one in (found if isinstance(found, (tuple, list)) else [found])]
    if not 1 <= len(values) <= 3:
        raise GaiaError(f"evaluate(model) has returned {len(values)} values, expected loss, (loss, metric) or (loss, metric, examples)", 2)
    loss = values[0]
    metric = values[1] if len(values) > 1 else None
    weight = values[2] if len(values) > 2 else 1.0
    if not (math.isfinite(weight) and weight >= 0):
        raise GaiaError(f"evaluate(model) has returned {weight} examples, expected a number from 0", 2)
    return loss, metric, weight


def _number(found: Any) -> float:
    """A number that an evaluation has returned, which may be a tensor of one number, on any device.

    Raises:
        GaiaError: It is no number.
    """
    shape = tuple(getattr(found, "shape", ()))
    # What an evaluation computes outside of `no_grad` is a number all the same.
    value = found.detach() if hasattr(found, "detach") else found
    if math.prod(shape) == 1 and not isinstance(found, (str, bytes)):
        with contextlib.suppress(TypeError, AttributeError):
            return float(value.reshape(()) if shape else value)
    what = "None" if found is None else f"a value of type {type(found).__name__}" + (f" and shape {shape}" if shape else "")
    raise GaiaError(
        f"evaluate(model) has returned {what} in place of a number, expected loss, (loss, metric) or (loss, metric, examples)", 2
    )


def _examples_of(batch: Any) -> int:
    """The first dimension of the first tensor in a batch. 1 of what has none."""
    return next((int(shape[0]) for shape in _shapes(batch) if len(shape) > 0), 1)


def _shapes(batch: Any) -> Iterator[Any]:
    """The shapes of the tensors in a batch, which may be in dicts, lists and tuples."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        yield shape
    elif isinstance(batch, (Mapping, tuple, list)):
        for part in batch.values() if isinstance(batch, Mapping) else batch:
            yield from _shapes(part)
