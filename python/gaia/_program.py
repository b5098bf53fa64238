"""How this program is started again, for the nodes of a run over processes, and how it ends."""

import sys

PROGRAM = [sys.executable, "-m", "gaia"]

#: The exit code of a run that was interrupted and has ended in order, and of nodes that have written their state.
INTERRUPTED = 75
