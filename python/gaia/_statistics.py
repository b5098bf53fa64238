"""Statistics of modules: values that are measured, such as the running mean of a batch normalisation, which are in buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gaia._errors import GaiaError


def statistics_of(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Buffers of floating-point numbers. Not those that a state leaves out, nor masks, which have numbers that are not finite."""
    kept = {id(owner._buffers[key]) for owner, key in _buffers(model) if key not in owner._non_persistent_buffers_set}
    found = [(name, one) for name, one in model.named_buffers() if id(one) in kept and one.is_floating_point()]
    return [(name, one) for name, one in found if bool(torch.isfinite(one.float()).all())]


class Places:
    """Where a module has its statistics. It may assign others to their names, of which the run knows nothing."""

    def __init__(self, model: torch.nn.Module, statistics: Sequence[tuple[str, torch.Tensor]]) -> None:
        measured = {id(one): (name, one) for name, one in statistics}
        places = [(owner, key, measured.get(id(owner._buffers[key]))) for owner, key in _buffers(model)]
        self._places = [(owner, key, *at) for owner, key, at in places if at is not None]

    def take_assigned(self) -> None:
        """Takes over what the module has assigned to the names of its statistics.

        Raises:
            GaiaError: It has another shape.
        """
        for owner, key, name, one in self._places:
            # Those of a scripted module are no dict.
            buffers: Mapping[str, Any] = owner._buffers
            assigned = buffers[key] if key in buffers else None
            if assigned is one:
                continue
            if assigned is None or assigned.shape != one.shape:
                shape = None if assigned is None else tuple(assigned.shape)
                raise GaiaError(f"{name} was assigned {shape}, expected a tensor of shape {tuple(one.shape)}", 2)
            with torch.no_grad():
                one.copy_(assigned.detach())
            owner._buffers[key] = one

    def put_back(self) -> None:
        """Puts the statistics back where the module has assigned others, which are dropped."""
        for owner, key, _, one in self._places:
            owner._buffers[key] = one


def _buffers(model: torch.nn.Module) -> list[tuple[torch.nn.Module, str]]:
    """All buffers, as modules and the names that they have there."""
    return [(owner, key) for owner in model.modules() for key, one in owner._buffers.items() if one is not None]
