"""What a run of a module trains, and by which optimizer: other changes would not be shared, without a word."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from gaia._errors import GaiaError
from gaia._optimizers import after_each_step, steps_under_way

if TYPE_CHECKING:
    from gaia._run import Run


class Trained:
    """The parameters that a run trains, and the optimizer whose steps are its clocks.

    Args:
        model: The module that has joined.
        weights: Those of its parameters that the run trains.
        optimizer: The optimizer that has joined.
    """

    def __init__(self, model: torch.nn.Module, weights: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
        self._model, self._optimizer = model, optimizer
        self._ids = {id(one) for one in weights}

    def check(self) -> None:
        """Checks after a step that the optimizer has trained no other parameters. One without a gradient has not been trained.

        Raises:
            GaiaError: It does.
        """
        others = [one for one in _optimized(self._optimizer) if one.grad is not None and id(one) not in self._ids]
        if not others:
            return
        names = [name for name, one in self._model.named_parameters() if one is others[0]]
        if names:
            raise GaiaError(f"{names[0]} was frozen at gaia.join(...) and is trained now, expected it to need a gradient before", 2)
        raise GaiaError(
            f"the optimizer trains a parameter of shape {tuple(others[0].shape)} that is not of the module, expected all of its parameters "
            "in the module of gaia.join(...)",
            2,
        )


def _optimized(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The parameters of all groups."""
    return [one for group in optimizer.param_groups for one in group["params"]]


#: The optimizers that have joined runs.
_joined: weakref.WeakKeyDictionary[torch.optim.Optimizer, weakref.ref[Run]] = weakref.WeakKeyDictionary()


def watch_others(optimizer: torch.optim.Optimizer, run: Run) -> None:
    """Checks from now on that no other optimizer makes the steps of the one that has joined a run."""
    _joined[optimizer] = weakref.ref(run)
    after_each_step(_check_other)


def _check_other(other: torch.optim.Optimizer) -> None:
    # What an optimizer has others do is part of its own step.
    if other in _joined or any(outer in _joined for outer in steps_under_way()):
        return
    own = {id(one) for one in _optimized(other)}
    for optimizer, reference in list(_joined.items()):
        run = reference()
        if run is not None and not run._over and any(id(one) in own for one in _optimized(optimizer)):
            raise GaiaError(
                "another optimizer has made a step with parameters of the one of gaia.join(...), whose steps are the clocks of "
                "the run, expected that one: change its learning rate and its state, and not the optimizer. Of two of which one "
                "makes the steps of the other, the outer one joins",
                2,
            )
