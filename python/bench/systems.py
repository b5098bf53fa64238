"""The systems that ``regions.py`` compares, and how each of them is started over regions."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gaia_nodes
from evaluations import Reached, evaluated, lines_of
from gaia_nodes import Region
from running import Processes
from tasks import TASKS, Place, write_digits

TRAIN = Path(__file__).with_name("train.py").resolve()

AUTO = '{ model = "auto" }'
#: At the least this many steps are between two evaluations.
EVERY = 16


@dataclass(frozen=True)
class System:
    """A system that is compared."""

    #: In a table that people read.
    label: str
    #: Steps between two synchronisations.
    sync_every: int = 1
    #: The remote model of Gaia, as run files say it. ``None``: a peer.
    remote: str | None = None
    #: How Gaia's copies become one in the end.
    drain: str = "mean"
    #: Whether Gaia's own application trains instead of a script.
    is_built_in: bool = False
    #: Whether it is measured unless it is named.
    by_default: bool = True
    #: Whether a region may have several processes. Gaia's scripts have DDP inside, and so has PostLocalSGD.
    may_be_several: bool = False

    @property
    def is_gaia(self) -> bool:
        return self.remote is not None

    @property
    def chooses(self) -> bool:
        """Whether a trial before the run chooses the remote model."""
        return self.remote == AUTO

    @property
    def evaluate_every(self) -> int:
        """A multiple of the steps between two synchronisations, since copies are alike after one and differ before."""
        return -(-EVERY // self.sync_every) * self.sync_every


def means(*settings: str) -> str:
    """Rounds of 8 steps whose result is the mean of the copies."""
    rounds = ('model = "local-steps"', "steps = 8", 'outer = "plain"', "outer_learning_rate = 1.0")
    return f"{{ {', '.join((*rounds, *settings))} }}"


TENTH = "density = 0.1, total_density = 0.1"


SYSTEMS = {
    "auto": System("Gaia, `auto`", remote=AUTO, may_be_several=True),
    "perceptron": System("Gaia, `auto`, its own perceptron", remote=AUTO, is_built_in=True),
    "local-steps": System("Gaia, `local-steps`", sync_every=5, remote='{ model = "local-steps" }', may_be_several=True),
    "asp": System("Gaia, `asp`", remote='{ model = "asp" }', may_be_several=True),
    "bsp": System("Gaia, `bsp`", remote='{ model = "bsp" }', may_be_several=True),
    "local-steps-8": System(
        "Gaia, `local-steps`, 8",
        sync_every=8,
        remote='{ model = "local-steps", steps = 8 }',
        by_default=False,
    ),
    "local-steps-0": System(
        "Gaia, `local-steps`, 8, no overlap",
        sync_every=8,
        remote='{ model = "local-steps", steps = 8, overlap = 0, outer_momentum = 0.9 }',
        by_default=False,
    ),
    "local-steps-sparse": System(
        "Gaia, `local-steps`, 2, density 0.015",
        sync_every=2,
        remote='{ model = "local-steps", steps = 2, overlap = 0, density = 0.015 }',
        by_default=False,
    ),
    "asp-residuals": System("Gaia, `asp`, drain of residuals", remote='{ model = "asp" }', drain="residuals", by_default=False),
    "means-f32": System("Gaia, means every 8, f32", sync_every=8, remote=means('values = "f32"'), by_default=False),
    "means": System("Gaia, means every 8, int4", sync_every=8, remote=means(), by_default=False),
    "means-residuals": System(
        "Gaia, means every 8, int4, drain of residuals", sync_every=8, remote=means(), drain="residuals", by_default=False
    ),
    "means-sparse": System("Gaia, means every 8, a tenth of int4", sync_every=8, remote=means(TENTH), by_default=False),
    "means-sparse-residuals": System(
        "Gaia, means every 8, a tenth of int4, drain of residuals",
        sync_every=8,
        remote=means(TENTH),
        drain="residuals",
        by_default=False,
    ),
    "perceptron-sparse": System(
        "Gaia, `local-steps`, 2, density 0.015, its own perceptron",
        sync_every=2,
        remote='{ model = "local-steps", steps = 2, overlap = 0, density = 0.015 }',
        is_built_in=True,
        by_default=False,
    ),
    "asp-progress": System(
        "Gaia, `asp` by progress",
        remote='{ model = "asp", function = "progress", threshold = 0.1 }',
        by_default=False,
    ),
    "asp-guard": System(
        "Gaia, `asp` by progress, guarded",
        remote='{ model = "asp", function = "progress", threshold = 0.1, guard = {} }',
        by_default=False,
    ),
    "ddp": System("PyTorch DDP", may_be_several=True),
    "ddp-fp16": System("PyTorch DDP, fp16", may_be_several=True),
    "powersgd-2": System("DDP, PowerSGD rank 2", may_be_several=True),
    "powersgd-4": System("DDP, PowerSGD rank 4", may_be_several=True),
    "powersgd-4-gather": System("DDP, PowerSGD rank 4, all-gather", may_be_several=True),
    "post-local-sgd-8": System("PostLocalSGD, H = 8", sync_every=8, may_be_several=True),
    "torchft-diloco-8": System("torchft DiLoCo, H = 8", sync_every=8),
    "torchft-diloco-20": System("torchft DiLoCo, H = 20", sync_every=20),
    "hivemind-8": System("hivemind, fp16, H = 8", sync_every=8),
    "alone": System("alone, without communication"),
}


@dataclass(frozen=True)
class Trial:
    """What one run trains, and for how long at the most."""

    task: str
    system: str
    seed: int
    learning_rate: float
    steps: int
    #: How many times as long as the others the last region takes for a step.
    slow: float = 1.0
    #: That train in each region.
    processes: int = 1
    #: Whether each region records what its own steps add up to. They are steps of plain SGD then.
    records: bool = False
    #: Whether a region is killed and started again. Gaia has a state on disk then.
    is_killed: bool = False

    def settings(self) -> str:
        """What a run file says of it, where Gaia trains."""
        system = SYSTEMS[self.system]
        stop = f"stop.clocks = {self.steps}\nevaluate.every = {system.evaluate_every}"
        return f'seed = {self.seed}\nsync.remote = {system.remote}\n{stop}\ndrain.method = "{system.drain}"'

    def environment(self, regions: int) -> dict[str, Any]:
        """The environment of ``train.py``."""
        system = SYSTEMS[self.system]
        what = {"BENCH_SYSTEM": "gaia" if system.is_gaia else self.system, "BENCH_TASK": self.task}
        where = {"BENCH_REGIONS": regions, "BENCH_PROCESSES": self.processes}
        how = {"BENCH_SEED": self.seed, "BENCH_LEARNING_RATE": self.learning_rate, "BENCH_STEPS": self.steps}
        beside = {"BENCH_SLOW": self.slow, "BENCH_RECORDS": int(self.records), "BENCH_KILLED": int(self.is_killed)}
        return {**what, **where, **how, **beside, "BENCH_EVERY": system.evaluate_every, "OMP_NUM_THREADS": 1}


class Started:
    """A system that trains over regions: what its processes are, and what they have judged."""

    def __init__(self, trial: Trial, processes: Processes, regions: Sequence[Region], link: dict[str, str]) -> None:
        """``link`` is what a run file says of the links."""
        self._processes, self.names = processes, [region.name for region in regions]
        #: Of the processes that train, where Gaia is what trains.
        self._pids: dict[str, int] = {}
        self._judged: list[Reached] = []
        system, folder = SYSTEMS[trial.system], processes.folder
        if system.is_built_in:
            for rank, region in enumerate(regions):
                write_digits(folder / "data" / region.name, rank, len(regions))
            app = perceptron(trial, len(regions))
            run = gaia_nodes.write_run_file(folder, regions, trial.settings(), **link, app=app)
            self._pids = gaia_nodes.start_built_in(processes, regions, run)
        elif system.is_gaia:
            run = gaia_nodes.write_run_file(folder, regions, trial.settings(), **link)
            variables = trial.environment(len(regions))
            self._pids = gaia_nodes.start(
                processes, regions, run, TRAIN, with_state=trial.is_killed, inside=trial.processes, **variables
            )
        else:
            start_peers(processes, regions, trial)

    def evaluations(self) -> list[Reached]:
        """What has been judged so far."""
        if not self._pids:
            return evaluated(self._processes.folder, self.names)
        # Data centers reach a clock at different times, and the coordinator knows which evaluations are of the same. What their
        # network cards have sent is looked up once it has written a line.
        for line in lines_of(self._processes.folder / "out" / "progress.jsonl")[len(self._judged) :]:
            sent = sum(sent_bytes(pid) for pid in self._pids.values()) / len(self._pids) / 1e6
            self._judged.append(Reached(False, line["clock"], line["time_s"], sent, line["metric"]))
        return [one for one in self._judged if one.step > 0]

    def remote(self) -> dict[str, Any]:
        """The remote model of Gaia with which the run has begun, which a trial may have chosen. Empty for peers."""
        run = self._processes.folder / "out" / "run.toml"
        found: dict[str, Any] = tomllib.loads(run.read_text())["sync"]["remote"] if run.exists() else {}
        return found

    def is_running(self) -> bool:
        """Whether it trains.

        Raises:
            Failed: A process has ended with an error.
        """
        return bool(self._processes.running(self.names))


def perceptron(trial: Trial, regions: int) -> str:
    """The perceptron of the digits as Gaia's own application, over files that ``write_digits`` has written."""
    network = 'app.kind = "perceptron"\napp.hidden = [1024, 512]\napp.momentum = 0.9\napp.learning_rate_decay = "none"'
    step = f"app.batch = {TASKS[trial.task].batch // regions}\napp.learning_rate = {trial.learning_rate}"
    data = 'app.data.source = "idx"\napp.data.path = "data/{dc}"\napp.evaluate_examples = 500'
    return f"{network}\n{step}\n{data}"


