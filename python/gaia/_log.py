"""What the nodes of this process log, in Python's ``logging``.

The logger of a message is named after its place, such as ``gaia.driver.real``. Nodes never wait for it: they leave records, and
who calls :func:`flush` hands those on.
"""

from __future__ import annotations

import logging
import os
import threading

from gaia import _gaia

_flushing = threading.RLock()
#: The level that nodes log from. Changing it is expensive: all places that log are asked again.
_level: int | None = None


def follow() -> None:
    """Lets nodes log what ``logging`` lets through, or what ``GAIA_LOG`` selects where it is set.

    Raises:
        ValueError: ``GAIA_LOG`` is not a filter.
    """
    global _level
    own = logging.getLogger("gaia")
    below = [
        one.level
        for name, one in list(logging.root.manager.loggerDict.items())
        if name.startswith("gaia.") and isinstance(one, logging.Logger) and one.level != logging.NOTSET
    ]
    if (level := min([own.getEffectiveLevel(), *below])) != _level:
        _gaia.log_from(level)
        _level = level


def flush(wait: float = 0.0) -> None:
    """Hands the records of nodes to ``logging``. Waits for the first one, at most so many seconds."""
    if wait > 0.0:
        _gaia.log_wait(wait)
    # In order, also where two threads flush.
    with _flushing:
        for level, target, text in _gaia.log_take():
            logger = logging.getLogger(_name(target))
            if logger.isEnabledFor(level):
                logger.handle(logger.makeRecord(logger.name, level, target, 0, text, (), None))


def _name(target: str) -> str:
    """``gaia_driver::real`` is ``gaia.driver.real``. What other libraries say is below ``gaia``, too."""
    path = target.replace("::", ".")
    if path.startswith("gaia_"):
        return f"gaia.{path.removeprefix('gaia_')}"
    return path if path == "gaia" or path.startswith("gaia.") else f"gaia.{path}"


def _start_anew() -> None:
    global _flushing
    _flushing = threading.RLock()


if hasattr(os, "register_at_fork"):
    # A process of a data loader may be forked while another thread flushes.
    os.register_at_fork(after_in_child=_start_anew)
