"""What tests share: run files and processes."""

import importlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

# A shell starts what it puts in the background with interrupts ignored, and processes hand that down to their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

PYTHON = Path(__file__).parent.parent
EXAMPLES = PYTHON / "examples"

THREE = """
name = "test"
driver = "simulated"
app.kind = "external"
topology.file = "three-regions"
sync.remote = { model = "bsp" }
compute = { model = "cost", examples_per_second = 500.0 }
stop.clocks = 20
"""

ONE = """
name = "test"
driver = "simulated"
app.kind = "external"
sync.remote = { model = "bsp" }
compute = { model = "cost", examples_per_second = 500.0 }
stop.clocks = 100
topology = { name = "one", data_center = [{ name = "only", servers = 1, workers = 1 }], wan = {} }
"""

#: A script that shrinks its arrays. FIRST is what they begin with.
SHRINKING = """
import os
import gaia, numpy

first = float(os.environ.get("FIRST", "1"))
model = {"kernel": numpy.full((3, 2, 2), first, numpy.float32), "scale": numpy.full((), 0.5, numpy.float32)}
distance = lambda params: sum(float(numpy.square(leaf).sum()) for leaf in params.values())
run = gaia.join(model, evaluate=distance, metric="distance")
print("first", run.params["kernel"][0, 0, 0])
while not run.over:
    for leaf in run.params.values():
        leaf *= 0.9
    run.step()
print("final", run.params["kernel"][0, 0, 0])
"""


@pytest.fixture
def three(tmp_path):
    """A run file: three regions, two workers in each, BSP."""
    return write(tmp_path / "three.toml", THREE)


@pytest.fixture
def one(tmp_path):
    """A run file: one data center with one worker."""
    return write(tmp_path / "one.toml", ONE)


@pytest.fixture
def bench_module(monkeypatch):
    """Imports a module of the programs in `bench/`."""
    monkeypatch.syspath_prepend(str(PYTHON / "bench"))
    return importlib.import_module


@pytest.fixture
def script(tmp_path):
    """A script that shrinks its arrays."""
    return write(tmp_path / "train.py", SHRINKING)


def write(path, text):
    path.write_text(text.lstrip())
    return path


def environment(**variables):
    """The environment of a process that imports the package under test."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **variables}


def gaia(*arguments, cwd, **variables):
    """Runs the command line, and returns the ended process."""
    command = [sys.executable, "-m", "gaia", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment(**variables), capture_output=True, text=True, timeout=240)


def raised_in_time(act):
    """What is raised by a call that might wait for ever."""
    raised = []

    def call():
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(timeout=120)
    assert not thread.is_alive(), "the call has not returned"
    return raised[0] if raised else None
