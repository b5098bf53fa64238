#!/usr/bin/env python3
"""How far a trial must look: what is ahead after some clocks, beside what is first at the end of training.

Networks are trained on MNIST with many settings of rounds, simulated, and evaluated every 16 clocks. What a round takes is
arithmetic: the links are so fast that a round takes as many clocks as are said. A rule stands for the stages of a trial, as those
of `model = "auto"`: what is ahead after 48 clocks goes on to the next one. What is printed is how many times as long as the best
setting the one that a rule chooses takes to the end of training, 1 % above the least objective that any setting holds.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from evaluations import lines_of

NETWORK = 'learning_rate_decay = "none"\nmomentum = 0.9\n'
SMALL = f'kind = "perceptron"\nhidden = [64]\nbatch = 32\n{NETWORK}'


@dataclass(frozen=True)
class Task:
    """An application and its data, over so many data centers, and for how long it is trained."""

    app: str
    split: str
    data_centers: int
    clocks: int


TASKS = {
    "perceptron, 0.1": Task(f"{SMALL}learning_rate = 0.1", "by-label", 3, 1600),
    "perceptron, 0.02": Task(f"{SMALL}learning_rate = 0.02", "by-label", 3, 1600),
    "perceptron, even": Task(f"{SMALL}learning_rate = 0.05", "even", 3, 1600),
    "perceptron, eleven": Task(f"{SMALL}learning_rate = 0.05", "by-label", 11, 1200),
    "perceptron of 1.3 million": Task(
        f'kind = "perceptron"\nhidden = [1024, 512]\nbatch = 128\nlearning_rate = 0.02\n{NETWORK}', "by-label", 2, 800
    ),
    "convolutions": Task(f'kind = "convolutional-network"\nbatch = 32\nlearning_rate = 0.02\n{NETWORK}', "by-label", 3, 800),
    "softmax": Task('kind = "softmax-regression"\nbatch = 32\n', "by-label", 3, 1600),
}


class Setting(NamedTuple):
    """Rounds, of a tenth of the changes each way."""

    steps: int
    overlap: int
    momentum: float

    @property
    def form(self) -> str:
        return "overlapped" if self.overlap else "momentum" if self.momentum == 0.9 else "plain"

    def clocks(self, round_clocks: float) -> float:
        """What a clock takes where a round takes so many of a clock alone."""
        return 1 + max(0.0, round_clocks - self.overlap) / self.steps


STEPS = (4, 8, 16, 32)
SETTINGS = [
    Setting(steps, *how) for steps in STEPS for how in ((0, 0.5), (0, 0.9), (steps // 2, 0.5), (steps - 1, 0.5))
]
#: What a round takes, in clocks.
ROUNDS = (1.9, 3.9, 7.9, 15.0, 31.0)


@dataclass(frozen=True)
class Stage:
    """For how many clocks the settings are simulated that are left, and how many are left."""

    clocks: int
    settings: int
    #: The forms of which the best is left, whatever is ahead of it.
    forms: Sequence[str] = ("plain", "overlapped", "momentum")


FIRST = Stage(48, len(SETTINGS))
MOMENTUM = ("momentum",)
RULES = {
    "7 for 240": [FIRST, Stage(240, 7)],
    "7 for 480": [FIRST, Stage(480, 7)],
    "7 for 160, 3 for 480": [FIRST, Stage(160, 7), Stage(480, 3, MOMENTUM)],
    "7 for 240, 3 for 480": [FIRST, Stage(240, 7), Stage(480, 3, MOMENTUM)],
    "7 for 240, 3 for 640": [FIRST, Stage(240, 7), Stage(640, 3, MOMENTUM)],
    "all for 720": [Stage(720, len(SETTINGS))],
}


@dataclass(frozen=True)
class Course:
    """The objectives of a training, by clock."""

    task: str
    setting: Setting
    clocks: list[int]
    objectives: list[float]

    def until(self, clocks: int) -> Course:
        count = sum(clock <= clocks for clock in self.clocks)
        return Course(self.task, self.setting, self.clocks[:count], self.objectives[:count])

    def held(self, at: int) -> float:
        """The mean of the last three evaluations at most."""
        last = self.objectives[max(0, at - 2) : at + 1]
        return sum(last) / len(last)

    @property
    def end(self) -> float:
        return self.held(len(self.objectives) - 1)

    def crossing(self, target: float) -> float:
        """The clock at which the mean of three evaluations is at the target. Infinite if it never is."""
        there = (self.clocks[at] for at in range(2, len(self.clocks)) if self.held(at) <= target)
        return next(there, math.inf)


def near_the_best(courses: Sequence[Course], room: float) -> float:
    """An objective that the best course holds, with room for so much of the way from the beginning."""
    best = min(course.end for course in courses if math.isfinite(course.end))
    starts = [course.objectives[0] for course in courses if course.objectives[0] < DIVERGED]
    return best + room * (max(starts) - best)


def ahead(courses: Iterable[Course], stage: Stage, round_clocks: float) -> list[Setting]:
    """The settings in the order in which they are at what the best of them holds at the end of a stage."""
    tried = [course.until(stage.clocks) for course in courses]
    target = near_the_best(tried, 0.02)
    times = {one.setting: (one.crossing(target) * one.setting.clocks(round_clocks), one.end) for one in tried}
    return sorted(times, key=lambda setting: times[setting])


def finalists(order: Sequence[Setting], stage: Stage) -> list[Setting]:
    """The best of each form that a stage has, and then the best of all others."""
    first: dict[str, Setting] = {}
    for setting in order:
        if setting.form in stage.forms:
            first.setdefault(setting.form, setting)
    others = [setting for setting in order if setting not in first.values()]
    return [*first.values(), *others][: stage.settings]


def chosen(courses: dict[Setting, Course], stages: Sequence[Stage], round_clocks: float) -> Setting:
    left = list(courses)
    for stage in stages:
        left = finalists(left, stage)
        left = ahead([courses[setting] for setting in left], stage, round_clocks)
    return left[0]


def is_tried(setting: Setting, round_clocks: float) -> bool:
    """Whether its overlap is the least that hides a round, of those that there are."""
    overlaps = [one.overlap for one in SETTINGS if one.steps == setting.steps and one.overlap]
    return not setting.overlap or setting.overlap == min((o for o in overlaps if o >= round_clocks), default=max(overlaps))


def regrets(courses: dict[Setting, Course], stages: Sequence[Stage]) -> list[float]:
    """How many times as long as the best setting a rule's takes, for rounds of each length."""
    target, found = near_the_best(list(courses.values()), 0.01), []
    for round_clocks in ROUNDS:
        tried = {setting: course for setting, course in courses.items() if is_tried(setting, round_clocks)}
        never = NEVER * max(max(course.clocks) for course in tried.values())
        times = {
            setting: min(course.crossing(target), never) * setting.clocks(round_clocks) for setting, course in tried.items()
        }
        found.append(times[chosen(tried, stages, round_clocks)] / min(times.values()))
    return found


