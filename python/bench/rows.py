"""Rows of JSON, with the fields that the header of ``scripts/bench`` lists."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def row(
    bench: str,
    name: str,
    unit: str,
    values: Sequence[float],
    reference: tuple[str, Sequence[float]],
    more_is_better: bool = False,
) -> dict[str, Any]:
    """The row of a figure, beside what it is compared with in the same runs.

    There is no ratio where a value is not above 0, such as a difference to a script that took as long.
    """
    what, references = reference
    pairs = list(zip(values, references, strict=True))
    ratios = [value / other if more_is_better else other / value for value, other in pairs] if min(values) > 0 else None
    return {
        "bench": bench,
        "name": name,
        "value": statistics.median(values),
        "range": [min(values), max(values)],
        "unit": unit,
        "reference": what,
        "reference_value": statistics.median(references),
        "ratio": statistics.median(ratios) if ratios else None,
        "ratio_range": [min(ratios), max(ratios)] if ratios else None,
        "runs": len(values),
    }