def sent_bytes(pid: int) -> int:
    """What the network card ``eth0`` has sent in the network namespace of a process. 0 once the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except OSError:
        return 0
    # After the name: eight figures of what was received, then those of what was sent.
    return sum(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith("eth0:"))


def start_peers(processes: Processes, regions: Sequence[Region], trial: Trial) -> None:
    """Starts a peer's processes in each region, and in the first region what they meet at."""
    first = regions[0].address
    if trial.system.startswith("torchft"):
        least = len(regions) - trial.is_killed
        lighthouse = [Path(sys.executable).with_name("torchft_lighthouse"), "--min_replicas", least]
        processes.start("lighthouse", [*regions[0].enter, *lighthouse, "--bind", f"{first}:29510", "--join_timeout_ms", 10_000])
    world = len(regions) * trial.processes
    for rank in range(world):
        place = Place.of(rank, len(regions), trial.processes)
        region = regions[place.region]
        group = {"MASTER_ADDR": first, "MASTER_PORT": 29500, "RANK": rank, "WORLD_SIZE": world}
        links = {"BENCH_ADDRESS": region.address, "GLOO_SOCKET_IFNAME": "eth0", "TORCHFT_LIGHTHOUSE": f"http://{first}:29510"}
        # The first of a region writes its log.
        name = {"BENCH_NAME": region.name} if place.process == 0 else {}
        variables = {**trial.environment(len(regions)), **group, **links, **name}
        label = f"{region.name}-{place.process}" if place.process else region.name
        processes.start(label, [*region.enter, sys.executable, TRAIN], **variables)
