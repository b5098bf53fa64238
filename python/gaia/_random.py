"""The streams of random numbers of a script. Several scripts share a process, and each has its own."""

from __future__ import annotations

import random
import sys
from typing import Any


class Streams:
    """The states of ``random``, and of NumPy's and torch's global generators where those are imported. Those of CUDA's devices
    are among them once the process uses CUDA: the host has them, so no device is waited for."""

    def __init__(self, states: dict[str, Any]) -> None:
        self._states = states

    @classmethod
    def current(cls) -> Streams:
        """The states as they are now."""
        states: dict[str, Any] = {"random": random.getstate()}
        if (numpy := sys.modules.get("numpy")) is not None:
            states["numpy"] = numpy.random.get_state()
        if (torch := sys.modules.get("torch")) is not None:
            states["torch"] = torch.get_rng_state()
            if torch.cuda.is_initialized():
                states["cuda"] = torch.cuda.get_rng_state_all()
        return cls(states)

    @classmethod
    def seeded(cls, seed: int) -> Streams:
        """The states after all generators were seeded. Those of now are left as they are, but for CUDA's in a process that does
        not use it yet: they will begin with this seed."""
        before = cls.current()
        random.seed(seed)
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed % 2**32)
        if (torch := sys.modules.get("torch")) is not None:
            torch.random.default_generator.manual_seed(seed % 2**63)
            torch.cuda.manual_seed_all(seed % 2**63)
        made = cls.current()
        before.resume()
        return made

    def resume(self) -> None:
        """Makes these the states of the process."""
        random.setstate(self._states["random"])
        if "numpy" in self._states:
            sys.modules["numpy"].random.set_state(self._states["numpy"])
        if "torch" in self._states:
            sys.modules["torch"].set_rng_state(self._states["torch"])
        if "cuda" in self._states:
            sys.modules["torch"].cuda.set_rng_state_all(self._states["cuda"])
