"""The nodes of a Gaia run over real sockets: the coordinator, and in each data center one process that is worker and server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from running import Failed, Processes, free_port


@dataclass(frozen=True)
class Region:
    """Where the processes of a data center run."""

    name: str
    address: str
    #: What a command is preceded by to run there.
    enter: tuple[str, ...] = ()


LOOPBACK = (Region("east", "127.0.0.1"), Region("west", "127.0.0.1"))


def write_run_file(
    folder: Path,
    regions: Sequence[Region],
    settings: str,
    bandwidth: str,
    rtt: str,
    app: str = 'app.kind = "external"',
    topology: str = "",
) -> Path:
    """Writes the run file of a script over these regions, or of the application ``app``, which is a part of a run file.

    ``settings`` are more lines of it, before its tables, and ``topology`` is more of its topology.
    """
    centers = "".join(
        f'[[topology.data_center]]\nname = "{region.name}"\nserver_addresses = ["{region.address}:{free_port()}"]\n'
        for region in regions
    )
    path = folder / "run.toml"
    path.write_text(
        f'name = "bench"\ndriver = "real"\n{app}\n{settings}\n'
        f'[topology]\nname = "bench"\ncoordinator_address = "{regions[0].address}:{free_port()}"\n'
        "defaults = { servers = 1, workers = 1, colocated = true }\n"
        f'wan = {{ bandwidth = "{bandwidth}", rtt = "{rtt}" }}\n{topology}\n{centers}'
    )
    issued = subprocess.run(
        [sys.executable, "-m", "gaia", "certs", "init", path, "--out", "certs"], cwd=folder, capture_output=True, text=True
    )
    if issued.returncode != 0:
        raise Failed(f"gaia certs init: {issued.stderr}")
    return path


def start(
    processes: Processes,
    regions: Sequence[Region],
    run: Path,
    script: Path,
    *,
    with_state: bool = False,
    inside: int = 1,
    **variables: object,
) -> dict[str, int]:
    """Starts all nodes of a run whose application is a script, which has ``inside`` processes in each data center.

    Returns the process that trains, or that has started those that train, in each data center.
    """
    coordinator = [sys.executable, "-m", "gaia", "node", run, "--script", script, "--coordinator", "--out", "out", "--quiet"]
    processes.start("coordinator", [*regions[0].enter, *coordinator], **variables)
    trains = {}
    group = ["-m", "torch.distributed.run", "--nproc_per_node", inside] if inside > 1 else []
    for region in regions:
        place = {"GAIA_RUN": run, "GAIA_DC": region.name, "GAIA_CERTS": processes.folder / "certs"}
        if with_state:
            place["GAIA_STATE"] = processes.folder / f"state-{region.name}"
        place["BENCH_NAME"] = region.name
        command = [*region.enter, sys.executable, *group, script]
        trains[region.name] = processes.start(region.name, command, **place, **variables).pid
    return trains


def start_built_in(processes: Processes, regions: Sequence[Region], run: Path) -> dict[str, int]:
    """Starts all nodes of a run whose application is Gaia's own. Returns the process that trains in each data center."""
    node = [sys.executable, "-m", "gaia", "node", run, "--quiet"]
    processes.start("coordinator", [*regions[0].enter, *node, "--coordinator", "--out", "out"])
    both = ["--server", 0, "--worker", 0]
    return {one.name: processes.start(one.name, [*one.enter, *node, "--dc", one.name, *both]).pid for one in regions}
