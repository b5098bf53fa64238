"""The learning rate of a script, which its optimizer or its own schedule decides."""

from __future__ import annotations

import math


class LearningRate:
    """The rate of the latest step as a share of the largest so far. So a warm-up ends at 1, and does not begin beyond it."""

    def __init__(self) -> None:
        self._largest = 0.0
        #: The share, 0 to 1. ``None`` where no rate is known, or none was above 0.
        self.factor: float | None = None

    def note(self, rate: float) -> None:
        """The rate of a step."""
        if not (math.isfinite(rate) and rate >= 0):
            self.factor = None
            return
        self._largest = max(self._largest, rate)
        self.factor = rate / self._largest if self._largest > 0 else None
