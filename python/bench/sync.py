#!/usr/bin/env python3
"""What a synchronisation costs: processor time and memory of a process, beside those of the plain script.

    python/bench/sync.py [--parameters 1e6,1e7] [--device cuda] [--systems asp,bsp] [--peers] [--runs 3] [--check] [--json]

Two processes train at the same time, each a data center with its worker and its server in one process, over QUIC and TLS on
loopback. Every step changes every parameter. Processor time and memory are differences to the same script without Gaia, wall
time is that of the step; ratios are to one pass over the parameters, which is measured beside them. With ``--device cuda`` both
train on the device of this machine. ``README.md`` says more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaia_nodes import LOOPBACK, start, write_run_file
from rows import row
from running import Failed, Processes, free_port

STEPS = Path(__file__).with_name("steps.py").resolve()
EVERY = 16

#: The most clocks that two data centers are apart.
CLOCKS_APART = 8

#: What a real run believes of its link: ASP fills it. Loopback itself is not shaped.
LINK = {"bandwidth": "1 Gbit/s", "rtt": "1 ms"}

ASP = 'sync.remote = { model = "asp", function = "progress", threshold = 0.1 }'
BSP = 'sync.remote = { model = "bsp" }'
LOCAL_STEPS = f'sync.remote = {{ model = "local-steps", steps = {EVERY} }}'
#: As ``auto`` chooses for networks over slow links, in every clock.
SPARSE = 'steps = 1, overlap = 0, density = 0.03, total_density = 0.03, outer_momentum = 0.5, values = "int4"'
SPARSE_ROUNDS = f'sync.remote = {{ model = "local-steps", {SPARSE} }}'

ONE = """
name = "one"
driver = "simulated"
app.kind = "external"
stop.clocks = 1000000
evaluate.every = 1000000
topology = { name = "one", data_center = [{ name = "only", servers = 1, workers = 1 }], wan = {} }
"""


@dataclass(frozen=True)
class System:
    """What is measured."""

    name: str
    title: str
    measure: Measure
    #: The most that ``--check`` allows at ``CHECKED_FROM`` parameters, in milliseconds.
    ms_max: float | None = None
    #: What its figures are differences to.
    beside: str | None = "plain"
    is_peer: bool = False
    #: Whether steps are made between two synchronisations.
    has_between: bool = False


@dataclass(frozen=True)
class Measuring:
    """One measurement."""

    parameters: int
    steps: int
    warm_up: int
    device: str
    folder: Path

    def variables(self, system: str, steps_per_clock: int = 1) -> dict[str, Any]:
        """The environment of ``steps.py``."""
        # Clocks, and not steps: data centers are clocks apart, and the first whose script ends ends the run for all.
        after = max(self.warm_up, CLOCKS_APART * steps_per_clock)
        counts = {"BENCH_WARM_UP": self.warm_up, "BENCH_STEPS": self.steps, "BENCH_AFTER": after}
        shape = {"BENCH_PARAMETERS": self.parameters, "BENCH_DEVICE": self.device}
        clocks = {"BENCH_STEPS_PER_CLOCK": steps_per_clock, "BENCH_EVERY": EVERY}
        return {"BENCH_SYSTEM": system, "OMP_NUM_THREADS": 1, **counts, **shape, **clocks}

    def results(self, names: list[str]) -> list[dict[str, float]]:
        """What the processes of these names have measured."""
        return [json.loads((self.folder / f"{name}.json").read_text()) for name in names]


Measure = Callable[[Measuring], list[dict[str, float]]]


def pair(system: str) -> Measure:
    """Two processes of a system that needs no others."""

    def measure(measuring: Measuring) -> list[dict[str, float]]:
        port, names = free_port(), ["east", "west"]
        with Processes(measuring.folder) as processes:
            for rank, name in enumerate(names):
                group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": rank, "WORLD_SIZE": 2}
                variables = {"BENCH_NAME": name, "GLOO_SOCKET_IFNAME": "lo", "BENCH_RANK": rank, **measuring.variables(system)}
                processes.start(name, [sys.executable, STEPS], **group, **variables)
            processes.wait(SECONDS_MAX)
        return measuring.results(names)

    return measure


def torchft(algorithm: str) -> Measure:
    """Two processes of torchft, and its lighthouse."""

    def measure(measuring: Measuring) -> list[dict[str, float]]:
        port, names = free_port(), ["east", "west"]
        lighthouse = [Path(sys.executable).with_name("torchft_lighthouse"), "--min_replicas", 2, "--join_timeout_ms", 10_000]
        with Processes(measuring.folder) as processes:
            processes.start("lighthouse", [*lighthouse, "--bind", f"127.0.0.1:{port}"])
            for rank, name in enumerate(names):
                variables = {"BENCH_NAME": name, "BENCH_RANK": rank, "TORCHFT_LIGHTHOUSE": f"http://127.0.0.1:{port}"}
                processes.start(name, [sys.executable, STEPS], **variables, **measuring.variables(f"torchft-{algorithm}"))
            processes.wait(SECONDS_MAX, names)
        return measuring.results(names)

    return measure


def real(remote: str, steps_per_clock: int = 1, with_state: bool = False) -> Measure:
    """Two data centers, and the coordinator."""

    def measure(measuring: Measuring) -> list[dict[str, float]]:
        settings = f"{remote}\nstop.clocks = 1000000\nevaluate.every = 1000000"
        run = write_run_file(measuring.folder, LOOPBACK, settings, **LINK)
        with Processes(measuring.folder) as processes:
            variables = measuring.variables("gaia", steps_per_clock)
            names = list(start(processes, LOOPBACK, run, STEPS, with_state=with_state, **variables))
            processes.wait(SECONDS_MAX)
        return measuring.results(names)

    return measure


def one_data_center(remote: str) -> Measure:
    """A worker and a server that are threads of one process. Nothing is sent."""

    def measure(measuring: Measuring) -> list[dict[str, float]]:
        run = measuring.folder / "one.toml"
        run.write_text(f"{remote}\n{ONE}")
        with Processes(measuring.folder) as processes:
            command = [sys.executable, "-m", "gaia", "train", run, "--script", STEPS, "--out", "out", "--quiet"]
            processes.start("alone", command, **measuring.variables("gaia"))
            processes.wait(SECONDS_MAX)
        return measuring.results(["alone"])

    return measure


SYSTEMS = (
    System("pass", "one pass over the parameters", pair("pass"), beside=None),
    System("plain", "the plain script", pair("gaia"), beside=None),
    System("one-bsp", "one data center, bsp: binding and core", one_data_center(BSP)),
    System("one-asp", "one data center, asp", one_data_center(ASP), ms_max=15),
    System("bsp", "two data centers, bsp", real(BSP), ms_max=75),
    System("asp", "two data centers, asp", real(ASP), ms_max=75),
    System("local-steps", f"two data centers, local-steps, {EVERY} clocks a round", real(LOCAL_STEPS), has_between=True),
    System("sparse-rounds", "two data centers, rounds of 3 % in int4", real(SPARSE_ROUNDS)),
    System("asp-16", f"two data centers, asp, steps_per_clock={EVERY}", real(ASP, EVERY), ms_max=8, has_between=True),
    System("bsp-16", f"two data centers, bsp, steps_per_clock={EVERY}", real(BSP, EVERY), ms_max=8, has_between=True),
    System("gloo", "PyTorch, gloo all-reduce", pair("gloo"), is_peer=True),
    System("torchft-local-sgd", "torchft LocalSGD, sync_every=1", torchft("local-sgd"), is_peer=True),
    System("torchft-diloco", "torchft DiLoCo, sync_every=1", torchft("diloco"), is_peer=True),
    # They wait for the disk, so they come last.
    System("bsp-state", "two data centers, bsp, GAIA_STATE", real(BSP, with_state=True)),
    System("asp-state", "two data centers, asp, GAIA_STATE", real(ASP, with_state=True)),
)

#: The longest that a measurement may take.
SECONDS_MAX = 900.0
#: Targets are those of large models: below this, what does not depend on the parameters is most of a clock.
CHECKED_FROM = 10_000_000
#: What one pass over as many took where the targets were set. A machine whose pass takes longer may take longer by as much.
PASS_MS = 11.0
#: What a parameter may take in a process, so that a machine with less memory leaves a measurement out.
BYTES_PER_PARAMETER = 80


def main() -> int:
    arguments = parsed()
    chosen = [system for system in SYSTEMS if is_chosen(system, arguments)]
    lines = [line for count in arguments.parameters for line in measured(count, chosen, arguments)]
    if arguments.json:
        for line in lines:
            print(json.dumps({key: value for key, value in line.items() if key not in ("title", "target")}))
    failed = [line for line in lines if line.get("target") is not None and line["value"] > line["target"]]
    for line in failed if arguments.check else []:
        found, allowed = (f"{ms:.1f} ms, {ms / line['reference_value']:.2f} passes" for ms in (line["value"], line["target"]))
        print(f"{line['name']}: {found}, expected at most {allowed}", file=sys.stderr)
    return 1 if arguments.check and failed else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a synchronisation costs.")
    sizes = [1_000_000, 10_000_000]
    parser.add_argument("--parameters", type=counts, default=sizes, help="numbers of parameters [default: 1e6,1e7]")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where the scripts train [default: cpu]")
    parser.add_argument("--systems", type=lambda text: text.split(","), help="names of systems [default: all that are installed]")
    parser.add_argument("--peers", action="store_true", help="measure PyTorch's gloo and torchft as well")
    parser.add_argument("--runs", type=int, default=3, help="runs of each system, in turn [default: 3]")
    parser.add_argument("--steps", type=int, default=3 * EVERY, help=f"steps that are measured, a multiple of {EVERY}")
    parser.add_argument("--warm-up", type=int, default=EVERY, help=f"steps before these, likewise [default: {EVERY}]")
    parser.add_argument("--check", action="store_true", help="end with 1 where a system takes more than its target")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each figure, after the table")
    arguments = parser.parse_args()
    unknown = set(arguments.systems or ()) - {system.name for system in SYSTEMS}
    if unknown:
        parser.error(f"unknown systems {sorted(unknown)}, expected some of {[system.name for system in SYSTEMS]}")
    if arguments.device != "cpu" and any(system.is_peer and is_chosen(system, arguments) for system in SYSTEMS):
        parser.error("peers are measured on the CPU, expected --device cpu")
    rounds = [system.name for system in SYSTEMS if system.has_between and is_chosen(system, arguments)]
    if rounds and (arguments.steps % EVERY or arguments.warm_up % EVERY):
        found = f"--warm-up {arguments.warm_up} and --steps {arguments.steps}"
        parser.error(f"{rounds[0]} synchronises every {EVERY} steps, expected multiples of that, found {found}")
    return arguments


def counts(text: str) -> list[int]:
    """Numbers of parameters, such as 1e6,1e7: whole rows of 1,000."""
    return [int(float(one)) // 1000 * 1000 for one in text.split(",")]


def is_chosen(system: System, arguments: argparse.Namespace) -> bool:
    if system.beside is None:
        return True
    if arguments.systems is not None:
        return system.name in arguments.systems
    return arguments.peers or not system.is_peer


def measured(parameters: int, systems: list[System], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures all systems in turn, as often as asked, and prints them as a table. Returns a line for each figure."""
    if (needed := 3 * BYTES_PER_PARAMETER * parameters) > available_bytes():
        print(f"{parameters:,} parameters: skipped, {needed / 1e9:.0f} GB of memory are needed")
        return []
    runs: dict[str, list[list[dict[str, float]]]] = {system.name: [] for system in systems}
    for _ in range(arguments.runs):
        for system in systems:
            with tempfile.TemporaryDirectory(prefix="gaia-bench-") as folder:
                try:
                    steps, warm_up = arguments.steps, arguments.warm_up
                    found = system.measure(Measuring(parameters, steps, warm_up, arguments.device, Path(folder)))
                except (Failed, FileNotFoundError) as failure:
                    print(f"{system.name}: left out, {failure}", file=sys.stderr)
                    continue
            runs[system.name].append(found)
            cpu_ms = statistics.mean(one["cpu_ms"] for one in found)
            print(f"{parameters:,} parameters, {system.name}: {cpu_ms:.2f} ms with its step", file=sys.stderr, flush=True)
    found_of_each = [found for system in systems if (found := figures(system, runs, parameters, arguments.device))]
    show(parameters, arguments.device, found_of_each)
    return [line for found in found_of_each for line in found.values()]


