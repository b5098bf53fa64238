"""The arrays at the leaves of a tree: as the script has them, and their parts of the buffer that the run reads and writes.

The buffer is of single precision, and a script keeps the types that it has given. So one of other numbers has memory of its own,
and is copied to the buffer and back where the run needs it.
"""

from __future__ import annotations

import sys
from typing import Any

from gaia._errors import GaiaError


class NumpyLeaf:
    """An array of NumPy, which the script changes in place. One of single precision is its part of the buffer."""

    changes_in_place = True

    def __init__(self, path: str, given: Any, part: Any) -> None:
        self.path = path
        self._part = part
        part[...] = given
        #: The array, as the script has it.
        self.now = part if given.dtype == part.dtype else given.copy()

    def fresh(self) -> Any:
        """The values in an array that nobody else changes."""
        return self.now.copy()

    def take(self, values: Any) -> None:
        """Takes over what the script has made of it."""
        self.now[...] = values

    def load(self) -> None:
        """Takes the values of the buffer."""
        if self.now is not self._part:
            self.now[...] = self._part

    def store(self) -> None:
        """Puts the values into the buffer."""
        if self.now is not self._part:
            self._part[...] = self.now


class JaxLeaf:
    """An array of JAX. Nothing changes it in place, so each change is another array, on the devices of the first one."""

    changes_in_place = False

    def __init__(self, path: str, given: Any, part: Any) -> None:
        import numpy

        self._numpy = numpy
        self.path = path
        self._part = part
        self._dtype = given.dtype
        # JAX may move an array that is committed to no device to where another one is.
        self._sharding = given.sharding if getattr(given, "committed", True) else None
        part[...] = numpy.asarray(given)
        #: The array, as the script has it.
        self.now = given
        #: Whether the buffer has its values. One that was returned may be gone, since scripts donate arrays.
        self._is_stored = True

    def fresh(self) -> Any:
        """The values in an array that nobody else changes.

        Raises:
            GaiaError: The array is gone.
        """
        self._check_is_there()
        return self.now

    def take(self, values: Any) -> None:
        """Takes over what the script has made of it.

        Raises:
            GaiaError: The array is gone.
        """
        if is_of_jax(values) and values.is_deleted():
            raise GaiaError(f"run.step was given {self.path}, which was donated, expected the array after the update", 2)
        is_alike = is_of_jax(values) and values.dtype == self._dtype
        self.now = values if is_alike else self._put(values)
        self._is_stored = False

    def load(self) -> None:
        """Takes the values of the buffer."""
        self.now, self._is_stored = self._put(self._part), True

    def store(self) -> None:
        """Puts the values into the buffer.

        Raises:
            GaiaError: The buffer does not have them, and the array is gone.
        """
        if not self._is_stored:
            self._check_is_there()
            self._part[...] = self._numpy.asarray(self.now)
            self._is_stored = True

    def _check_is_there(self) -> None:
        """Checks that the script has not donated the array."""
        if self.now.is_deleted():
            raise GaiaError(
                f"{self.path} was donated after run.step, expected run.step(arrays) with the arrays after the update before "
                "run.params, run.save(...) and run.end(), and before the end of the loop",
                2,
            )

    def _put(self, values: Any) -> Any:
        """A copy on the devices. JAX may go on with memory that it is given, and the run writes the buffer again."""
        return sys.modules["jax"].device_put(self._numpy.array(values, dtype=self._dtype), self._sharding)


Leaf = NumpyLeaf | JaxLeaf


def is_of_jax(given: Any) -> bool:
    """Whether this is an array of JAX. Whoever has one has imported it."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(given, jax.Array)
