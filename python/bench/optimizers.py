#!/usr/bin/env python3
"""How close linear models come to the optimum with their default step sizes, beside scikit-learn.

Each data set is learnt over three simulated regions, two workers each, in at most twice the passes of scikit-learn's default
solver, of which each is one iteration, and in at most a hundred. What is printed is by how many percent the objective over the
training examples is above its minimum, which L-BFGS finds in standardised coordinates. `optimizers_beyond_linear.py` measures
networks and factorisation.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn import datasets
from sklearn.linear_model import LogisticRegression

WORKERS = 6


@dataclass(frozen=True)
class Examples:
    """Examples and their classes, which count from 0. Sparse ones have two classes."""

    x: Any
    y: Any

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1


def bundled(name: str) -> Callable[[Path], Examples]:
    """A data set that scikit-learn brings along."""
    return lambda _data: Examples(*getattr(datasets, f"load_{name}")(return_X_y=True))


def sparsely(dense: Callable[[Path], Examples]) -> Callable[[Path], Examples]:
    """The same as sparse examples."""

    def made(data: Path) -> Examples:
        examples = dense(data)
        return Examples(sp.csr_matrix(examples.x), examples.y)

    return made


def a9a(data: Path) -> Examples:
    """The Adult census data, of binary features."""
    x, y = datasets.load_svmlight_file(str(data / "libsvm/a9a.gz"))
    return Examples(x.tocsr(), (y > 0).astype(int))


def mnist(data: Path) -> Examples:
    """The first 10,000 of the handwritten digits."""

    def read(name: str, start: int) -> Any:
        return np.frombuffer(gzip.open(data / "mnist" / name).read(), np.uint8, offset=start)

    x = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:10_000] / 255.0
    return Examples(x, read("train-labels-idx1-ubyte.gz", 8)[:10_000].astype(int))


def rare(_data: Path) -> Examples:
    """Binary features, one example in a hundred of the positive class."""
    random = np.random.default_rng(1)
    x = sp.random(20_000, 100, density=0.15, random_state=1, format="csr")
    x.data[:] = 1
    odds = x @ (0.8 * random.normal(size=100))
    offset = np.quantile(odds, 0.99) + 1.3
    return Examples(x, (random.random(20_000) < 1 / (1 + np.exp(offset - odds))).astype(int))


def scales(classes: int) -> Callable[[Path], Examples]:
    """Features of scales from a thousandth to a thousand, far from zero."""

    def made(_data: Path) -> Examples:
        random = np.random.default_rng(2)
        y = random.integers(0, classes, 10_000)
        x = 0.7 * random.normal(size=(classes, 30))[y] + random.normal(size=(10_000, 30)) + 3 * random.normal(size=30)
        return Examples(x * 10 ** np.linspace(-3, 3, 30), y)

    return made


def wide(_data: Path) -> Examples:
    """A hundred thousand sparse features, most of them rare."""
    random = np.random.default_rng(3)
    share = 1 / np.arange(1, 100_001)
    columns = random.choice(100_000, size=20_000 * 50, p=share / share.sum())
    x = sp.csr_matrix((np.ones(columns.size), (np.repeat(np.arange(20_000), 50), columns)), shape=(20_000, 100_000))
    x.sum_duplicates()
    x.data[:] = 1
    odds = 0.5 * (x @ random.normal(size=100_000))
    return Examples(x, (random.random(20_000) < 1 / (1 + np.exp(-odds))).astype(int))


def hundred(_data: Path) -> Examples:
    """A hundred classes."""
    random = np.random.default_rng(4)
    y = random.integers(0, 100, 12_000)
    return Examples(0.8 * random.normal(size=(100, 50))[y] + random.normal(size=(12_000, 50)), y)


SETS: dict[str, tuple[str, Callable[[Path], Examples]]] = {
    "a9a": ("logistic-regression", a9a),
    "rare": ("logistic-regression", rare),
    "wide": ("logistic-regression", wide),
    "scales": ("logistic-regression", sparsely(scales(2))),
    "cancer": ("logistic-regression", sparsely(bundled("breast_cancer"))),
    "mnist": ("softmax-regression", mnist),
    "digits": ("softmax-regression", bundled("digits")),
    "wine": ("softmax-regression", bundled("wine")),
    "iris": ("softmax-regression", bundled("iris")),
    "cancer-dense": ("softmax-regression", bundled("breast_cancer")),
    "scales-dense": ("softmax-regression", scales(5)),
    "hundred": ("softmax-regression", hundred),
}


def minimum(kind: str, examples: Examples, penalty: float) -> float:
    """The least objective of the application."""
    return float(minimize(*objective(kind, examples, penalty), jac=True, method="L-BFGS-B", options=LBFGS).fun)


def objective(kind: str, examples: Examples, penalty: float) -> tuple[Any, Any]:
    """The objective and its gradient, in standardised coordinates, and where to start."""
    x, y, rows = examples.x, examples.y, len(examples.y)
    outputs = 1 if kind == "logistic-regression" else examples.classes
    mean, scale = moments(x)
    presence = np.asarray((x != 0).mean(axis=0)).ravel() if outputs == 1 else np.ones(x.shape[1])

    def value(flat: Any) -> tuple[float, Any]:
        weights = flat.reshape(outputs, -1)[:, :-1] / scale
        logits = x @ weights.T + (flat.reshape(outputs, -1)[:, -1] - weights @ mean)
        if outputs == 1:
            sign = np.where(y > 0, 1.0, -1.0)
            margin = sign * logits[:, 0]
            loss = np.logaddexp(0, -margin).mean()
            slope = (-sign / (1 + np.exp(np.minimum(margin, 500))))[:, None] / rows
        else:
            logits -= logits.max(axis=1, keepdims=True)
            slope = np.exp(logits)
            total = slope.sum(axis=1, keepdims=True)
            loss = (np.log(total[:, 0]) - logits[np.arange(rows), y]).mean()
            slope /= total
            slope[np.arange(rows), y] -= 1
            slope /= rows
        of_bias = slope.sum(axis=0)
        of_weights = (np.asarray(x.T @ slope).T + penalty * presence * weights - np.outer(of_bias, mean)) / scale
        return loss + 0.5 * penalty * (presence * weights**2).sum(), np.column_stack([of_weights, of_bias]).ravel()

    return value, np.zeros(outputs * (x.shape[1] + 1))


def of_scikit_learn(kind: str, examples: Examples, penalty: float) -> tuple[float, int]:
    """The objective that scikit-learn's default solver ends with, and its passes.

    Where features that few examples have are penalised by how often they occur, it is given features that make its own
    penalty the same.
    """
    x, rows = examples.x, len(examples.y)
    unit = np.ones(x.shape[1])
    if kind == "logistic-regression":
        unit = np.sqrt(np.maximum(np.asarray((x != 0).mean(axis=0)).ravel(), 1 / rows))
        x = (x @ sp.diags(1 / unit)).tocsr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(C=1 / (penalty * rows)).fit(x, examples.y)
    coefficients, intercept = model.coef_ / unit, model.intercept_
    if kind == "softmax-regression" and examples.classes == 2:
        coefficients, intercept = np.vstack([-coefficients, coefficients]) / 2, np.append(-intercept, intercept) / 2
    value, _start = objective(kind, examples, penalty)
    mean, scale = moments(examples.x)
    flat = np.column_stack([coefficients * scale, intercept + coefficients @ mean]).ravel()
    return float(value(flat)[0]), int(model.n_iter_.max())


def moments(x: Any) -> tuple[Any, Any]:
    """The means of all features and their standard deviations, 1 of those that are constant."""
    mean = np.asarray(x.mean(axis=0)).ravel()
    square = np.asarray(x.multiply(x).mean(axis=0)).ravel() if sp.issparse(x) else (x * x).mean(axis=0)
    scale = np.sqrt(np.maximum(square - mean * mean, 0))
    scale[scale == 0] = 1
    return mean, scale


def write(kind: str, examples: Examples, folder: Path) -> str:
    """Writes the examples, and the first of them as validation set, and returns the settings of the data."""
    if kind == "logistic-regression":
        for name, rows in (("data", len(examples.y)), ("validation", 50)):
            labels = np.where(examples.y[:rows] > 0, 1, -1)
            datasets.dump_svmlight_file(examples.x[:rows], labels, str(folder / name), zero_based=False)
        return f'app.data = {{ source = "libsvm", path = "data" }}\nevaluate.data = "validation"'
    header = ",".join(["label", *(f"f{at}" for at in range(examples.x.shape[1]))])
    table = np.column_stack([examples.y, examples.x])
    for name, rows in (("data.csv", len(table)), ("validation.csv", 50)):
        formats = ["%d"] + ["%.9g"] * examples.x.shape[1]
        np.savetxt(folder / name, table[:rows], fmt=formats, delimiter=",", header=header, comments="")
    return (
        f'app.data = {{ source = "csv", path = "data.csv", declared = {{ classes = {examples.classes} }} }}\n'
        'evaluate.data = "validation.csv"'
    )


def train(gaia: str, kind: str, settings: str, batch: int, passes: int, rows: int, folder: Path) -> dict[str, Any]:
    """The summary of a simulated run after so many passes."""
    clocks = passes * clocks_per_pass(rows, batch)
    (folder / "run.toml").write_text(
        f'name = "optimizers"\ndriver = "simulated"\napp.kind = "{kind}"\n{settings}\n'
        f'topology.file = "three-regions"\ncompute.examples_per_second = {EXAMPLES_PER_SECOND}\nevaluate.every = {clocks}\n'
        f"stop.clocks = {clocks}\n"
    )
    return result(gaia, "train", folder, [])


def result(gaia: str, verb: str, folder: Path, flags: list[str]) -> dict[str, Any]:
    """What the program prints as JSON for the run file in a folder."""
    with tempfile.TemporaryDirectory() as out:
        command = [gaia, verb, str(folder / "run.toml"), "--json", "--out", f"{out}/out", *flags]
        found = subprocess.run(command, check=False, capture_output=True, text=True)
    # A comparison is printed also where one of its runs has diverged, which its exit code says.
    if found.returncode != 0 and not (verb == "compare" and found.stdout):
        raise SystemExit(found.stderr)
    return dict(json.loads(found.stdout))


def clocks_per_pass(rows: int, batch: int) -> int:
    """The clocks in which all workers together have had every example."""
    return max(1, -(-rows // (batch * WORKERS)))


def penalised(name: str, kind: str, rows: int) -> tuple[float, str]:
    """The penalty of a set, and the settings that say it."""
    # With less, a hundred thousand weights learn the examples by heart.
    penalty = 1e-2 if name == "wide" else 1 / rows
    key = "regularization" if kind == "logistic-regression" else "weight_decay"
    return penalty, f"app.{key} = {penalty!r}"


def default_batch(kind: str, optimizer: str, rows: int) -> int:
    """The batch of a run file that names none."""
    most = 64 if kind == "logistic-regression" else 32
    return most if optimizer == "sgd" else max(1, min(most, rows // WORKERS // CLOCKS_PER_PASS_MIN))


def cases(chosen: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Optimizer, remote model and split of each column."""
    return [
        (optimizer, remote, split)
        for split in chosen.splits.split(",")
        for remote in chosen.remote.split(",")
        for optimizer in chosen.optimizers.split(",")
    ]


