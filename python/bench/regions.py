#!/usr/bin/env python3
"""Time and bytes to the same result over three shaped regions, for Gaia and its peers. Needs root on Linux, for namespaces.

    python/bench/regions.py [--task digits] [--rate 100mbit] [--systems asp,local-steps] [--seeds 1,2,3] [--simulate] [--json]

One process trains in each region, on examples that the others lack, until the mean of three evaluations has reached the
target. ``README.md`` says more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gaia_nodes
from evaluations import Reached, crossing, evaluated, lines_of, virtual
from gaia_nodes import Region
from network import Network, NotAllowed
from running import Failed, Processes
from tasks import TASKS

TRAIN = Path(__file__).with_name("train.py").resolve()
NAMES = ("virginia", "ireland", "tokyo")
EVERY = 16

#: The remote models of Gaia, as run files say them.
REMOTES = {
    "asp": '{ model = "asp", function = "progress", threshold = 0.1 }',
    "asp-guard": '{ model = "asp", function = "progress", threshold = 0.1, guard = {} }',
    "bsp": '{ model = "bsp" }',
    "local-steps": '{ model = "local-steps", steps = 8 }',
    "local-steps-0": '{ model = "local-steps", steps = 8, overlap = 0, outer_momentum = 0.9 }',
}
PEERS = ("ddp", "ddp-fp16", "torchft-diloco", "hivemind", "alone")


def main() -> int:
    arguments = parsed()
    found: dict[str, list[Reached]] = {}
    if arguments.simulate and arguments.step_ms is None:
        arguments.step_ms = plain_step_ms(arguments)
    for seed in arguments.seeds:
        for system in arguments.systems:
            try:
                reached = real(system, seed, arguments)
            except NotAllowed as error:
                print(f"skipped: {error}", file=sys.stderr)
                return 0
            except Failed as failure:
                print(f"{system}: left out, {failure}", file=sys.stderr)
                continue
            record(found, system, seed, reached)
        for system in [one for one in arguments.systems if arguments.simulate and one in REMOTES]:
            record(found, f"{system}, simulated", seed, simulated(system, seed, arguments))
    show(found, arguments)
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time and bytes to a result over three regions.")
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--task", choices=sorted(TASKS), default="digits")
    parser.add_argument("--rate", default="100mbit", help="of each region's link, each way, as tc says it [default: 100mbit]")
    parser.add_argument("--systems", type=words, default=[*REMOTES, *PEERS], help="names of systems [default: all]")
    parser.add_argument("--seeds", type=lambda text: [int(one) for one in text.split(",")], default=[1])
    parser.add_argument("--steps", type=int, default=2000, help="the most steps of a region [default: 2000]")
    parser.add_argument("--seconds", type=float, default=240.0, help="the longest that a run may train [default: 240]")
    parser.add_argument("--simulate", action="store_true", help="the same runs of Gaia with the simulated driver")
    parser.add_argument("--step-ms", type=float, help="what a step takes in simulation [default: as three plain scripts take]")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each run, after the table")
    arguments = parser.parse_args()
    unknown = set(arguments.systems) - {*REMOTES, *PEERS}
    if unknown:
        parser.error(f"unknown systems {sorted(unknown)}, expected some of {[*REMOTES, *PEERS]}")
    if not re.fullmatch(r"\d+[kmg]bit", arguments.rate):
        parser.error(f"the rate is `{arguments.rate}`, expected a number with kbit, mbit or gbit")
    return arguments


def variables(system: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The environment of ``train.py``."""
    task = {"BENCH_SYSTEM": "gaia" if system in REMOTES else system, "BENCH_TASK": arguments.task}
    return {**task, "BENCH_SEED": seed, "BENCH_STEPS": arguments.steps, "BENCH_EVERY": EVERY, "OMP_NUM_THREADS": 1}


def settings(system: str, seed: int, arguments: argparse.Namespace) -> str:
    stop = f"stop.clocks = {arguments.steps}\nevaluate.every = {EVERY}"
    return f"seed = {seed}\nsync.remote = {REMOTES[system]}\n{stop}"


def link(arguments: argparse.Namespace) -> dict[str, str]:
    """The links as a run file says them: a region sends to all others at the same time, over one network card."""
    number, unit = re.fullmatch(r"(\d+)([kmg])bit", arguments.rate).groups()  # type: ignore[union-attr]
    mbit = int(number) * {"k": 1e-3, "m": 1.0, "g": 1e3}[unit] / (len(NAMES) - 1)
    return {"bandwidth": f"{mbit:g} Mbit/s", "rtt": "1 ms"}


def real(system: str, seed: int, arguments: argparse.Namespace) -> Reached:
    """A run over namespaces, which ends where it has reached the target."""
    task = TASKS[arguments.task]
    with (
        tempfile.TemporaryDirectory(prefix="gaia-bench-") as folder,
        Network(NAMES, arguments.rate) as network,
        Processes(Path(folder)) as processes,
    ):
        environment = variables(system, seed, arguments)
        if system in REMOTES:
            text = settings(system, seed, arguments)
            run = gaia_nodes.write_run_file(Path(folder), network.regions, text, **link(arguments))
            names = gaia_nodes.start(processes, network.regions, run, TRAIN, **environment)
        else:
            names = start_peers(processes, network.regions, system, environment)
        while True:
            time.sleep(0.2)
            evaluations = evaluated(Path(folder), names)
            reached = crossing(evaluations, task.target, task.higher_is_better)
            too_long = evaluations and evaluations[-1].seconds > arguments.seconds
            if reached.is_there or too_long or not processes.running(names):
                return reached


