#!/usr/bin/env python3
"""What it takes to push all parameters to a server in another process and to pull them, beside a TCP stream and ps-lite.

    python/bench/push_pull.py [--megabytes 5,100] [--runs 5] [--ps-lite FOLDER] [--json]

One data center: the script is its worker, and the server is a process of its own. Every step changes every parameter, so a clock
sends all of them to the server and back. The rate is that of both ways over the time of a step beyond that of the plain script.
It contains what the script does with them: subtracting, adding, copying. The reference is as many bytes there and back again over
one connection of TCP on loopback, between two processes, in the same run. With a checkout of ps-lite its worker and its server
push and pull as many parameters in turn with the others; its worker has nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import ps_lite
import tcp_stream
from gaia_nodes import Region, write_run_file
from rows import row
from running import Failed, Processes

STEPS = Path(__file__).with_name("steps.py").resolve()
WARM_UP, COUNT = 8, 32
SECONDS_MAX = 600.0
ONLY = Region("only", "127.0.0.1")
#: Of links, of which there is none.
LINK = {"bandwidth": "1 Gbit/s", "rtt": "1 ms"}


def main() -> int:
    arguments = parsed()
    try:
        with tempfile.TemporaryDirectory(prefix="gaia-bench-") as folder:
            peer = ps_lite.build(arguments.ps_lite, Path(folder)) if arguments.ps_lite else None
            for megabytes in arguments.megabytes:
                measure(megabytes, peer, arguments)
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def measure(megabytes: float, peer: Path | None, arguments: argparse.Namespace) -> None:
    """Shows what each system takes for this many bytes of parameters. They take turns, each after a stream of its own."""
    parameters = int(megabytes * 1e6 / 4) // 1000 * 1000
    plain = statistics.median(wall_seconds(parameters, None) for _ in range(arguments.runs))
    systems: dict[str, Callable[[], float]] = {
        "TLS": lambda: wall_seconds(parameters, True) - plain,
        "no TLS": lambda: wall_seconds(parameters, False) - plain,
    }
    if peer:
        systems["ps-lite"] = lambda: ps_lite.seconds_there_and_back(peer, parameters, WARM_UP, COUNT)
    rates: dict[str, list[float]] = {name: [] for name in systems}
    streams: dict[str, list[float]] = {name: [] for name in systems}
    moved = 2 * 4 * parameters / 1e9
    for _ in range(arguments.runs):
        for name, seconds in systems.items():
            streams[name].append(moved / tcp_stream.seconds_there_and_back(4 * parameters, WARM_UP, COUNT))
            rates[name].append(moved / seconds())
    for name in systems:
        show(f"push and pull of {megabytes:g} MB, {name}", rates[name], streams[name], arguments.json)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What it takes to push all parameters and to pull them.")
    parser.add_argument("--megabytes", type=numbers, default=[5.0, 100.0], help="[default: 5,100]")
    parser.add_argument("--runs", type=int, default=5, help="runs of each [default: 5]")
    parser.add_argument("--ps-lite", type=Path, metavar="FOLDER", help="a checkout of ps-lite, to be measured as well")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each figure")
    return parser.parse_args()


def numbers(text: str) -> list[float]:
    return [float(one) for one in text.split(",")]


def wall_seconds(parameters: int, with_tls: bool | None) -> float:
    """The time of a step: of the plain script, or of one with its server in another process."""
    with tempfile.TemporaryDirectory(prefix="gaia-bench-") as folder, Processes(Path(folder)) as processes:
        variables = {"BENCH_SYSTEM": "gaia", "BENCH_PARAMETERS": parameters, "OMP_NUM_THREADS": 1, "BENCH_NAME": "worker"}
        variables |= {"BENCH_WARM_UP": WARM_UP, "BENCH_STEPS": COUNT, "BENCH_AFTER": WARM_UP, "BENCH_EVERY": COUNT}
        if with_tls is None:
            processes.start("worker", [sys.executable, STEPS], **variables)
        else:
            settings = 'sync.remote = { model = "bsp" }\nstop.clocks = 1000000\nevaluate.every = 1000000'
            topology = f"lan_tls = {str(with_tls).lower()}"
            run = write_run_file(processes.folder, [ONLY], settings, **LINK, topology=topology)
            node = [sys.executable, "-m", "gaia", "node", run, "--script", STEPS, "--quiet"]
            processes.start("coordinator", [*node, "--coordinator", "--out", "out"], **variables)
            processes.start("server", [*node, "--dc", "only", "--server", 0, "--certs", "certs"], **variables)
            place = {"GAIA_RUN": run, "GAIA_DC": "only", "GAIA_ROLE": "worker", "GAIA_CERTS": processes.folder / "certs"}
            processes.start("worker", [sys.executable, STEPS], **place, **variables)
        processes.wait(SECONDS_MAX)
        return json.loads((processes.folder / "worker.json").read_text())["wall_ms"] / 1e3


def show(name: str, rates: list[float], streams: list[float], as_json: bool) -> None:
    ratios = [rate / stream for rate, stream in zip(rates, streams, strict=True)]
    rate, stream, ratio = (statistics.median(each) for each in (rates, streams, ratios))
    if as_json:
        print(json.dumps(row("push_pull", name, "GB/s", rates, ("a TCP stream", streams), more_is_better=True)), flush=True)
        return
    spread = f"{min(rates):.2f} to {max(rates):.2f}"
    ratios_spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"{name:36} {rate:6.2f} GB/s ({spread}), a TCP stream {stream:.2f}: {ratio:.2f} ({ratios_spread})", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