def add_flags(parser: argparse.ArgumentParser, sets: Iterable[str]) -> None:
    """The flags of both benches."""
    parser.add_argument("--gaia", default="target/release/gaia", help="the program")
    parser.add_argument("--data", type=Path, default=Path("data"), help="the folder of the data sets")
    parser.add_argument("--sets", default=",".join(sets), help="which data sets")
    parser.add_argument("--optimizers", default="default,sgd,adagrad,adam", help="which optimizers")
    parser.add_argument("--remote", default="bsp,asp", help="which remote models")
    parser.add_argument("--splits", default="even,by-label", help="how examples are split")
    parser.add_argument("--settings", default="", help="further lines of the run file, with ; between them")


def of_case(case: tuple[str, str, str], data: str, chosen: argparse.Namespace) -> str:
    """The settings of a column."""
    optimizer, remote, split = case
    further: str = chosen.settings
    settings = data.replace("path =", f'split = "{split}", path =')
    settings += f'\nsync.remote.model = "{remote}"\n' + further.replace(";", "\n")
    return settings if optimizer == "default" else settings + f'\napp.optimizer = "{optimizer}"'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_flags(parser, SETS)
    chosen = parser.parse_args()

    columns = cases(chosen)
    print("| set | examples | passes of scikit-learn | its excess | ours | " + " | ".join(map(" ".join, columns)) + " |")
    print("|---|--:|--:|--:|--:|" + "--:|" * len(columns))
    for name in chosen.sets.split(","):
        kind, load = SETS[name]
        examples = load(chosen.data)
        rows = len(examples.y)
        penalty, penalty_setting = penalised(name, kind, rows)
        least = minimum(kind, examples, penalty)
        theirs, their_passes = of_scikit_learn(kind, examples, penalty)
        passes = min(2 * their_passes, PASSES_MAX)
        ended = f"{their_passes}" if their_passes < SOLVER_PASSES else f"{their_passes}, not converged"
        cells = [name, f"{rows:,}", ended, percent(theirs, least), f"{passes}"]
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            data = f"{write(kind, examples, folder)}\n{penalty_setting}"
            for case in columns:
                batch = default_batch(kind, case[0], rows)
                found = train(chosen.gaia, kind, of_case(case, data, chosen), batch, passes, rows, folder)
                cells.append(percent(float(found["objective"]), least))
        print("| " + " | ".join(cells) + " |", flush=True)


def percent(value: float, least: float) -> str:
    """By how many percent a value is above the least."""
    excess = float(100 * (value / least - 1))
    return f"{excess:.2f} %" if excess < 1000 else f"× {value / least:.0f}"


EXAMPLES_PER_SECOND = 3200.0

# Of adaptive optimizers, where a run file names no batch.
CLOCKS_PER_PASS_MIN = 8

# The iterations after which scikit-learn gives up.
SOLVER_PASSES = 100
PASSES_MAX = 100

LBFGS = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-13, "gtol": 1e-8}

if __name__ == "__main__":
    main()