def start_peers(processes: Processes, regions: Sequence[Region], system: str, environment: dict[str, Any]) -> list[str]:
    """Starts a peer's processes, one in each region, and in the first region what they meet at."""
    first = regions[0].address
    if system == "torchft-diloco":
        lighthouse = [Path(sys.executable).with_name("torchft_lighthouse"), "--min_replicas", len(regions)]
        processes.start("lighthouse", [*regions[0].enter, *lighthouse, "--bind", f"{first}:29510", "--join_timeout_ms", 10_000])
    for rank, region in enumerate(regions):
        group = {"MASTER_ADDR": first, "MASTER_PORT": 29500, "RANK": rank, "WORLD_SIZE": len(regions)}
        place = {"BENCH_NAME": region.name, "BENCH_ADDRESS": region.address, "GLOO_SOCKET_IFNAME": "eth0"}
        address = {"TORCHFT_LIGHTHOUSE": f"http://{first}:29510"}
        processes.start(region.name, [*region.enter, sys.executable, TRAIN], **environment, **group, **place, **address)
    return [region.name for region in regions]


def simulated(system: str, seed: int, arguments: argparse.Namespace) -> Reached:
    """The same run with the simulated driver, and links of the same bandwidths. A step is charged."""
    with tempfile.TemporaryDirectory(prefix="gaia-bench-") as folder:
        regions = [Region(name, "127.0.0.1") for name in NAMES]
        rate = TASKS[arguments.task].batch / arguments.step_ms * 1e3
        compute = f'compute = {{ model = "cost", examples_per_second = {rate:.1f} }}'
        text = f"{settings(system, seed, arguments)}\n{compute}"
        run = gaia_nodes.write_run_file(Path(folder), regions, text, **link(arguments))
        command = [sys.executable, "-m", "gaia", "train", run, "--script", TRAIN, "--driver", "simulated"]
        task, progress = TASKS[arguments.task], Path(folder) / "out" / "progress.jsonl"
        with Processes(Path(folder)) as processes:
            processes.start("simulated", [*command, "--out", "out", "--quiet"], **variables(system, seed, arguments))
            while processes.running():
                time.sleep(0.5)
                reached = crossing(virtual(progress), task.target, task.higher_is_better)
                if reached.is_there:
                    return reached
        return crossing(virtual(progress), task.target, task.higher_is_better)


def plain_step_ms(arguments: argparse.Namespace) -> float:
    """What a step takes where three scripts train at the same time without any synchronisation: the median of the regions."""
    with tempfile.TemporaryDirectory(prefix="gaia-bench-") as folder, Processes(Path(folder)) as processes:
        environment = {**variables("alone", 1, arguments), "BENCH_STEPS": 10 * EVERY}
        for rank, name in enumerate(NAMES):
            processes.start(name, [sys.executable, TRAIN], **environment, RANK=rank, BENCH_NAME=name)
        processes.wait(300)
        logs = [lines_of(Path(folder) / f"{name}.jsonl") for name in NAMES]
    steps = [(log[-1]["time"] - log[1]["time"]) / (log[-1]["step"] - log[1]["step"]) * 1e3 for log in logs]
    return float(statistics.median(steps))


def record(found: dict[str, list[Reached]], system: str, seed: int, reached: Reached) -> None:
    found.setdefault(system, []).append(reached)
    words = f"{reached.seconds:.1f} s, {reached.step} steps, {reached.sent_mb:.1f} MB a region, {reached.metric:.3f}"
    print(f"seed {seed}, {system}: {'' if reached.is_there else 'not reached, '}{words}", file=sys.stderr, flush=True)


def show(found: dict[str, list[Reached]], arguments: argparse.Namespace) -> None:
    task = TASKS[arguments.task]
    seeds = ", ".join(str(seed) for seed in arguments.seeds)
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"\n{arguments.task} to {task.metric} {task.target}, links of {arguments.rate}, seeds {seeds}; {machine}")
    if arguments.step_ms is not None:
        print(f"simulated: a step takes {arguments.step_ms:.1f} ms")
    print(f"{'':28} {'reached':>8} {'seconds':>8} {'min':>7} {'max':>7} {'steps':>6} {'MB/region':>10} {task.metric:>9}")
    for system, runs in found.items():
        there = [one for one in runs if one.is_there]
        shown = there or runs
        seconds = [one.seconds for one in shown]
        steps, sent, metric = (statistics.median(getattr(one, key) for one in shown) for key in ("step", "sent_mb", "metric"))
        times = f"{statistics.median(seconds):8.1f} {min(seconds):7.1f} {max(seconds):7.1f}"
        print(f"{system:28} {len(there):>3} of {len(runs)} {times} {steps:6.0f} {sent:10.1f} {metric:9.3f}")
    for system, runs in found.items() if arguments.json else ():
        for seed, one in zip(arguments.seeds, runs, strict=False):
            print(json.dumps({"system": system, "seed": seed, "task": arguments.task, "rate": arguments.rate, **vars(one)}))


if __name__ == "__main__":
    raise SystemExit(main())
