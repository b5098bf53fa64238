"""What pages of figures have in common, which is in `benches/`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benches"))

from page import between, digits, processor  # noqa: E402

__all__ = ["between", "digits", "processor"]
