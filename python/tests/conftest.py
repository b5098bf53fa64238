"""What tests share: run files and processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.fixture
def three(tmp_path):
    """A run file: three regions, two workers in each, BSP."""
    return write(tmp_path / "three.toml", THREE)


@pytest.fixture
def one(tmp_path):
    """A run file: one data center with one worker."""
    return write(tmp_path / "one.toml", ONE)


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
