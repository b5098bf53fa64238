"""The exit code of a process whose end has failed."""

from __future__ import annotations

import logging
import os
import sys


def exit_at_once(code: int) -> None:
    """Ends the process from an exit handler: an exception there does not change the exit code."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
