"""The page of the comparison with peers, whose tables and pictures follow from the lines of results.

In the page, `<!-- machine -->` and `<!-- cells -->` begin what is replaced, and `<!-- end -->` ends it. The rest is by people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cell import Cell
from pages import between, digits
from picture import Named, drawn
from results import Line, Row, Spread, cells, from_first_to_last, pinged, rows_of
from systems import SYSTEMS
from tasks import TASKS

#: The settings between which a trial chooses.
MAIN_SETTINGS = ("steps", "overlap", "density", "total_density", "outer_momentum", "drift_correction", "threshold", "values")


def write(page: Path, lines: Sequence[Line]) -> None:
    """Replaces the tables of a page, and writes the picture of each cell into the folder above the page's."""
    # Those that only people ask for, such as simulated ones, are no systems of the page.
    shown = [line for line in lines if line["system"] in SYSTEMS]
    sections = []
    for cell, found in cells(shown).items():
        name, task = cell.picture(), TASKS[cell.task]
        rows = from_first_to_last(rows_of(found, task.higher_is_better), task.higher_is_better)
        named = [Named(plain(row.system), SYSTEMS[row.system].is_gaia, row) for row in rows]
        (page.parent.parent / name).write_text(drawn(str(cell), named, task.metric))
        sections.append(section(cell, found, rows))
    text = between(page.read_text(), "machine", machine(shown))
    page.write_text(between(text, "cells", "\n".join(sections)))


def section(cell: Cell, lines: Sequence[Line], rows: Sequence[Row]) -> str:
    """A cell: its heading, what was measured, its picture, who is first, and a table."""
    task = TASKS[cell.task]
    seeds = ", ".join(str(seed) for seed in sorted({line["seed"] for line in lines}))
    rates = {line["learning_rate"] for line in lines}
    facts = f"Seeds {seeds}. {learning(lines)} An echo takes {pinged(lines)}."
    leaders = [leader(rows, at, f"{task.metric} {target:g}") for at, target in enumerate(task.targets)]
    chosen = choices(lines)
    image = f"![Seconds and megabytes of each system: {cell}.](../{cell.picture()})"
    return "\n".join(
        [f"### {cell}", "", facts, "", image, "", *leaders, *chosen, "", table(rows, task.targets, len(rates) > 1)]
    )


def learning(lines: Sequence[Line]) -> str:
    """The learning rates that were tried, which need not be the same for each system."""
    by_system: dict[str, set[float]] = {}
    for line in lines:
        by_system.setdefault(SYSTEMS[line["system"]].label, set()).add(line["learning_rate"])
    tried: dict[str, list[str]] = {}
    for system, rates in by_system.items():
        tried.setdefault(", ".join(f"{rate:g}" for rate in sorted(rates)), []).append(system)

    if len(tried) > 1:
        each = "; ".join(f"of {rates} for {' and '.join(systems)}" for rates, systems in tried.items())
        return f"Each system at its best learning rate: {each}."
    (rates,) = tried
    return f"Each system at its best learning rate of {rates}." if "," in rates else f"Learning rate {rates}."


def leader(rows: Sequence[Row], at: int, goal: str) -> str:
    """Who is first at a target in time and in bytes, and how far the best of the other side is behind."""
    time = compared(rows, at, lambda one: one.seconds, "s", "takes {} times as long")
    sent = compared(rows, at, lambda one: one.sent_mb, "MB", "sends {} times as much")
    if time is None or sent is None:
        return f"- To {goal}: nobody has reached it."
    return f"- To {goal}, first: {time}. Fewest bytes: {sent}."


def compared(rows: Sequence[Row], at: int, value: Callable[[Spread], float], unit: str, words: str) -> str | None:
    """The best of Gaia beside the best of its peers. ``None`` where no run has reached the target."""
    there = [row for row in rows if row.spreads[at].is_there and row.system != "alone"]
    ordered = sorted(there, key=lambda row: value(row.spreads[at]))
    if not ordered:
        return None
    first = ordered[0]
    is_gaia = SYSTEMS[first.system].is_gaia
    text = f"{SYSTEMS[first.system].label}, {digits(value(first.spreads[at]))} {unit}"
    other = next((row for row in ordered if SYSTEMS[row.system].is_gaia != is_gaia), None)
    if other is None:
        return f"{text}; {'no peer' if is_gaia else 'nothing of Gaia'} has reached it"
    whose = "the best peer" if is_gaia else "the best of Gaia"
    ratio = digits(value(other.spreads[at]) / value(first.spreads[at]))
    return f"{text}; {whose}, {SYSTEMS[other.system].label}, {words.format(ratio)}"


def choices(lines: Sequence[Line]) -> list[str]:
    """What the trials of Gaia have chosen, in how many runs."""
    found: dict[str, Counter[str]] = {}
    for line in lines:
        if SYSTEMS[line["system"]].chooses and line.get("remote"):
            found.setdefault(line["system"], Counter())[settings(line["remote"])] += 1
    return [
        f"- {SYSTEMS[system].label} chose {'; '.join(f'{words} ({times} of {count.total()})' for words, times in count.items())}."
        for system, count in found.items()
    ]


def settings(remote: dict[str, Any]) -> str:
    """A remote model in the words of run files, its main settings alone."""
    main = {key: remote[key] for key in MAIN_SETTINGS if key in remote}
    return ", ".join([f"`{remote['model']}`", *(f"`{key} = {value}`" for key, value in main.items())])


def table(rows: Sequence[Row], targets: Sequence[float], with_rate: bool) -> str:
    """A row for each system: for each target how many runs have reached it, seconds, steps and megabytes."""
    rate = [" rate |", "---|"] if with_rate else ["", ""]
    head = "".join(f" to {target:g} | seconds | steps | MB |" for target in targets)
    lines = [f"| |{rate[0]}{head}", f"|---|{rate[1]}{'---|---|---|---|' * len(targets)}"]
    for row in rows:
        rate_cell = f" {row.learning_rate:g} |" if with_rate else ""
        lines.append(f"| {SYSTEMS[row.system].label} |{rate_cell}{''.join(map(columns, row.spreads))}")
    return "\n".join([*lines, ""])


def columns(spread: Spread) -> str:
    """The cells of one target. A system that misses it says how far it has come."""
    if not spread.is_there:
        reached = f"{spread.reached} of {spread.runs}" if spread.reached else f"never, {spread.metric:.3f}"
        return f" {reached} | in {digits(spread.seconds)} | {spread.steps:,.0f} | {digits(spread.sent_mb)} |"
    least, most = map(digits, spread.seconds_range)
    seconds = digits(spread.seconds) if least == most else f"{digits(spread.seconds)} ({least} to {most})"
    return f" {spread.reached} of {spread.runs} | {seconds} | {spread.steps:,.0f} | {digits(spread.sent_mb)} |"


def plain(system: str) -> str:
    return SYSTEMS[system].label.replace("`", "")


def machine(lines: Sequence[Line]) -> str:
    """When and where these runs were measured."""
    if not lines:
        return "Nothing has been measured.\n"
    days = sorted({line["date"][:10] for line in lines})
    when = f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"
    loads = [line["load"] for line in lines]
    places = sorted({f"{line['cores']} cores of {line['processor']}" for line in lines})
    control = sorted({line["congestion_control"] for line in lines})
    return (
        f"Measured {when} on {' and '.join(places)}.\n"
        f"Before a run {min(loads):.1f} to {max(loads):.1f} processes of the machine ran or waited for a core. "
        f"TCP has {' and '.join(control)}.\n"
    )
