"""All optimizers of the process, also those that have joined no run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType

import torch
from torch.optim import optimizer as optimizers

#: The code of the function that torch puts around the steps of each class of optimizers, and that calls hooks.
_STEP = torch.optim.Optimizer.profile_hook_step(lambda: None).__code__

_checks: set[Callable[[torch.optim.Optimizer], None]] = set()


def after_each_step(check: Callable[[torch.optim.Optimizer], None]) -> None:
    """Calls a check with each optimizer after its steps, from now on."""
    if check not in _checks:
        _checks.add(check)
        optimizers.register_optimizer_step_post_hook(on_the_host(lambda optimizer, *_: check(optimizer)))


def on_the_host(hook: Callable[..., None]) -> Callable[..., None]:
    """A hook that runs as it is also where the step is compiled: it exchanges with other workers, and looks at the stack."""
    disabled: Callable[..., None] = torch.compiler.disable(hook)  # type: ignore[no-untyped-call]
    return disabled


def steps_under_way() -> list[torch.optim.Optimizer]:
    """In a hook after a step: the optimizer that has made it, and those in whose steps it was made. Some call the step of another
    optimizer, or that of the class that they extend.

    They are found on the stack, and not counted before and after: of a step that fails nobody hears the end.
    """
    found: list[torch.optim.Optimizer] = []
    frame = sys._getframe().f_back
    while frame is not None:
        if _is_step(frame.f_code):
            found.append(_optimizer_of(frame))
        frame = frame.f_back
    return found


def _is_step(code: CodeType) -> bool:
    """Whether this is the code around a step, or what ``torch.compile`` has made of it. Compiled code keeps the name, the file
    and the line; code after a graph break is called ``torch_dynamo_resume_in_...``, and the step that it belongs to calls it."""
    return code is _STEP or _place_of(code) == _place_of(_STEP)


def _place_of(code: CodeType) -> tuple[str, str, int]:
    return code.co_name, code.co_filename, code.co_firstlineno


def _optimizer_of(frame: FrameType) -> torch.optim.Optimizer:
    """The optimizer of a step. Compiled code has no other variables than arguments."""
    variables = frame.f_locals
    optimizer: torch.optim.Optimizer = variables["self"] if "self" in variables else variables["args"][0]
    return optimizer
