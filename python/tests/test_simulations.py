"""Short simulations of a script, which go on in processes of their own."""

import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import EXAMPLES, environment, write
from processes import appears, have_ended

RUN = EXAMPLES / "regions.toml"
SETTINGS = ["--set", "compute.examples_per_second=20000", "--budget", "20", "--json"]

#: A process has one processor if it is told so, and simulates by itself then.
ONE_PROCESSOR = """
import os, runpy, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
sys.argv[0] = "gaia"
runpy.run_module("gaia", run_name="__main__")
"""

#: What each script begins with: it says which process it is in, and leaves a line unfinished.
BEGIN = """
import os, time
from pathlib import Path
import gaia, numpy

os.write(1, b"a line that no end has")
Path(f"in-{os.getpid()}").touch()
"""

#: How many scripts have their data in memory, in each process.
COUNT = """
import sys, weakref

class Data:
    pass

alive = vars(sys).setdefault("data_of_scripts", weakref.WeakSet())
alive.add(data := Data())
with open("alive", "a") as file:
    print(len(alive), file=file)
"""

TRAIN = """
x = numpy.random.default_rng(gaia.rank()).normal(size=(40, 5)).astype(numpy.float32)
y = x @ numpy.arange(5, dtype=numpy.float32)
run = gaia.join({"w": numpy.zeros(5, numpy.float32)}, evaluate=lambda own: float(numpy.mean((x @ own["w"] - y) ** 2)))
while not run.over:
    run.params["w"] -= 0.1 * 2 / len(x) * x.T @ (x @ run.params["w"] - y)
    AT_EACH
    run.step(examples=len(x))
"""

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="there is one processor"
)


def script_of(folder, at_each="pass"):
    return write(folder / "script.py", BEGIN + TRAIN.replace("AT_EACH", at_each))


def planning(folder, script, program=("-m", "gaia")):
    """Starts `gaia plan` of a script."""
    command = [sys.executable, *program, "plan", RUN, "--script", script, *SETTINGS]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([str(word) for word in command], cwd=folder, env=environment(), **output)


def processes_in(folder):
    return {int(path.name.removeprefix("in-")) for path in folder.glob("in-*")}


def test_a_plan_is_the_same_in_one_process_and_in_several(tmp_path):
    plans = []
    for name, program in (("several", ("-m", "gaia")), ("one", ("-c", ONE_PROCESSOR))):
        folder = tmp_path / name
        folder.mkdir()
        plan = planning(folder, script_of(folder), program)
        said, error = plan.communicate(timeout=300)
        assert plan.returncode == 0, error
        plans.append(json.loads(said[said.index("{") :]))
        others = processes_in(folder) - {plan.pid}
        # The first script of all is that of the program itself, which asks it for its model.
        assert plan.pid in processes_in(folder)
        assert (len(others) >= 2) == (name == "several"), others
        assert have_ended(others)
    assert plans[0] == plans[1] and plans[0]["choice"] is not None


def test_the_data_of_scripts_goes_with_their_simulation(tmp_path):
    script = write(tmp_path / "script.py", BEGIN + COUNT + TRAIN.replace("AT_EACH", "pass"))
    plan = planning(tmp_path, script, ("-c", ONE_PROCESSOR))
    _, error = plan.communicate(timeout=300)
    assert plan.returncode == 0, error
    alive = [int(line) for line in (tmp_path / "alive").read_text().splitlines()]
    # Six workers, and the one that was asked for the model.
    assert len(alive) > 30 and max(alive) <= 7, alive


def test_a_plan_does_without_other_processes_if_they_cannot_simulate(tmp_path):
    plan = planning(tmp_path, script_of(tmp_path, 'assert "simulations" not in __import__("sys").orig_argv'))
    said, error = plan.communicate(timeout=300)
    assert plan.returncode == 0, error
    assert processes_in(tmp_path) - {plan.pid} and json.loads(said[said.index("{") :])["choice"] is not None
    assert have_ended(processes_in(tmp_path))


def test_what_a_script_fails_with_is_said(tmp_path):
    plan = planning(tmp_path, script_of(tmp_path, 'if run.clock == 4 and gaia.rank() == 1: raise LookupError("no more data")'))
    _, error = plan.communicate(timeout=300)
    assert plan.returncode == 1, error
    assert "simulating " in error and "rank 1: LookupError: no more data (script.py:" in error, error
    assert "Traceback" in error, error
    assert have_ended(processes_in(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_by_a_plan_that_is_ended(tmp_path, number):
    # The program itself asks a script for a few clocks.
    plan = planning(tmp_path, script_of(tmp_path, 'if run.clock == 15: Path("waits").touch(); time.sleep(600)'))
    appears(tmp_path / "waits", plan)
    plan.send_signal(number)
    _, error = plan.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert plan.returncode == 75 and "interrupted: there is no plan" in error, error
    else:
        assert plan.returncode == -number
    assert have_ended(processes_in(tmp_path))
