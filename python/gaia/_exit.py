"""How a process ends: the exception that has ended its script, and its exit code where the end has failed."""

from __future__ import annotations

import logging
import os
import sys


def unhandled() -> BaseException | None:
    """In an exit handler: the exception that has ended the script, whoever has shown it. A library that sets its own
    ``sys.excepthook`` need not call those that were there before. ``None`` in an interactive interpreter, which shows an
    exception and goes on."""
    error: BaseException | None = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    return error


def exit_at_once(code: int) -> None:
    """Ends the process from an exit handler: an exception there does not change the exit code."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
