"""Evaluations of runs over regions, and where a run has reached its target."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Reached:
    """Where a run has reached its target, or how far it has come."""

    is_there: bool
    step: int
    seconds: float
    sent_mb: float
    metric: float


def evaluated(folder: Path, names: Sequence[str]) -> list[Reached]:
    """The evaluations that all regions have made, in order: their mean, when the last was done, and what a region has sent."""
    logs = [lines_of(folder / f"{name}.jsonl") for name in names]
    first_steps = [line["time"] for log in logs for line in log if "metric" not in line]
    if len(first_steps) < len(names):
        return []
    by_step: dict[int, list[dict[str, Any]]] = {}
    for line in (line for log in logs for line in log if "metric" in line and line["step"] > 0):
        by_step.setdefault(int(line["step"]), []).append(line)
    began, found = min(first_steps), []
    for step, lines in sorted(by_step.items()):
        if len(lines) < len(names):
            continue
        examples = sum(line["examples"] for line in lines)
        metric = sum(line["metric"] * line["examples"] for line in lines) / examples
        sent = statistics.mean(line["sent_bytes"] for line in lines) / 1e6
        found.append(Reached(False, step, max(line["time"] for line in lines) - began, sent, metric))
    return found


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that a process may be writing to."""
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def crossing(evaluations: Sequence[Reached], target: float, higher_is_better: bool) -> Reached:
    """The first evaluation at which the mean of the last three has reached the target, or else the last, with such a mean."""
    sign = 1 if higher_is_better else -1
    for last in range(2, len(evaluations)):
        mean = mean_of(evaluations[last - 2 : last + 1])
        if sign * mean >= sign * target:
            return replace(evaluations[last], is_there=True, metric=mean)
    return replace(evaluations[-1], metric=mean_of(evaluations[-3:])) if evaluations else Reached(False, 0, 0.0, 0.0, 0.0)


def mean_of(evaluations: Sequence[Reached]) -> float:
    return statistics.mean(one.metric for one in evaluations)


def crossings(evaluations: Sequence[Reached], targets: Sequence[float], higher_is_better: bool) -> list[Reached]:
    """Where a run has crossed each of these targets."""
    return [crossing(evaluations, target, higher_is_better) for target in targets]


def virtual(path: Path) -> list[Reached]:
    """The evaluations of a simulated run."""
    found = []
    for line in lines_of(path):
        sent = line["wan_bytes"] / len(line["data_centers"]) / 1e6
        found.append(Reached(False, line["clock"], line["time_s"], sent, line["metric"]))
    return [one for one in found if one.step > 0]
