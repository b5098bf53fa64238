#!/usr/bin/env python3
"""What a new user is told over many data sets, with no setting but the data.

`--table settled`: each set is trained over three simulated regions until `stop.change = {}` calls its objective settled.
Beside it stand by how much the objective is then above its minimum, and what a predictor that has learnt nothing reaches.

`--table models`: remote models are compared over links on which a clock of BSP takes 4.5 times as long as on a LAN. What
is printed is the time to the LAN's objective in units of the LAN's own, and the bytes until then.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizers import SETS, clocks_per_pass, default_batch, minimum, penalised, result, write
from optimizers_beyond_linear import movielens, write_ratings


@dataclass(frozen=True)
class Task:
    """The settings of an application and its data, and what is known about it."""

    kind: str
    settings: str
    clocks_per_pass: int
    least: float | None


def linear(name: str, data: Path, folder: Path) -> Task:
    """A set of `optimizers.py`, with the penalty that it has there."""
    kind, load = SETS[name]
    examples = load(data)
    rows = len(examples.y)
    penalty, setting = penalised(name, kind, rows)
    clocks = clocks_per_pass(rows, default_batch(kind, "adagrad", rows))
    return Task(kind, f"{write(kind, examples, folder)}\n{setting}", clocks, minimum(kind, examples, penalty))


def ratings(data: Path, folder: Path) -> Task:
    """MovieLens latest-small."""
    rated = movielens(data)
    write_ratings(rated, ~rated.held_out, 1, folder / "data.csv")
    return Task("matrix-factorization", 'app.data = { source = "csv", path = "data.csv" }', 10, None)


def topics(data: Path, _folder: Path) -> Task:
    """The KOS blog."""
    path = (data / "uci_kos/docword.kos.txt.gz").resolve()
    return Task("topic-model", f'app.data = {{ source = "docword", path = "{path}" }}', 4, None)


def load(name: str, data: Path, folder: Path) -> Task:
    if name == "movielens":
        return ratings(data, folder)
    return topics(data, folder) if name == "kos" else linear(name, data, folder)


def call(gaia: str, verb: str, task: Task, folder: Path, flags: list[str]) -> dict[str, Any]:
    """What the program prints as JSON. A clock takes half a second, and there are four evaluations in a pass."""
    every = max(1, task.clocks_per_pass // 4)
    (folder / "run.toml").write_text(
        f'name = "defaults"\ndriver = "simulated"\napp.kind = "{task.kind}"\n{task.settings}\n'
        f'topology.file = "three-regions"\nsync.remote.model = "asp"\nevaluate.every = {every}\n'
        f"stop.change = {{}}\nstop.clocks = {PASSES_MAX * task.clocks_per_pass}\n"
        # No time of an iteration but this one.
        'compute.flops_per_second = 1e15\ncompute.clock_overhead = "500 ms"\n'
    )
    return result(gaia, verb, folder, flags)


def settled(gaia: str, task: Task, folder: Path) -> list[str]:
    """The cells of a set."""
    summary = call(gaia, "train", task, folder, [])
    excess = "" if task.least is None else f"{100 * (summary['objective'] / task.least - 1):.1f} %"
    trivial = summary.get("trivial") or {}
    return [
        "settled" if summary["converged"] else "stopped",
        f"{summary['clocks'] / task.clocks_per_pass:.1f}",
        f"{summary['objective']:.4g}",
        excess,
        f"{summary['metric']['value']:.4g}",
        f"{trivial['metric']:.4g}" if trivial else "",
    ]


def models(gaia: str, task: Task, folder: Path) -> list[str]:
    """The cells of a set."""
    compared = call(gaia, "compare", task, folder, ["--remote", ",".join(MODELS), "--slowdown", "4.5"])
    lan, *rows = compared["rows"]
    cells = [f"{lan['time_to_target_s']:.0f} s"]
    for row in rows:
        time, sent = row["time_to_target_s"], row["wan_bytes_to_target"]
        cells.append("never" if time is None else f"{time / lan['time_to_target_s']:.2f} × {sent / 1e6:.3g} MB")
    return cells


MODELS = ["bsp", "asp", "tap", "local-steps"]
TABLES = {
    "settled": (settled, ["", "passes", "objective", "above the minimum", "metric", "without learning"]),
    "models": (models, ["BSP on the LAN", *MODELS]),
}
TASKS = [*SETS, "movielens", "kos"]
PASSES_MAX = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gaia", default="target/release/gaia", help="the program")
    parser.add_argument("--data", type=Path, default=Path("data"), help="the folder of the data sets")
    parser.add_argument("--sets", default=",".join(TASKS), help="which data sets")
    parser.add_argument("--table", choices=list(TABLES), default="settled", help="what is measured")
    chosen = parser.parse_args()

    cells, columns = TABLES[chosen.table]
    print("| set | " + " | ".join(columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for name in chosen.sets.split(","):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            print("| " + " | ".join([name, *cells(chosen.gaia, load(name, chosen.data, folder), folder)]) + " |", flush=True)


if __name__ == "__main__":
    main()
