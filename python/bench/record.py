"""What the steps of a region add up to, in double precision, and how far copies are from what all regions have added up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn


class Record:
    """The changes that a region makes by steps of plain SGD, whatever others change in its copy."""

    def __init__(self, model: nn.Module, learning_rate: float) -> None:
        self._parameters, self._learning_rate = list(model.parameters()), learning_rate
        self._began = flat(self._parameters)
        self._changes = [torch.zeros_like(one, dtype=torch.float64) for one in self._parameters]
        for parameter, changes in zip(self._parameters, self._changes, strict=True):
            parameter.register_hook(lambda gradient, changes=changes: self._add(changes, gradient))

    def _add(self, changes: torch.Tensor, gradient: torch.Tensor) -> None:
        """Takes a gradient of the region's own examples, before anything is exchanged."""
        changes.sub_(gradient.detach().double(), alpha=self._learning_rate)

    def write(self, path: Path) -> None:
        torch.save({"began": self._began, "changes": flat(self._changes), "ended": flat(self._parameters)}, path)


@dataclass(frozen=True)
class Differences:
    """Root mean squares, relative to that of the exact change of a parameter."""

    #: The most by which a copy differs from the first one.
    between_copies: float
    #: The most by which a copy differs from the exact result: the mean of what all regions have changed.
    from_exact: float


def compared(paths: Sequence[Path]) -> Differences:
    """How far the copies of all regions are from each other and from the exact result, by their records."""
    records = [torch.load(path) for path in paths]
    change = torch.stack([one["changes"] for one in records]).mean(0)
    copies = [one["ended"] for one in records]
    exact, scale = records[0]["began"] + change, rms(change)
    return Differences(
        between_copies=max(rms(copy - copies[0]) for copy in copies) / scale,
        from_exact=max(rms(copy - exact) for copy in copies) / scale,
    )


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A copy of all numbers in one tensor, in double precision."""
    return torch.cat([one.detach().double().reshape(-1) for one in tensors])


def rms(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt())
