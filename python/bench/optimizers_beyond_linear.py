#!/usr/bin/env python3
"""How well perceptrons and factorisation learn with their default step sizes, beside scikit-learn and alternating least squares.

Runs are those of `optimizers.py`. A perceptron of 64 units has twice the passes of `MLPClassifier`, neither with a penalty. Of it
the mean log loss over the training examples is printed, since nobody knows its minimum, and that of `MLPClassifier` with the
features as they are and with standardised ones. Of a factorisation it is the root mean squared error over ratings held out, in
units of the original ratings.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from optimizers import SETS, WORKERS, Examples, add_flags, cases, default_batch, of_case, train, write
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler


@dataclass(frozen=True)
class Rated:
    """Ratings by user and item, both of which count from 0, and which of the ratings are held out."""

    user: Any
    item: Any
    value: Any
    held_out: Any

    def some(self, chosen: Any) -> tuple[Any, Any, Any]:
        return self.user[chosen], self.item[chosen], self.value[chosen]


def movielens(data: Path) -> Rated:
    """MovieLens latest-small. A tenth is held out, of users and items that others are rated by and of."""
    with gzip.open(data / "movielens_latest_small/ratings.csv.gz", "rt") as text:
        columns = list(zip(*list(csv.reader(text))[1:], strict=True))
    user, item = (np.unique(column, return_inverse=True)[1] for column in columns[:2])
    held_out = np.random.default_rng(5).random(len(user)) < 0.1
    held_out &= np.isin(user, user[~held_out]) & np.isin(item, item[~held_out])
    return Rated(user, item, np.array(columns[2], float), held_out)


def least_squares(rated: Rated, rank: int = 16, penalty: float = 0.1, passes: int = 10) -> float:
    """The error that alternating least squares ends with, whose penalty of a row grows with its ratings (Zhou et al. 2008)."""
    user, item, value = rated.some(~rated.held_out)
    mean, random = value.mean(), np.random.default_rng(1)
    # The first two columns: the bias of the user times 1, and 1 times the bias of the item.
    users, items = (random.normal(0, 0.1, (int(of.max()) + 1, 2 + rank)) for of in (rated.user, rated.item))
    users[:, :2], items[:, :2] = (0, 1), (1, 0)

    def solve(own: Any, other: Any, rows: Any, others: Any, fixed: int) -> None:
        free = [column for column in range(2 + rank) if column != fixed]
        order = np.argsort(own, kind="stable")
        for at in np.split(order, np.flatnonzero(np.diff(own[order])) + 1):
            row, seen = own[at[0]], others[other[at]]
            wanted = value[at] - mean - seen[:, fixed]
            seen = seen[:, free]
            rows[row, free] = np.linalg.solve(seen.T @ seen + penalty * len(at) * np.eye(len(free)), seen.T @ wanted)

    for _ in range(passes):
        solve(user, item, users, items, 1)
        solve(item, user, items, users, 0)
    user, item, value = rated.some(rated.held_out)
    return float(np.sqrt(np.mean((value - mean - (users[user] * items[item]).sum(axis=1)) ** 2)))


def rings(_data: Path) -> Examples:
    """Three rings around each other, in two features of unlike scales far from zero, and a third that says nothing."""
    random = np.random.default_rng(5)
    y = random.integers(0, 3, 6000)
    angle, radius = random.uniform(0, 2 * np.pi, y.size), 1 + y + 0.15 * random.normal(size=y.size)
    large, small = 1000 + 500 * radius * np.cos(angle), 0.02 + 0.001 * radius * np.sin(angle)
    return Examples(np.column_stack([large, small, 30 * random.normal(size=y.size)]), y)


def perceptron(load: Callable[[Path], Examples]) -> Callable[[argparse.Namespace, Path], list[str]]:
    """The cells of a perceptron on a set of dense examples."""

    def cells(chosen: argparse.Namespace, folder: Path) -> list[str]:
        examples = load(chosen.data)
        rows = len(examples.y)
        losses = []
        for x in (examples.x, StandardScaler().fit_transform(examples.x)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = MLPClassifier((64,), alpha=0, max_iter=THEIR_PASSES, random_state=1).fit(x, examples.y)
            losses.append(f"{theirs.loss_:.4f}")
        data = write("perceptron", examples, folder)
        data += f"\napp.hidden = [64]\napp.weight_decay = 0.0\napp.evaluate_examples = {rows}"
        found = [f"{THEIR_PASSES}: {', '.join(losses)}", f"{2 * THEIR_PASSES}"]
        for case in cases(chosen):
            batch = default_batch("perceptron", case[0], rows)
            settings = of_case(case, data, chosen)
            found.append(trained(chosen.gaia, settings, batch, rows, folder))
        return found

    return cells


def trained(gaia: str, settings: str, batch: int, rows: int, folder: Path) -> str:
    """The loss with which a perceptron ends."""
    try:
        summary = train(gaia, "perceptron", settings, batch, 2 * THEIR_PASSES, rows, folder)
    except SystemExit as error:
        if "diverged" in str(error):
            return "diverges"
        raise
    return f"{summary['objective']:.4f}"


def write_ratings(rated: Rated, chosen: Any, factor: float, path: Path) -> None:
    """Writes some of the ratings, so many times as large."""
    user, item, value = rated.some(chosen)
    table = np.column_stack([user, item, factor * value])
    np.savetxt(path, table, fmt=["%d", "%d", "%g"], delimiter=",", header="user,item,rating", comments="")


def factorization(factor: float) -> Callable[[argparse.Namespace, Path], list[str]]:
    """The cells of a factorisation of ratings that are so many times as large."""

    def cells(chosen: argparse.Namespace, folder: Path) -> list[str]:
        rated = movielens(chosen.data)
        for name, of in (("data.csv", ~rated.held_out), ("validation.csv", rated.held_out)):
            write_ratings(rated, of, factor, folder / name)
        data = 'app.data = { source = "csv", path = "data.csv" }\nevaluate.data = "validation.csv"'
        rows = int((~rated.held_out).sum())
        # A pass of each worker is ten clocks.
        batch = -(-rows // (10 * WORKERS))
        found = [f"10: {least_squares(rated):.4f}", "20"]
        for optimizer, remote, split in cases(chosen):
            if split != "even" or optimizer != "default":
                found.append("")
                continue
            settings = of_case((optimizer, remote, split), data, chosen)
            summary = train(chosen.gaia, "matrix-factorization", settings, batch, 20, rows, folder)
            found.append(f"{summary['metric']['value'] / factor:.4f}")
        return found

    return cells


PERCEPTRONS = ("digits", "wine", "iris", "cancer-dense", "scales-dense", "hundred", "mnist")

TASKS: dict[str, Callable[[argparse.Namespace, Path], list[str]]] = {
    **{f"perceptron-{name}": perceptron(SETS[name][1]) for name in PERCEPTRONS},
    "perceptron-rings": perceptron(rings),
    "movielens": factorization(1),
    "movielens-100": factorization(20),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_flags(parser, TASKS)
    chosen = parser.parse_args()

    print("| set | passes of the other and what it ends with | ours | " + " | ".join(map(" ".join, cases(chosen))) + " |")
    print("|---|--:|--:|" + "--:|" * len(cases(chosen)))
    for name in chosen.sets.split(","):
        with tempfile.TemporaryDirectory() as made:
            print("| " + " | ".join([name, *TASKS[name](chosen, Path(made))]) + " |", flush=True)


THEIR_PASSES = 20

if __name__ == "__main__":
    main()
