#!/usr/bin/env python3
"""Time and bytes to the same results over shaped regions, for Gaia and its peers. Needs root on Linux, for namespaces.

    python/bench/regions.py [--task digits] [--regions 2] [--rate 10mbit,50mbit] [--rtt 0,60] [--systems auto,ddp] [--seeds 1,2,3]
        [--learning-rates 0.01,0.02] [--slow 2] [--processes 2] [--results FILE.jsonl] [--page docs/src/peers.md]
        [--simulate] [--json]

One process trains in each region, on examples that the others lack, until the mean of three evaluations has reached the last
target. ``README.md`` says more.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gaia_nodes
import peers_page
from cell import NAMES, Cell
from evaluations import Reached, crossing, crossings, lines_of, virtual
from gaia_nodes import Region
from network import Network, NotAllowed
from pages import processor
from results import Line, Results, Spread, cell_of, cells, pinged, rows_at_each_rate, rows_of
from running import Failed, Processes
from systems import EVERY, SYSTEMS, TRAIN, Started, Trial
from tasks import TASKS

#: How long a run may take beyond the time that it may train. With ``auto`` a trial comes first.
START_S_MAX, TRIAL_S_MAX = 180.0, 900.0
LEARNING_RATES = {"digits": 0.02, "images": 0.02, "text": 1e-3}
SIMULATED = ", simulated"


def main() -> int:
    arguments = parsed()
    results = Results(arguments.results)
    code = 0
    try:
        measure(results, arguments)
    except NotAllowed as error:
        print(f"skipped: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        code = 130
    show(results.lines, arguments)
    if arguments.page is not None:
        peers_page.write(arguments.page, results.lines)
    return code


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time and bytes to results over shaped regions.", allow_abbrev=False)
    words = lambda text: text.split(",") if text else []  # noqa: E731
    numbers = lambda text: [float(one) for one in words(text)]  # noqa: E731
    whole = lambda text: [int(one) for one in words(text)]  # noqa: E731
    parser.add_argument("--task", choices=sorted(TASKS), default="digits")
    parser.add_argument("--regions", type=int, choices=range(2, len(NAMES) + 1), default=2, help="data centers [default: 2]")
    parser.add_argument("--rate", type=words, default=["50mbit"], help="of each region's link, as tc says it [default: 50mbit]")
    parser.add_argument("--rtt", type=numbers, default=[0.0], help="round trips that links add, in ms [default: 0]")
    parser.add_argument("--slow", type=float, default=1.0, help="times as long as others the last region computes [default: 1]")
    parser.add_argument("--processes", type=int, default=1, help="that train in each region [default: 1]")
    by_default = [name for name, system in SYSTEMS.items() if system.by_default]
    parser.add_argument("--systems", type=words, help=f"names of systems [default: {','.join(by_default)}]")
    parser.add_argument("--seeds", type=whole, default=[1])
    parser.add_argument("--learning-rates", "--rates", type=numbers, help="each system's best of these is shown")
    parser.add_argument("--steps", type=int, default=2000, help="the most steps of a region [default: 2000]")
    parser.add_argument("--seconds", type=float, default=240.0, help="the longest that a run may train [default: 240]")
    parser.add_argument("--simulate", action="store_true", help="the same runs of Gaia's scripts with the simulated driver")
    parser.add_argument("--step-ms", type=float, help="what a step takes in simulation [default: as plain scripts take]")
    parser.add_argument("--results", type=Path, help="a file that runs are added to; those that it has are not repeated")
    parser.add_argument("--page", type=Path, help="a page whose tables are written from the results")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each run, after the tables")
    arguments = parser.parse_args()
    if arguments.systems is None:
        # Gaia's own application has the digits only, and cannot be made slow.
        has_own = arguments.task == "digits" and arguments.slow == 1.0
        known = [name for name in by_default if has_own or not SYSTEMS[name].is_built_in]
        arguments.systems = [name for name in known if arguments.processes == 1 or SYSTEMS[name].may_be_several]
    arguments.learning_rates = arguments.learning_rates or [LEARNING_RATES[arguments.task]]

    if unknown := set(arguments.systems) - set(SYSTEMS):
        parser.error(f"unknown systems {sorted(unknown)}, expected some of {list(SYSTEMS)}")
    if wrong := [name for name in arguments.systems if SYSTEMS[name].is_built_in and arguments.task != "digits"]:
        parser.error(f"{wrong[0]} trains the digits only, and the task is `{arguments.task}`")
    if wrong := [rate for rate in arguments.rate if not re.fullmatch(r"\d+[kmg]bit", rate)]:
        parser.error(f"the rate is `{wrong[0]}`, expected a number with kbit, mbit or gbit")
    if arguments.slow < 1.0:
        parser.error(f"the last region is {arguments.slow:g} times as slow, expected 1 or more")
    if arguments.processes < 1:
        parser.error(f"a region has {arguments.processes} processes, expected 1 or more")
    if wrong := [name for name in arguments.systems if SYSTEMS[name].is_built_in and arguments.slow > 1.0]:
        parser.error(f"{wrong[0]} is no script, and cannot be made slow")
    single = [name for name in arguments.systems if arguments.processes > 1 and not SYSTEMS[name].may_be_several]
    if single:
        parser.error(f"{single[0]} has one process in a region here")
    if arguments.simulate and (arguments.slow > 1.0 or arguments.processes > 1):
        parser.error("simulated runs have one process in each region, and none of them is slow")
    if min(arguments.rtt) < 0:
        parser.error(f"the round trip is {min(arguments.rtt)} ms, expected 0 or more")
    return arguments


def measure(results: Results, arguments: argparse.Namespace) -> None:
    """Measures what the results lack: for each seed all cells, and in each cell the systems in turn."""
    for seed in arguments.seeds:
        for cell in asked(arguments):
            for system, learning_rate in itertools.product(arguments.systems, arguments.learning_rates):
                what = (arguments.task, system, seed, learning_rate, arguments.steps)
                trial = Trial(*what, slow=cell.slow, processes=cell.processes)
                measured(results, trial, cell, arguments)


def asked(arguments: argparse.Namespace) -> list[Cell]:
    """The cells of a command: one for each pair of a rate and a round trip."""
    links = itertools.product(arguments.rate, arguments.rtt)
    return [Cell(arguments.task, arguments.regions, *link, arguments.slow, arguments.processes) for link in links]


def measured(results: Results, trial: Trial, cell: Cell, arguments: argparse.Namespace) -> None:
    system = SYSTEMS[trial.system]
    run = {**cell._asdict(), "learning_rate": trial.learning_rate, "seed": trial.seed}
    for name in [trial.system, *([trial.system + SIMULATED] if arguments.simulate and system.is_gaia else [])]:
        line: Line = {"system": name, **run, "seconds_max": arguments.seconds, "steps_max": arguments.steps}
        if results.has(line) or (name.endswith(SIMULATED) and system.is_built_in):
            continue
        line["date"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        line |= machine()
        try:
            if name.endswith(SIMULATED):
                evaluations = simulated(trial, cell, arguments)
            else:
                evaluations, found = real(trial, cell, arguments)
                line |= found
        except Failed as failure:
            print(f"{cell}, {name}: left out, {failure}", file=sys.stderr)
            continue
        record(results, line, evaluations)


def machine() -> dict[str, Any]:
    """What else a run depends on."""
    congestion = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "congestion_control": congestion.read_text().strip() if congestion.exists() else "unknown",
    }


def real(trial: Trial, cell: Cell, arguments: argparse.Namespace) -> tuple[list[Reached], dict[str, Any]]:
    """A run over namespaces, which ends where it has reached the last target.

    Also round trips of echoes, the least, median and most, and the remote model that Gaia has trained with.
    """
    task = TASKS[trial.task]
    with (
        tempfile.TemporaryDirectory(prefix="gaia-bench-") as name,
        Network(cell.names, cell.rate, Path(name), cell.rtt_ms) as network,
        Processes(Path(name)) as processes,
    ):
        trips = network.round_trips_ms()
        found: dict[str, Any] = {"ping_ms": [round(one, 2) for one in (trips[0], statistics.median(trips), trips[-1])]}

        started, began = Started(trial, processes, network.regions, cell.link()), time.monotonic()
        longest = arguments.seconds + START_S_MAX + (TRIAL_S_MAX if SYSTEMS[trial.system].chooses else 0.0)
        while True:
            time.sleep(0.1)
            network.check()
            running = started.is_running()
            evaluations = started.evaluations()
            last = crossing(evaluations, task.targets[-1], task.higher_is_better)
            if last.is_there or not running or last.seconds > arguments.seconds:
                return evaluations, {**found, "remote": started.remote()}
            if time.monotonic() - began > longest:
                raise Failed(f"after {longest:.0f} s it has evaluations of {last.seconds:.0f} s")


def simulated(trial: Trial, cell: Cell, arguments: argparse.Namespace) -> list[Reached]:
    """The same run with the simulated driver, and links of the same bandwidths. A step is charged."""
    if arguments.step_ms is None:
        arguments.step_ms = plain_step_ms(trial, cell)
        print(f"simulated: a step takes {arguments.step_ms:.1f} ms", file=sys.stderr)
    task = TASKS[trial.task]
    with tempfile.TemporaryDirectory(prefix="gaia-bench-") as folder:
        regions = [Region(name, "127.0.0.1") for name in cell.names]
        rate = task.batch // cell.regions / arguments.step_ms * 1e3
        compute = f'compute = {{ model = "cost", examples_per_second = {rate:.1f} }}'
        run = gaia_nodes.write_run_file(Path(folder), regions, f"{trial.settings()}\n{compute}", **cell.link())
        command = [sys.executable, "-m", "gaia", "train", run, "--script", TRAIN, "--driver", "simulated"]
        progress = Path(folder) / "out" / "progress.jsonl"
        with Processes(Path(folder)) as processes:
            processes.start("simulated", [*command, "--out", "out", "--quiet"], **trial.environment(cell.regions))
            while processes.running():
                time.sleep(0.5)
                evaluations = virtual(progress)
                if crossing(evaluations, task.targets[-1], task.higher_is_better).is_there:
                    return evaluations
        return virtual(progress)


def plain_step_ms(trial: Trial, cell: Cell) -> float:
    """What a step takes where scripts train at the same time without any synchronisation: the median of the regions."""
    alone = Trial(trial.task, "alone", 1, trial.learning_rate, 10 * EVERY)
    with tempfile.TemporaryDirectory(prefix="gaia-bench-") as folder, Processes(Path(folder)) as processes:
        for rank, name in enumerate(cell.names):
            processes.start(name, [sys.executable, TRAIN], **alone.environment(cell.regions), RANK=rank, BENCH_NAME=name)
        processes.wait(300)
        logs = [lines_of(Path(folder) / f"{name}.jsonl") for name in cell.names]
    steps = [(log[-1]["time"] - log[1]["time"]) / (log[-1]["step"] - log[1]["step"]) * 1e3 for log in logs]
    return float(statistics.median(steps))


def record(results: Results, line: Line, evaluations: Sequence[Reached]) -> None:
    """Adds a run to the results, and says what it has shown."""
    task = TASKS[line["task"]]
    found = crossings(evaluations, task.targets, task.higher_is_better)
    line["targets"] = [{"target": target, **asdict(one)} for target, one in zip(task.targets, found, strict=True)]
    line["curve"] = [[one.step, round(one.seconds, 2), round(one.sent_mb, 2), round(one.metric, 4)] for one in evaluations]
    results.add(line)

    where = f"{cell_of(line)}, seed {line['seed']}, {line['system']}, learning rate {line['learning_rate']:g}"
    print(where, file=sys.stderr)
    for target, one in zip(task.targets, found, strict=True):
        words = f"{one.seconds:.1f} s, {one.step} steps, {one.sent_mb:.1f} MB a region, {one.metric:.3f}"
        print(f"  {target}: {'' if one.is_there else 'not reached, '}{words}", file=sys.stderr, flush=True)


def show(lines: Sequence[Line], arguments: argparse.Namespace) -> None:
    """Prints a table for each cell of this command."""
    task, width = TASKS[arguments.task], 28
    for cell, found in cells(lines).items():
        if cell not in asked(arguments):
            continue
        one, rates = found[-1], sorted({line["learning_rate"] for line in found})
        seeds = ", ".join(str(seed) for seed in sorted({line["seed"] for line in found}))
        print(f"\n{cell}, seeds {seeds}")
        print(f"{one['cores']} cores, load {one['load']}, TCP {one['congestion_control']}, ping {pinged(found)}")
        head = f"{'':{width}} {'rate':>6}"
        for target in task.targets:
            head += f" | {f'to {target}':>8} {'seconds':>8} {'min':>7} {'max':>7} {'steps':>6} {'MB/region':>10} {task.metric:>9}"
        print(head)
        best = rows_of(found, task.higher_is_better)
        for row in best:
            print(f"{row.system:{width}} {row.learning_rate:6g}{''.join(map(told, row.spreads))}")
        if len(rates) > 1:
            print(f"every rate of {', '.join(f'{rate:g}' for rate in rates)}:")
            for row in [each for row in best for each in rows_at_each_rate(found, row.system)]:
                print(f"{row.system:{width}} {row.learning_rate:6g}{''.join(map(told, row.spreads))}")
        for line in found if arguments.json else ():
            print(json.dumps(line))


def told(spread: Spread) -> str:
    """The columns of one target."""
    least, most = spread.seconds_range
    times = f"{spread.seconds:8.1f} {least:7.1f} {most:7.1f}"
    there = f"{spread.reached} of {spread.runs}"
    return f" | {there:>8} {times} {spread.steps:6.0f} {spread.sent_mb:10.1f} {spread.metric:9.3f}"


if __name__ == "__main__":
    raise SystemExit(main())
