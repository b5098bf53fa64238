#!/usr/bin/env python3
"""What peers take for a worker's step, measured when a line asks for it.

Reads lines `NAME ARGUMENT...` and answers each with the processor seconds of one unit of work, with `none WHY` where the peer is
not installed, or with `failed WHY`. One thread. The benchmark `steps` starts it and takes turns with it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Before a library makes its threads.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

STEPS = 20


def median(step: Callable[[], object], steps: int = STEPS) -> float:
    """Median processor seconds of a step."""
    times = []
    for _ in range(steps):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return sorted(times)[steps // 2]


def training(model: object, shape: tuple[int, ...]) -> Callable[[], object]:
    """A step of SGD with momentum on a batch of random examples of ten classes."""
    import torch

    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    examples, labels = torch.randn(*shape), torch.randint(0, 10, (shape[0],))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(examples), labels).backward()
        optimizer.step()

    for _ in range(5):
        step()
    return step


def perceptron(batch: str, *units: str) -> Callable[[], object]:
    """PyTorch: dense layers with rectifiers between them."""
    from torch import nn

    widths = [int(width) for width in units]
    layers: list[nn.Module] = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return training(nn.Sequential(*layers[:-1]), (int(batch), widths[0]))


def convolution(batch: str, channels: str, side: str, first: str, second: str, hidden: str) -> Callable[[], object]:
    """PyTorch: two convolutions of 3 × 3 with rectifiers and pooling by 2, then dense layers."""
    from torch import nn

    planes, pixels, filters = int(channels), int(side), [int(first), int(second)]
    layers: list[nn.Module] = []
    for made in filters:
        layers += [nn.Conv2d(planes, made, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        planes, pixels = made, pixels // 2
    layers += [nn.Flatten(), nn.Linear(planes * pixels**2, int(hidden)), nn.ReLU(), nn.Linear(int(hidden), 10)]
    model = nn.Sequential(*layers)
    return training(model, (int(batch), int(channels), int(side), int(side)))


class Libmf:
    """libmf's matrix factorisation: seconds of an update of one rating, from passes over random ratings."""

    def __init__(self, ratings: str, users: str, items: str, rank: str) -> None:
        import numpy as np

        with contextlib.redirect_stdout(sys.stderr):
            from libmf import mf

        random = np.random.default_rng(1)
        count = int(ratings)
        self.data = np.column_stack([
            random.integers(0, int(users), count), random.integers(0, int(items), count), random.uniform(-2, 2, count)
        ]).astype(np.float64)
        self.mf, self.rank = mf, int(rank)

    def passes(self, count: int) -> float:
        """Processor seconds of training with so many passes."""
        engine = self.mf.MF(k=self.rank, nr_threads=1, nr_iters=count, quiet=True, eta=0.001)
        start = time.process_time()
        engine.fit(self.data)
        return time.process_time() - start

    def seconds(self) -> float:
        """What ten more passes take, so that neither start nor copies count."""
        return (self.passes(12) - self.passes(2)) / 10 / len(self.data)


class Tomotopy:
    """tomotopy's collapsed Gibbs sampler: seconds of drawing the topic of one token."""

    def __init__(self, documents: str, topics: str) -> None:
        import tomotopy

        self.model = tomotopy.LDAModel(k=int(topics), alpha=3.2 / int(topics), eta=0.01, seed=1)
        self.tokens = 0
        for line in Path(documents).read_text().splitlines():
            words = line.split()
            self.tokens += len(words)
            if words:
                self.model.add_doc(words)
        self.model.optim_interval = 0
        self.model.train(10, workers=1)

    def seconds(self) -> float:
        """Of three passes."""
        start = time.process_time()
        self.model.train(3, workers=1)
        return (time.process_time() - start) / 3 / self.tokens


def prepared(name: str, arguments: list[str]) -> Callable[[], float]:
    """What measures the unit of work that a line names."""
    match name:
        case "perceptron":
            step = perceptron(*arguments)
        case "convolution":
            step = convolution(*arguments)
        case "ratings":
            return Libmf(*arguments).seconds
        case "topics":
            return Tomotopy(*arguments).seconds
        case _:
            raise ValueError(f"found `{name}`, expected perceptron, convolution, ratings or topics")
    return lambda: median(step)


def main() -> None:
    """Answers lines until there are none."""
    known: dict[str, Callable[[], float]] = {}
    for line in sys.stdin:
        name, *arguments = line.split()
        try:
            if line not in known:
                known[line] = prepared(name, arguments)
            print(known[line](), flush=True)
        except (ImportError, OSError) as error:
            print(f"none {reason(error)}", flush=True)
        # Whatever a library raises, the other peers are still asked.
        except Exception as error:
            print(f"failed {reason(error)}", flush=True)


def reason(error: Exception) -> str:
    """What was raised, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


if __name__ == "__main__":
    main()