def figures(
    system: System, runs: dict[str, list[list[dict[str, float]]]], parameters: int, device: str
) -> dict[str, dict[str, Any]]:
    """The processor time of a step and the memory, of one process, beyond those of the plain script. By their kind."""
    own, passes, plain = runs[system.name], values(runs["pass"], "cpu_ms"), runs["plain"]
    if not own or not passes or not plain:
        return {}
    reference = statistics.median(passes)

    def beyond(key: str) -> list[float]:
        of_plain = 0.0 if system.beside is None else statistics.median(values(plain, key))
        return [one - of_plain for one in values(own, key)]

    def named(kind: str, runs: list[float], unit: str, what: str, reference: float) -> dict[str, Any]:
        where = "" if device == "cpu" else f"/{device}"
        name = f"{kind}/{system.name}/{parameters / 1e6:g}M{where}"
        return row("sync", name, unit, runs, (what, [reference] * len(runs))) | {"title": system.title}

    target = None
    if system.ms_max is not None and parameters >= CHECKED_FROM:
        target = system.ms_max * max(parameters / CHECKED_FROM, reference / PASS_MS)
    each, copy = "bytes/parameter", ("a copy of the parameters", 4.0)
    found = {
        "sync": named("sync", beyond("cpu_ms"), "ms", "a pass", reference) | {"target": target},
        "wall": named("wall", values(own, "wall_ms"), "ms", "a pass", reference),
        "memory": named("memory", [one / parameters for one in beyond("peak_bytes")], each, *copy),
    }
    if system.has_between:
        of_plain = statistics.median(values(plain, "between_ms"))
        found["between"] = named("between", beyond("between_ms"), "ms", "a step of the plain script", of_plain)
    if device != "cpu" and system.beside is not None:
        found["device"] = named("device", [one / parameters for one in beyond("device_bytes")], each, *copy)
    return found


