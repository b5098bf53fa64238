"""The rows of tables that batches need, named before the read of their clock."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from gaia._errors import GaiaError

T = TypeVar("T")

#: By the numbers of tensors: the rows that a clock needs, as an array of whole numbers of 64 bits.
Rows = list[tuple[int, Any]]


def listed(named: Mapping[str, Any], tensors: Sequence[tuple[str, tuple[int, ...]]]) -> Rows:
    """Rows by the names of their tensors, as the exchange takes them.

    Raises:
        GaiaError: A name is no tensor's, or rows are no whole numbers.
    """
    numbers = {name: number for number, (name, _) in enumerate(tensors)}
    rows: Rows = []
    for name, ids in named.items():
        if name not in numbers:
            raise unknown_name("rows", name, list(numbers))
        rows.append((numbers[name], whole_numbers(name, ids)))
    return rows


def unknown_name(argument: str, name: str, names: Sequence[str]) -> GaiaError:
    """What is wrong with a name that is none of these."""
    known = difflib.get_close_matches(name, names) or names[:5]
    return GaiaError(f"{argument} names `{name}`, expected a tensor such as {', '.join(known)}", 2)


def whole_numbers(name: str, ids: Any) -> Any:
    """Numbers of rows, as an array of whole numbers of 64 bits.

    Raises:
        GaiaError: They are no whole numbers.
    """
    import numpy

    # Tensors of torch may be on a device.
    array = ids.detach().cpu().numpy() if hasattr(ids, "detach") else numpy.asarray(ids)
    if array.size and array.dtype.kind not in "iu":
        raise GaiaError(f"rows of {name} are {array.dtype}, expected whole numbers", 2)
    return numpy.ascontiguousarray(array.reshape(-1), dtype=numpy.int64)


class Ahead(Generic[T]):
    """The batches of a loader, read ahead by a clock, and the rows that they need."""

    def __init__(
        self,
        loader: Iterable[T],
        rows: Mapping[str, Callable[[T], Any]],
        batches: int,
        tensors: Sequence[tuple[str, tuple[int, ...]]],
    ) -> None:
        self._rows, self._batches, self._tensors = rows, batches, tensors
        listed({name: () for name in rows}, tensors)
        self._loader: Iterator[T] = iter(loader)
        #: The batches of the next clock and their rows, once they were read.
        self._next: tuple[list[T], Rows] | None = None

    def name(self) -> Rows | None:
        """The rows of the next clock, whose batches are read for it. ``None`` if the loader has no more."""
        if self._next is None and (batches := list(islice(self._loader, self._batches))):
            self._next = batches, [self._of_all(name, batches) for name in self._rows]
        return None if self._next is None else self._next[1]

    def take(self) -> list[T]:
        """The batches that were read for the next clock."""
        taken, self._next = self._next, None
        return [] if taken is None else taken[0]

    def _of_all(self, name: str, batches: Sequence[T]) -> tuple[int, Any]:
        import numpy

        each = [listed({name: self._rows[name](batch)}, self._tensors)[0] for batch in batches]
        return each[0][0], numpy.concatenate([ids for _, ids in each])
