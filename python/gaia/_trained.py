"""What a run of a module trains, and by which optimizer: other changes would not be shared, without a word."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn.parameter import is_lazy

from gaia._errors import GaiaError
from gaia._optimizers import after_each_step, steps_under_way
from gaia._staging import storage_of

if TYPE_CHECKING:
    from gaia._run import Run


class Trained:
    """The parameters that a run trains, and the optimizer whose steps are its clocks.

    Args:
        model: The module that has joined.
        weights: Those of its parameters that the run trains.
        optimizer: The optimizer that has joined.

    Raises:
        GaiaError: The optimizer has none of these parameters.
    """

    def __init__(self, model: torch.nn.Module, weights: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
        self._model, self._optimizer = model, optimizer
        self._ids = {id(one) for one in weights}
        self._frozen = _Frozen(model, weights)
        #: Of other optimizers: the parameters that are known not to be of the module, by their ids.
        self._elsewhere: weakref.WeakKeyDictionary[torch.optim.Optimizer, dict[int, torch.Tensor]] = weakref.WeakKeyDictionary()
        if self._ids and not any(id(one) in self._ids for one in _optimized(optimizer)):
            raise GaiaError(
                "the optimizer has no parameter of the module that needs a gradient, expected an optimizer of this module, such as one "
                "that is made after it: torch.optim.SGD(model.parameters(), ...)",
                2,
            )

    def check(self) -> None:
        """Checks after a step that the optimizer has trained no other parameters. One without a gradient has not been trained.
        Warns of frozen ones that the script changes by itself.

        Raises:
            GaiaError: It does.
        """
        others = [one for one in _optimized(self._optimizer) if id(one) not in self._ids and one.grad is not None]
        if not others:
            self._frozen.check()
            return
        self._refuse_frozen(others)
        raise GaiaError(
            f"the optimizer trains a parameter of shape {tuple(others[0].shape)} that is not of the module, expected all of its parameters "
            "in the module of gaia.join(...)",
            2,
        )

    def check_other(self, other: torch.optim.Optimizer) -> None:
        """Checks after a step of an optimizer that has not joined that it has trained no parameter of the module beside those of
        the run.

        Raises:
            GaiaError: It has.
        """
        elsewhere = self._elsewhere.setdefault(other, {})
        found = [one for one in _optimized(other) if not (id(one) in self._ids or id(one) in elsewhere) and one.grad is not None]
        # To look for them in the module can take as long as the step.
        if found:
            self._refuse_frozen(found)
            elsewhere.update((id(one), one) for one in found)

    def _refuse_frozen(self, trained: Sequence[torch.Tensor]) -> None:
        """Refuses parameters that the run does not train where one of them is of the module."""
        ids = {id(one) for one in trained}
        names = [name for name, one in self._model.named_parameters() if id(one) in ids]
        if names:
            raise GaiaError(
                f"{names[0]} was frozen at gaia.join(...) and is trained now, expected it to need a gradient before", 2
            )


class _Frozen:
    """The parameters of a module that its run does not send, in the first steps. A script may change them by itself, as the
    teacher that follows a student."""

    def __init__(self, model: torch.nn.Module, weights: Sequence[torch.Tensor]) -> None:
        # What changes a weight changes what has its memory. Shards of a module come and go.
        shared = {storage_of(one) for one in weights} - {0}
        self._watched = [
            (name, one)
            for name, one in model.named_parameters()
            if not (one.requires_grad or storage_of(one) in shared or hasattr(one, "device_mesh") or is_lazy(one))
        ]
        self._noted: list[tuple[int, int]] = []
        self._steps_left = WATCHED_STEPS

    def check(self) -> None:
        """Warns once if the script has changed one of them since its first step. Before that it may load what it likes."""
        if not self._watched:
            return
        # Those of the inference mode count no changes.
        found = [(storage_of(one), 0 if one.is_inference() else one._version) for _, one in self._watched]
        pairs = zip(found, self._noted or found, strict=True)
        changed = [name for (name, _), (now, before) in zip(self._watched, pairs, strict=True) if now != before]
        if changed:
            warnings.warn(
                f"{changed[0]} was frozen at gaia.join(...), so it is not sent, and the script changes it: workers part, "
                "expected it as a buffer (register_buffer), which is shared, or outside of the module that has joined",
                stacklevel=2,
            )
        self._noted, self._steps_left = found, self._steps_left - 1
        if changed or self._steps_left == 0:
            self._watched = []


def _optimized(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The parameters of all groups."""
    return [one for group in optimizer.param_groups for one in group["params"]]


#: The parts of modules that have joined runs, where they have parameters that are trained.
_modules: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[Run]] = weakref.WeakKeyDictionary()


def check_own(model: torch.nn.Module, weights: Sequence[torch.Tensor]) -> None:
    """Checks that no other worker of this process trains a part of a module, of which these parameters are trained. What is not
    trained may be shared, such as an activation or a frozen backbone.

    Raises:
        GaiaError: One does.
    """
    for name, part in _parts(model, weights):
        run = reference() if (reference := _modules.get(part)) is not None else None
        if run is not None and run._is_active:
            raise GaiaError(
                f"{f'{name} of the module' if name else 'the module'} is that of another worker of this process, expected each worker to "
                "build its own: in the function that gaia.simulate calls, or in the script, and not in a file that it imports",
                2,
            )


def note_own(model: torch.nn.Module, weights: Sequence[torch.Tensor], run: Run) -> None:
    """Notes that a worker of this process trains these parameters of a module."""
    _modules.update((part, weakref.ref(run)) for _, part in _parts(model, weights))


def _parts(model: torch.nn.Module, weights: Sequence[torch.Tensor]) -> list[tuple[str, torch.nn.Module]]:
    """The parts of a module that have one of these parameters themselves."""
    own = {id(one) for one in weights}
    return [(name, part) for name, part in model.named_modules() if any(id(one) in own for one in part._parameters.values())]


class _OfRun(NamedTuple):
    """What an optimizer has joined. Who lets go of the optimizer lets go of its module as well."""

    run: weakref.ref[Run]
    trained: weakref.ref[Trained]


#: The optimizers that have joined runs.
_joined: weakref.WeakKeyDictionary[torch.optim.Optimizer, _OfRun] = weakref.WeakKeyDictionary()


def watch_others(optimizer: torch.optim.Optimizer, run: Run, trained: Trained) -> None:
    """Checks from now on that no other optimizer makes the steps of the one that has joined a run, or trains a parameter of its
    module beside those of the run."""
    _joined[optimizer] = _OfRun(weakref.ref(run), weakref.ref(trained))
    after_each_step(_check_other)


def _check_other(other: torch.optim.Optimizer) -> None:
    # What an optimizer has others do is part of its own step.
    if other in _joined or any(outer in _joined for outer in steps_under_way()):
        return
    own = {id(one) for one in _optimized(other)}
    for optimizer, joined in list(_joined.items()):
        run, trained = joined.run(), joined.trained()
        if run is None or trained is None or not run._is_active:
            continue
        if any(id(one) in own for one in _optimized(optimizer)):
            raise GaiaError(
                "another optimizer has made a step with parameters of the one of gaia.join(...), whose steps are the clocks of "
                "the run, expected that one: change its learning rate and its state, and not the optimizer. Of two of which one "
                "makes the steps of the other, the outer one joins",
                2,
            )
        trained.check_other(other)


#: In how many of a run's first steps it is looked whether the script changes what is frozen.
WATCHED_STEPS = 10
