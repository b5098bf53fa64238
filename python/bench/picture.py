"""A picture of a cell: for each system a row with its seconds and its megabytes to each target, on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from results import Row, Spread

LABELS, PANEL, GAP, EDGE = 250, 235, 30, 20
WIDTH = LABELS + 2 * PANEL + GAP + EDGE
TOP, ROW, AXIS = 78, 24, 44

STYLE = """
.gp { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.paper { fill: #fff; } .ink { fill: #1d2329; } .quiet { fill: #616b76; font-size: 12px; }
.grid { stroke: #e6e9ec; } .axis { stroke: #b4bbc3; } .strong { font-weight: 600; }
.gaia { color: #0a66c2; } .peer { color: #c4500b; }
.full { fill: currentColor; stroke: currentColor; stroke-width: 2; } .hollow { stroke: currentColor; stroke-width: 2; }
.range { stroke: currentColor; stroke-width: 2; opacity: .5; } .named { fill: currentColor; }
@media screen and (prefers-color-scheme: dark) {
.paper { fill: #15191e; } .ink { fill: #e6e9ec; } .quiet { fill: #a3adb8; } .grid { stroke: #2a3139; } .axis { stroke: #56606b; }
.gaia { color: #6db3ff; } .peer { color: #ff9d5c; }
}
"""


@dataclass(frozen=True)
class Named:
    """A row of the picture."""

    label: str
    is_gaia: bool
    row: Row


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from `least` to `most`, both above 0."""

    left: float
    least: float
    most: float

    def at(self, value: float) -> float:
        share = math.log(value / self.least) / math.log(self.most / self.least)
        return self.left + min(max(share, 0.0), 1.0) * PANEL

    def ticks(self) -> list[float]:
        """Powers of ten and, where these are few, their doubles and fives."""
        powers = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
        steps = (1, 2, 5) if self.most / self.least < 50 else (1, 3) if self.most / self.least < 300 else (1,)
        every = (step * 10.0**power for power in powers for step in steps)
        return [tick for tick in every if self.least * 0.999 <= tick <= self.most * 1.001]


def axis_of(values: Sequence[float], left: float) -> Axis:
    """An axis with some room on either side of these values."""
    positive = [value for value in values if value > 0] or [1.0]
    return Axis(left, min(positive) / 1.3, max(max(positive) * 1.3, min(positive) * 4))


def drawn(title: str, rows: Sequence[Named], metric: str) -> str:
    """The picture, in SVG, with the rows from top to bottom. Those that miss the first target say how far they have come."""
    height = TOP + ROW * len(rows) + AXIS
    bottom = TOP + ROW * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'class="gp" role="img">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n'
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        text(EDGE, 26, title, "ink strong"),
        *legend(rows, metric),
    ]
    panels: list[tuple[str, float, Callable[[Spread], float], Callable[[Spread], tuple[float, float]]]] = [
        ("seconds", LABELS, lambda one: one.seconds, lambda one: one.seconds_range),
        ("MB that a data center sends", LABELS + PANEL + GAP, lambda one: one.sent_mb, lambda one: one.sent_mb_range),
    ]
    for name, left, median, ends in panels:
        there = [spread for one in rows for spread in one.row.spreads if spread.is_there]
        axis = axis_of([value for spread in there for value in (*ends(spread), median(spread))], left)
        for tick in axis.ticks():
            parts.append(f'<path class="grid" d="M{axis.at(tick):.1f} {TOP}V{bottom}"/>')
            parts.append(text(axis.at(tick), bottom + 16, f"{tick:g}", "quiet", "middle"))
        parts.append(f'<path class="axis" d="M{left} {bottom}H{left + PANEL}"/>')
        parts.append(text(left + PANEL / 2, bottom + 34, name, "quiet", "middle"))
        for at, one in enumerate(rows):
            parts += marks(one, axis, TOP + ROW * (at + 0.5), median, ends)
    for at, one in enumerate(rows):
        y = TOP + ROW * (at + 0.5)
        parts.append(f'<g class="{side(one)}">{text(LABELS - 14, y + 4, one.label, "named", "end")}</g>')
        first = one.row.spreads[0]
        if not first.is_there:
            parts.append(text(LABELS + 6, y + 4, f"{metric} {first.metric:.3f} after {first.seconds:.0f} s", "quiet"))
    return "\n".join([*parts, "</svg>", ""])


def legend(rows: Sequence[Named], metric: str) -> list[str]:
    """What filled and hollow marks are."""
    found, x = [], float(EDGE)
    for at, spread in enumerate(rows[0].row.spreads if rows else ()):
        words = f"to {metric} {spread.target:g}"
        found.append(f'<g class="ink" color="#616b76">{dot(x + 5, 50, at)}</g>')
        found.append(text(x + 16, 54, words, "quiet"))
        x += 44 + 7 * len(words)
    return [*found, text(x, 54, "median, and range over seeds", "quiet")]


def marks(
    one: Named, axis: Axis, y: float, median: Callable[[Spread], float], ends: Callable[[Spread], tuple[float, float]]
) -> list[str]:
    """The marks of a system in one panel: the last target below the first, which is drawn over it."""
    found = []
    for at, spread in reversed(list(enumerate(one.row.spreads))):
        if not spread.is_there:
            continue
        least, most = ends(spread)
        found.append(f'<path class="range" d="M{axis.at(least):.1f} {y}H{axis.at(most):.1f}"/>')
        found.append(dot(axis.at(median(spread)), y, at))
    return [f'<g class="{side(one)}">{"".join(found)}</g>']


def dot(x: float, y: float, at: int) -> str:
    """A filled mark for the first target, and hollow ones for others."""
    return f'<circle class="{"full" if at == 0 else "hollow paper"}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'


def side(one: Named) -> str:
    return "gaia" if one.is_gaia else "peer"


def text(x: float, y: float, words: str, names: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{names}" text-anchor="{anchor}">{escape(words)}</text>'
