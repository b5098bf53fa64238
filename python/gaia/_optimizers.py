"""All optimizers of the process, also those that have joined no run."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch.optim import optimizer as optimizers

#: The code of the function that torch puts around the steps of each class of optimizers, and that calls hooks.
_STEP = torch.optim.Optimizer.profile_hook_step(lambda: None).__code__

_checks: set[Callable[[torch.optim.Optimizer], None]] = set()


def after_each_step(check: Callable[[torch.optim.Optimizer], None]) -> None:
    """Calls a check with each optimizer after its steps, from now on."""
    if check not in _checks:
        _checks.add(check)
        optimizers.register_optimizer_step_post_hook(lambda optimizer, *_: check(optimizer))


def steps_under_way() -> list[torch.optim.Optimizer]:
    """In a hook after a step: the optimizer that has made it, and those in whose steps it was made. Some call the step of another
    optimizer, or that of the class that they extend. Steps that are compiled are not among them.

    They are found on the stack, and not counted before and after: of a step that fails nobody hears the end.
    """
    found: list[torch.optim.Optimizer] = []
    # What is compiled has no frame to be found by.
    if torch.compiler.is_compiling():
        return found
    frame = sys._getframe().f_back
    while frame is not None:
        if frame.f_code is _STEP:
            found.append(frame.f_locals["self"])
        frame = frame.f_back
    return found
