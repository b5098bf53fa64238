"""All optimizers of the process, also those that have joined no run."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.optim import optimizer as optimizers

_checks: set[Callable[[torch.optim.Optimizer], None]] = set()


def after_each_step(check: Callable[[torch.optim.Optimizer], None]) -> None:
    """Calls a check with each optimizer after its steps, from now on."""
    if check not in _checks:
        _checks.add(check)
        optimizers.register_optimizer_step_post_hook(lambda optimizer, *_: check(optimizer))
