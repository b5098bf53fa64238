"""ps-lite as a peer: one worker and one server, compiled from its sources."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from running import Failed, Processes, free_port

SOURCE = Path(__file__).with_name("ps_lite.cc").resolve()
#: What ps-lite's own makefile has for speed, and a standard that the headers of today's protobuf need.
FLAGS = ["-O3", "-msse2", "-finline-functions", "-std=c++17", "-w"]
LIBRARIES = ["-lzmq", "-lprotobuf-lite", "-lpthread"]
SECONDS_MAX = 600.0


def build(sources: Path, folder: Path) -> Path:
    """The program of `ps_lite.cc`, made in a folder from a checkout of ps-lite.

    Raises:
        Failed: A compiler is missing, or says why it cannot.
    """
    program = folder / "ps_lite"
    library = [sources / "src" / name for name in ("customer.cc", "postoffice.cc", "van.cc")]
    headers = [f"-I{where}" for where in (folder, sources / "include", sources / "src")]
    _run(["protoc", f"--cpp_out={folder}", f"--proto_path={sources / 'src'}", sources / "src" / "meta.proto"])
    _run(["g++", *FLAGS, *headers, *library, folder / "meta.pb.cc", SOURCE, "-o", program, *LIBRARIES])
    return program


def _run(command: list[object]) -> None:
    words = [str(word) for word in command]
    try:
        ran = subprocess.run(words, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Failed(f"found no program `{words[0]}`, which ps-lite is compiled with") from error
    if ran.returncode != 0:
        raise Failed(f"{words[0]} has ended with code {ran.returncode}:\n{ran.stderr}")


def seconds_there_and_back(program: Path, parameters: int, warm_up: int, rounds: int) -> float:
    """The time in which all parameters are pushed and pulled, as a mean over rounds after those of a warm-up."""
    place = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_NODE_HOST": "127.0.0.1", "DMLC_INTERFACE": "lo"}
    cluster = {"DMLC_NUM_SERVER": 1, "DMLC_NUM_WORKER": 1, "DMLC_PS_ROOT_PORT": free_port()}
    with tempfile.TemporaryDirectory(prefix="gaia-bench-") as folder, Processes(Path(folder)) as processes:
        for role in ("scheduler", "server", "worker"):
            processes.start(role, [program, parameters, warm_up, rounds], DMLC_ROLE=role, **place, **cluster)
        processes.wait(SECONDS_MAX)
        return float(processes.said("worker"))
