#!/usr/bin/env python3
"""How far copies are from the exact result after a synchronisation, for Gaia and its peers. Needs root on Linux, for namespaces.

    python/bench/exactness.py [--regions 2] [--systems bsp,asp,ddp] [--steps 80] [--page docs/src/peers.md] [--json]

Each region takes steps of plain SGD on examples that the others lack, and adds up its own changes in double precision. After
the last synchronisation every copy is held against the mean of what all regions have changed. ``README.md`` says more.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import row_by_row
from cell import NAMES
from network import Network
from record import Differences, compared
from running import Failed, Processes
from systems import SYSTEMS, Started, Trial

#: Their result is meant to be the mean of what regions have changed. That of regions alone is not.
GAIA = ("bsp", "asp", "asp-residuals", "means-f32", "means", "means-residuals", "means-sparse", "means-sparse-residuals")
PEERS = ("ddp", "ddp-fp16", "powersgd-2", "powersgd-4", "post-local-sgd-8", "torchft-diloco-8", "hivemind-8", "alone")
MEANS = (*GAIA, *PEERS)
RATE, LINK = "1gbit", {"bandwidth": "1 Gbit/s", "rtt": "1 ms"}
LEARNING_RATE = 0.1
SECONDS_MAX = 300.0


def main() -> int:
    options = row_by_row.parser("How far copies are from the exact result.", MEANS, 2, len(NAMES))
    options.add_argument("--steps", type=int, default=80, help="of each region, a multiple of 8 [default: 80]")
    arguments = row_by_row.parsed(options)
    if wrong := [name for name in arguments.systems if arguments.steps % SYSTEMS[name].sync_every]:
        options.error(f"{arguments.steps} steps of {wrong[0]} do not end with a synchronisation")
    row_by_row.measure(arguments, "exactness", lambda system: measured(system, arguments.regions, arguments.steps), table)
    return 0


def measured(system: str, regions: int, steps: int) -> Differences:
    """Trains with a system until the last step, and compares the copies that regions end with.

    Raises:
        Failed: A process has failed, or does not end.
    """
    trial = Trial("digits", system, 1, LEARNING_RATE, steps, records=True)
    with (
        tempfile.TemporaryDirectory(prefix="gaia-bench-") as name,
        Network(NAMES[:regions], RATE, Path(name)) as network,
        Processes(Path(name)) as processes,
    ):
        started, until = Started(trial, processes, network.regions, LINK), time.monotonic() + SECONDS_MAX
        while started.is_running():
            time.sleep(0.1)
            if time.monotonic() > until:
                raise Failed(f"it has not ended after {SECONDS_MAX:.0f} s")
        return compared([processes.folder / f"{region}.pt" for region in started.names])


def table(found: dict[str, Differences]) -> str:
    """A row for each system."""
    rows = [f"| {SYSTEMS[system].label} | {one.between_copies:.1e} | {one.from_exact:.1e} |" for system, one in found.items()]
    return "\n".join(["| | between copies | from the exact result |", "|---|--:|--:|", *rows])


if __name__ == "__main__":
    raise SystemExit(main())
