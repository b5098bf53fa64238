"""What runs over regions have shown: a file of one line each, and what tables say of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cell import Cell

#: What tells two runs apart.
KEYS = (*Cell._fields, "system", "learning_rate", "seed")
#: What lines lack that were written before there was a choice.
DEFAULTS = Cell._field_defaults

Line = dict[str, Any]


class Results:
    """Lines of runs that have ended, in memory and, if there is a path, in a file that only grows."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.lines: list[Line] = []
        if path is not None and path.exists():
            self.lines = [line for text in path.read_text().splitlines() if (line := parsed(text)) is not None]

    def add(self, line: Line) -> None:
        self.lines.append(line)
        if self._path is not None:
            with self._path.open("a+") as file:
                file.seek(0)
                # What a measurement that was killed has begun stays a line of its own.
                begun = "" if (text := file.read()) == "" or text.endswith("\n") else "\n"
                file.write(f"{begun}{json.dumps(line)}\n")

    def has(self, line: Line) -> bool:
        """Whether this run has been measured: to its last target, or for at least as long as it may take."""
        known = [one for one in self.lines if all(one[key] == line[key] for key in KEYS)]
        return any(one["targets"][-1]["is_there"] or one["seconds_max"] >= line["seconds_max"] for one in known)


def parsed(text: str) -> Line | None:
    """A line of the file. ``None`` for one that is not whole, which a measurement that was killed may have left."""
    try:
        line: Line = json.loads(text)
    except ValueError:
        return None
    return {**DEFAULTS, **line}


def cell_of(line: Line) -> Cell:
    return Cell(*(line[key] for key in Cell._fields))


def cells(lines: Iterable[Line]) -> dict[Cell, list[Line]]:
    """The lines of each cell, cells in order. Of two runs of the same key the later one counts."""
    latest = {tuple(line[key] for key in KEYS): line for line in lines}
    found: dict[Cell, list[Line]] = {}
    for line in latest.values():
        found.setdefault(cell_of(line), []).append(line)
    return dict(sorted(found.items(), key=lambda item: item[0].place()))


@dataclass(frozen=True)
class Spread:
    """What the runs of a system show for one target. Of those that have reached it, or else of all."""

    target: float
    reached: int
    runs: int
    seconds: float
    seconds_range: tuple[float, float]
    steps: float
    sent_mb: float
    sent_mb_range: tuple[float, float]
    metric: float

    @property
    def is_there(self) -> bool:
        """Whether most of the runs have reached it."""
        return 2 * self.reached > self.runs


@dataclass(frozen=True)
class Row:
    """A system in a cell, at its best rate of learning."""

    system: str
    learning_rate: float
    spreads: tuple[Spread, ...]


def spread(runs: Sequence[Line], at: int) -> Spread:
    """What these runs show for their target of this index."""
    ends = [run["targets"][at] for run in runs]
    there = [end for end in ends if end["is_there"]]
    shown = there or ends
    seconds, sent = [end["seconds"] for end in shown], [end["sent_mb"] for end in shown]
    steps, metric = (statistics.median(end[key] for end in shown) for key in ("step", "metric"))
    return Spread(
        target=ends[0]["target"],
        reached=len(there),
        runs=len(ends),
        seconds=statistics.median(seconds),
        seconds_range=(min(seconds), max(seconds)),
        steps=steps,
        sent_mb=statistics.median(sent),
        sent_mb_range=(min(sent), max(sent)),
        metric=metric,
    )


def rows_of(lines: Sequence[Line], higher_is_better: bool) -> list[Row]:
    """Each system of a cell at its best rate of learning, in the order in which they were first measured."""
    return [
        min(rows_at_each_rate(lines, system), key=lambda row: badness(row, higher_is_better))
        for system in dict.fromkeys(line["system"] for line in lines)
    ]


def from_first_to_last(rows: Iterable[Row], higher_is_better: bool) -> list[Row]:
    """Rows by the seconds to the first target, and after them those that miss it, the best metric first."""
    sign = -1 if higher_is_better else 1

    def place(row: Row) -> tuple[bool, float]:
        first = row.spreads[0]
        return not first.is_there, first.seconds if first.is_there else sign * first.metric

    return sorted(rows, key=place)


def rows_at_each_rate(lines: Sequence[Line], system: str) -> list[Row]:
    """A system of a cell at each rate of learning."""
    own = [line for line in lines if line["system"] == system]
    rows = []
    for rate in sorted({line["learning_rate"] for line in own}):
        runs = [line for line in own if line["learning_rate"] == rate]
        rows.append(Row(system, rate, tuple(spread(runs, at) for at in range(len(runs[0]["targets"])))))
    return rows


def badness(row: Row, higher_is_better: bool) -> tuple[float, float, float]:
    """What orders rates of learning: runs that miss the first target, seconds to it, and then the metric that is reached."""
    first, last = row.spreads[0], row.spreads[-1]
    metric = -last.metric if higher_is_better else last.metric
    return (1 - first.reached / first.runs, first.seconds if first.reached else 0.0, metric)


def pinged(lines: Sequence[Line]) -> str:
    """What echoes took in the runs of a cell: the median of the medians, from the least to the most."""
    trips = [line["ping_ms"] for line in lines if "ping_ms" in line]
    if not trips:
        return "not measured"
    least, middle, most = min(one[0] for one in trips), statistics.median(one[1] for one in trips), max(one[2] for one in trips)
    return f"{middle:.2f} ms ({least:.2f} to {most:.2f})"