def train(gaia: str, data: Path, name: str, setting: Setting) -> Course:
    """Simulates a training. An overlapped round takes nearly as many clocks as it overlaps."""
    task, rtt_ms = TASKS[name], max(0.9 * setting.overlap * CLOCK_MS - 0.5, 0.1)
    centers = "".join(f'[[topology.data_center]]\nname = "dc{number}"\n' for number in range(task.data_centers))
    rounds = f"steps = {setting.steps}, overlap = {setting.overlap}, outer_momentum = {setting.momentum}"
    with tempfile.TemporaryDirectory() as folder:
        run, out = Path(folder) / "run.toml", Path(folder) / "out"
        run.write_text(
            f'name = "horizons"\ndriver = "simulated"\nseed = 1\n'
            f'sync.remote = {{ model = "local-steps", density = 0.1, total_density = 0.1, {rounds} }}\n'
            f"stop.clocks = {task.clocks}\nevaluate.every = 16\n"
            f'compute = {{ flops_per_second = 1e15, clock_overhead = "{CLOCK_MS} ms", jitter = 0.0 }}\n'
            f"[app]\n{task.app}\nevaluate_examples = 2000\n"
            f'data = {{ source = "idx", path = "{data / "mnist"}", split = "{task.split}" }}\n'
            f'[topology]\nname = "horizons"\ndefaults = {{ servers = 1, workers = 1, colocated = true }}\n'
            f'wan = {{ bandwidth = "100 Gbit/s", rtt = "{rtt_ms} ms" }}\n{centers}'
        )
        subprocess.run([gaia, "train", run, "--out", out, "--quiet"], check=True)
        progress = lines_of(out / "progress.jsonl")
    return Course(name, setting, [at["clock"] for at in progress], [at["objective"] for at in progress])


def known(results: Path) -> list[Course]:
    return [Course(**{**one, "setting": Setting(*one["setting"])}) for one in lines_of(results)]


#: The first objective of a training that has gone astray is above it.
DIVERGED = 20.0
#: A setting that does not come to the end counts as if it took so many times the clocks that it had.
NEVER = 3.0
CLOCK_MS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gaia", default="target/release/gaia", help="the program")
    parser.add_argument("--data", type=Path, default=Path("data"), help="the folder of the data sets")
    parser.add_argument("--results", type=Path, required=True, help="a file that trainings are added to, and not repeated")
    parser.add_argument("--threads", type=int, default=2, help="trainings beside each other [default: 2]")
    options = parser.parse_args()

    have = {(course.task, course.setting) for course in known(options.results)}
    missing = [(name, setting) for name in TASKS for setting in SETTINGS if (name, setting) not in have]
    with ThreadPoolExecutor(options.threads) as pool, options.results.open("a") as file:
        for course in pool.map(lambda one: train(options.gaia, options.data.resolve(), *one), missing):
            print(json.dumps(asdict(course)), file=file, flush=True)

    courses: dict[str, dict[Setting, Course]] = {name: {} for name in TASKS}
    for course in known(options.results):
        courses[course.task][course.setting] = course
    print("| stages after the first | mean | most | " + " | ".join(TASKS) + " |")
    print("|---|--:|--:|" + "--:|" * len(TASKS))
    for rule, stages in RULES.items():
        by_task = [regrets(courses[name], stages) for name in TASKS]
        every = [regret for found in by_task for regret in found]
        cells = [geometric_mean(every), max(every), *map(geometric_mean, by_task)]
        print(f"| {rule} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    main()