def values(runs: list[list[dict[str, float]]], key: str) -> list[float]:
    """A figure of each run: the mean of its processes."""
    return [statistics.mean(one[key] for one in run) for run in runs]


def show(parameters: int, device: str, found_of_each: list[dict[str, dict[str, Any]]]) -> None:
    print(f"\n{parameters:,} parameters, {device}, a process and step; {load()}")
    heads = f"{'cpu ms':>8} {'min':>8} {'max':>8} {'passes':>7} {'target':>7} {'wall ms':>8} {'between':>8} {'bytes/par.':>10}"
    print(f"{'':52} {heads} {'' if device == 'cpu' else f'on {device}':>8}")
    for found in found_of_each:
        time, wall, memory = found["sync"], found["wall"], found["memory"]
        (least, most), target = time["range"], time["target"]
        passes = f"{time['value'] / time['reference_value']:7.2f} {'' if target is None else f'{target:.0f}':>7}"
        spread = f"{time['value']:8.2f} {least:8.2f} {most:8.2f}"
        between, on_device = (f"{found[kind]['value']:8.2f}" if kind in found else f"{'':8}" for kind in ("between", "device"))
        print(f"{time['title']:52} {spread} {passes} {wall['value']:8.1f} {between} {memory['value']:10.1f} {on_device}".rstrip())
    print(flush=True)


def available_bytes() -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    return next(float(one.split()[1]) * 1024 for one in lines if one.startswith("MemAvailable:"))


def load() -> str:
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
