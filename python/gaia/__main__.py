"""``python -m gaia`` is the command ``gaia``."""

import sys

from gaia._cli import main

sys.exit(main())
