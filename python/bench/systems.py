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
from tasks import TASKS, write_digits

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
    #: Whether Gaia's own application trains instead of a script.
    is_built_in: bool = False
    #: Whether it is measured unless it is named.
    by_default: bool = True

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


SYSTEMS = {
    "auto": System("Gaia, `auto`", remote=AUTO),
    "perceptron": System("Gaia, `auto`, its own perceptron", remote=AUTO, is_built_in=True),
    "local-steps": System("Gaia, `local-steps`", sync_every=5, remote='{ model = "local-steps" }'),
    "asp": System("Gaia, `asp`", remote='{ model = "asp" }'),
    "bsp": System("Gaia, `bsp`", remote='{ model = "bsp" }'),
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
    "ddp": System("PyTorch DDP"),
    "ddp-fp16": System("PyTorch DDP, fp16"),
    "powersgd-2": System("DDP, PowerSGD rank 2"),
    "powersgd-4": System("DDP, PowerSGD rank 4"),
    "powersgd-4-gather": System("DDP, PowerSGD rank 4, all-gather"),
    "post-local-sgd-8": System("PostLocalSGD, H = 8", sync_every=8),
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

    def settings(self) -> str:
        """What a run file says of it, where Gaia trains."""
        system = SYSTEMS[self.system]
        stop = f"stop.clocks = {self.steps}\nevaluate.every = {system.evaluate_every}"
        return f"seed = {self.seed}\nsync.remote = {system.remote}\n{stop}"

    def environment(self, regions: int) -> dict[str, Any]:
        """The environment of ``train.py``."""
        system = SYSTEMS[self.system]
        what = {"BENCH_SYSTEM": "gaia" if system.is_gaia else self.system, "BENCH_TASK": self.task, "BENCH_REGIONS": regions}
        how = {"BENCH_SEED": self.seed, "BENCH_LEARNING_RATE": self.learning_rate, "BENCH_STEPS": self.steps}
        return {**what, **how, "BENCH_EVERY": system.evaluate_every, "OMP_NUM_THREADS": 1}


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
            self._pids = gaia_nodes.start(processes, regions, run, TRAIN, **trial.environment(len(regions)))
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
    """Starts a peer's processes, one in each region, and in the first region what they meet at."""
    first = regions[0].address
    if trial.system.startswith("torchft"):
        lighthouse = [Path(sys.executable).with_name("torchft_lighthouse"), "--min_replicas", len(regions)]
        processes.start("lighthouse", [*regions[0].enter, *lighthouse, "--bind", f"{first}:29510", "--join_timeout_ms", 10_000])
    for rank, region in enumerate(regions):
        group = {"MASTER_ADDR": first, "MASTER_PORT": 29500, "RANK": rank, "WORLD_SIZE": len(regions)}
        place = {"BENCH_NAME": region.name, "BENCH_ADDRESS": region.address, "GLOO_SOCKET_IFNAME": "eth0"}
        address = {"TORCHFT_LIGHTHOUSE": f"http://{first}:29510"}
        variables = {**trial.environment(len(regions)), **group, **place, **address}
        processes.start(region.name, [*region.enter, sys.executable, TRAIN], **variables)
