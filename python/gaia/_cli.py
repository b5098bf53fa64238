"""The command line: that of Gaia, with scripts."""

from __future__ import annotations

import signal
import sys
import traceback

from gaia import _gaia
from gaia._program import INTERRUPTED, PROGRAM
from gaia._scripts import Scripts


def main() -> int:
    """Runs the command line of this process, and returns its exit code."""
    # The run ends in order on a first Ctrl-C, and at once on a second, as without Python.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    flags = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    if "--json" in flags:
        # Standard output is one JSON object, and scripts print what they like.
        sys.stdout = sys.stderr
    scripts = Scripts()
    code = _gaia.run(["gaia", *sys.argv[1:]], scripts.start, PROGRAM)
    scripts.join(failed=code not in (0, INTERRUPTED))
    for failure in scripts.failures[:1]:
        traceback.print_exception(failure)
    return code or (1 if scripts.failures else 0)
