"""The command that starts this program again, for the nodes of a run over processes."""

import sys

PROGRAM = [sys.executable, "-m", "gaia"]
