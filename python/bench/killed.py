#!/usr/bin/env python3
"""What becomes of a training if a region is killed and comes back, for Gaia and its peers. Needs root on Linux, for namespaces.

    python/bench/killed.py [--regions 3] [--systems asp,local-steps,ddp] [--rate 50mbit] [--rtt 0] [--page docs/src/peers.md]
        [--json]

Some seconds after its first step the last region is killed, and after some more it is started again by the same command. What is
printed is how many steps a second the regions take then, beside what they took before. ``README.md`` says more.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import row_by_row
from cell import NAMES, Cell
from evaluations import lines_of
from network import Network
from regions import START_S_MAX
from running import Failed, Processes
from systems import SYSTEMS, Started, Trial

KNOWN = ("asp", "local-steps", "ddp", "post-local-sgd-8", "torchft-diloco-8", "hivemind-8")
TASK = "digits"
#: What is left out of each period: a region starts, or a peer has not noticed yet.
SETTLING_S = 2.0


@dataclass(frozen=True)
class Times:
    """When the last region was killed, when it was started again, and when the run was ended."""

    killed: float
    again: float
    ended: float


@dataclass(frozen=True)
class Found:
    """Steps a second. Those of all but the last region are those of the slowest of them."""

    before: float
    others_while_away: float
    others_after: float
    itself_after: float
    #: From its start to its first step. Infinite where it has taken none.
    back_s: float
    #: Regions whose process has ended with an error.
    ended: tuple[str, ...]


def main() -> int:
    options = row_by_row.parser("What becomes of a training if a region is killed.", KNOWN, 3, len(NAMES))
    options.add_argument("--rate", default="50mbit", help="of each region's link, as tc says it [default: 50mbit]")
    options.add_argument("--rtt", type=float, default=0.0, help="the round trip that links add, in ms [default: 0]")
    options.add_argument("--after", type=float, default=15.0, help="seconds from the first step to the kill [default: 15]")
    options.add_argument("--away", type=float, default=20.0, help="seconds until it is started again [default: 20]")
    options.add_argument("--then", type=float, default=40.0, help="seconds from there to the end [default: 40]")
    arguments = row_by_row.parsed(options)
    if wrong := [name for name in arguments.systems if SYSTEMS[name].is_built_in or SYSTEMS[name].chooses]:
        options.error(f"{wrong[0]} is not a script with a remote model of its own")
    cell = Cell(TASK, arguments.regions, arguments.rate, arguments.rtt)
    row_by_row.measure(arguments, "killed", lambda system: measured(system, cell, arguments), table)
    return 0


def measured(system: str, cell: Cell, arguments: argparse.Namespace) -> Found:
    """A run in which the last region is killed.

    Raises:
        Failed: A process has failed before that, or the regions do not begin.
    """
    trial = Trial(TASK, system, 1, 0.1, 1_000_000, is_killed=True)
    with (
        tempfile.TemporaryDirectory(prefix="gaia-bench-") as name,
        Network(cell.names, cell.rate, Path(name), cell.rtt_ms) as network,
        Processes(Path(name)) as processes,
    ):
        started, until = Started(trial, processes, network.regions, cell.link()), time.monotonic() + START_S_MAX
        logs = {region: processes.folder / f"{region}.jsonl" for region in started.names}
        while not all(steps_of(log) for log in logs.values()):
            started.is_running()
            time.sleep(0.1)
            if time.monotonic() > until:
                raise Failed(f"a region has not begun after {START_S_MAX:.0f} s")

        last = started.names[-1]
        time.sleep(arguments.after)
        started.is_running()
        processes.kill(last)
        killed = time.monotonic()
        time.sleep(arguments.away)
        again = time.monotonic()
        processes.start_again(last)
        time.sleep(arguments.then)
        times = Times(killed, again, time.monotonic())
        ended = tuple(region for region in started.names if has_failed(processes, region))
        *others, own = [steps_of(log) for log in logs.values()]
        return judged(others, own, times, ended)


def steps_of(log: Path) -> list[float]:
    """When a region has begun its steps."""
    return [line["time"] for line in lines_of(log) if "metric" not in line]


def has_failed(processes: Processes, name: str) -> bool:
    try:
        processes.running([name])
    except Failed:
        return True
    return False


def judged(others: Sequence[Sequence[float]], own: Sequence[float], times: Times, ended: tuple[str, ...] = ()) -> Found:
    """What the steps of the regions show, by when they have begun."""
    slowest = lambda since, until: min(rate(steps, since, until) for steps in others)  # noqa: E731
    after = [step for step in own if step > times.again]
    return Found(
        before=statistics.mean([slowest(own[0], times.killed), rate(own, own[0], times.killed)]),
        others_while_away=slowest(times.killed + SETTLING_S, times.again),
        others_after=slowest(times.again + SETTLING_S, times.ended),
        itself_after=rate(own, after[0], times.ended) if after else 0.0,
        back_s=after[0] - times.again if after else float("inf"),
        ended=ended,
    )


def rate(steps: Sequence[float], since: float, until: float) -> float:
    """Steps a second."""
    return sum(since <= step < until for step in steps) / (until - since)


def table(found: dict[str, Found]) -> str:
    """A row for each system."""
    rows = [f"| {SYSTEMS[system].label} | {' | '.join(cells(one))} |" for system, one in found.items()]
    head = "| | steps a second before | others while it is away | others after | itself after | first step after |"
    return "\n".join([head, "|---|--:|--:|--:|--:|--:|", *rows])


def cells(found: Found) -> list[str]:
    others = "ended with an error" if found.ended else f"{found.others_after:.1f}"
    back = "never" if found.back_s == float("inf") else f"{found.back_s:.0f} s"
    return [f"{found.before:.1f}", f"{found.others_while_away:.1f}", others, f"{found.itself_after:.1f}", back]


if __name__ == "__main__":
    raise SystemExit(main())
