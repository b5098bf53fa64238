"""Tables of which a script holds the rows in hand: those that its clock has named, and those that evaluations read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gaia._errors import GaiaError
from gaia._rows import unknown_name, whole_numbers


@dataclass(frozen=True)
class Hand:
    """Rows of a table, and the memory for their values."""

    #: Ascending numbers of 64 bits, each once.
    ids: Any
    #: Single-precision numbers, ``rows × width``.
    values: Any

    @classmethod
    def of(cls, ids: Any, width: int) -> Hand:
        import numpy

        unique = numpy.unique(numpy.asarray(ids, numpy.int64))
        return cls(unique, numpy.zeros((len(unique), width), numpy.float32))


class SparseTable:
    """A sparse table of a run, as a script declares it.

    Raises:
        GaiaError: The table does not have one of the rows that evaluations read.
    """

    def __init__(self, name: str, rows: int, width: int, initial: tuple[int, float, float], evaluated: Any) -> None:
        wrong = evaluated[(evaluated < 0) | (evaluated >= rows)]
        if len(wrong) > 0:
            raise GaiaError(f"evaluate_rows names row {wrong[0]} of {name}, expected 0 to {rows - 1}", 2)
        self.name, self.shape = name, (rows, width)
        #: The seed, the mean and the standard deviation of the initial values.
        self.initial = initial
        #: The rows that evaluations read.
        self.evaluated = Hand.of(evaluated, width)
        #: The rows of the clock.
        self.hand = Hand.of((), width)

    def name_rows(self, ids: Any) -> Hand:
        """The rows of the next clock, whose values are not there yet."""
        self.hand = Hand.of(ids, self.shape[1])
        return self.hand


def evaluated_rows(named: Mapping[str, Any] | None, tables: Sequence[str]) -> list[Any]:
    """The rows that evaluations read, of each of these tables.

    Raises:
        GaiaError: A name is no table's, or rows are no whole numbers.
    """
    for name in named or {}:
        if name not in tables:
            if not tables:
                expected = "expected the weight of a gaia.torch.Embedding: of other tensors all rows are evaluated"
                raise GaiaError(f"evaluate_rows names `{name}`, {expected}", 2)
            raise unknown_name("evaluate_rows", name, tables)
    return [whole_numbers(name, (named or {}).get(name, ())) for name in tables]
