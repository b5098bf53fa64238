"""Ctrl-C, wherever a script is. No test measures a time; what does not end fails by the limit of `interrupt`."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest
from conftest import EXAMPLES, environment, write
from processes import Cluster, appears, ended, have_ended, interrupt, is_running, said

import gaia

JOINED = """
import gaia, numpy, os, time
from pathlib import Path
name = os.environ.get("GAIA_DC", "none")
Path(f"{name}-starts").touch()
run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 1.0)
"""

STEPS = """
Path(f"{name}-joined").touch()
while not run.over:
    run.params["w"] += 1
    SLEEP
    run.step()
    Path(f"{name}-stepped").touch()
"""


def script_of(folder, sleep="pass"):
    return write(folder / "script.py", JOINED + STEPS.replace("SLEEP", sleep))


def test_a_script_that_waits_for_others_to_start(tmp_path):
    cluster, script = Cluster(tmp_path), script_of(tmp_path)
    alone = cluster.worker(script, "east")
    with ended(alone):
        appears(tmp_path / "east-starts", alone)
        # It takes a moment from here to the wait in `join`. The interrupt is heard before and after.
        time.sleep(0.5)
        _, error = interrupt(alone)
    assert alone.returncode == -signal.SIGINT and "KeyboardInterrupt" in error, error
    assert not (tmp_path / "east-joined").exists()


def test_a_script_that_waits_for_the_changes_of_others(tmp_path):
    """The run goes on when the script is started again, as after a signal to `gaia node`."""
    cluster = Cluster(tmp_path, clocks=20)
    # Under BSP a clock waits for that of the other data center, which sleeps.
    script = write(
        tmp_path / "script.py",
        JOINED + STEPS.replace("SLEEP", 'while name == "west" and not Path("go").exists(): time.sleep(0.01)'),
    )
    east = cluster.worker(script, "east", GAIA_ROLE="worker")
    others = [cluster.coordinator(script), cluster.server(script, "east"), cluster.worker(script, "west")]
    with ended(east, *others):
        appears(tmp_path / "east-joined", east, *others)
        appears(tmp_path / "west-joined", east, *others)
        _, error = interrupt(east)
        assert east.returncode == -signal.SIGINT and "KeyboardInterrupt" in error, error
        (tmp_path / "go").touch()
        nodes = [*others, cluster.worker(script, "east", GAIA_ROLE="worker")]
        texts = said(nodes)
    assert [node.returncode for node in nodes] == [0] * 4, texts
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["copies_equal"]


@pytest.mark.parametrize("state", [{}, {"GAIA_STATE": "state"}], ids=["without state", "with state"])
def test_a_script_in_its_own_code(tmp_path, state):
    cluster, script = Cluster(tmp_path), script_of(tmp_path, "time.sleep(10**6)")
    east, others = cluster.worker(script, "east", **state), [cluster.coordinator(script), cluster.worker(script, "west")]
    with ended(east, *others):
        appears(tmp_path / "east-joined", east, *others)
        _, error = interrupt(east)
    assert east.returncode == -signal.SIGINT and "KeyboardInterrupt" in error, error
    kept = [path for path in (tmp_path / "state").rglob("*") if path.name.startswith("record-")] if state else []
    assert bool(kept) == bool(state), kept


@pytest.mark.parametrize("driver", ["simulated", "emulated", "real"])
def test_a_run_of_each_driver_ends_in_order(tmp_path, driver):
    script = write(
        tmp_path / "script.py",
        JOINED
        + 'Path(f"pid-{os.getpid()}").touch()\n'
        + STEPS.replace("SLEEP", "time.sleep(0.002)"),
    )
    command = [sys.executable, "-m", "gaia", "train", EXAMPLES / "regions.toml", "--script", script, "--driver", driver]
    command += ["--set", "stop.clocks=1000000", "--out", "out"]
    train = subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    progress = tmp_path / "out" / "progress.jsonl"
    with ended(train):
        while not (progress.exists() and progress.stat().st_size):
            assert train.poll() is None, train.communicate()
            time.sleep(0.01)
        out, error = interrupt(train)
    assert train.returncode == 75, error
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["stopped_by"] == "interrupted" and summary["copies_equal"]
    assert (tmp_path / "out" / "model.safetensors").is_file()
    pids = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    # The coordinator of a real run has run the script up to `join`.
    assert len(pids) == (6 if driver == "real" else 1) and not any(is_running(pid) for pid in pids)


@pytest.mark.parametrize("driver", ["simulated", "emulated", "real"])
def test_a_second_interrupt_ends_a_run_at_once(tmp_path, driver):
    script = write(tmp_path / "script.py", JOINED + 'Path(f"pid-{os.getpid()}").touch()\n' + STEPS.replace("SLEEP", "time.sleep(10**6)"))
    command = [sys.executable, "-m", "gaia", "train", EXAMPLES / "regions.toml", "--script", script, "--driver", driver]
    train = subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with ended(train):
        appears(tmp_path / "none-joined", train)
        # The first waits for the iterations of scripts, which never end.
        train.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            train.wait(timeout=1)
        _, error = interrupt(train)
    assert train.returncode == -signal.SIGINT, error
    pids = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    assert have_ended(pids), "processes are left"


def test_an_interrupted_simulation_in_a_notebook_ends_in_order(three, tmp_path):
    """`KeyboardInterrupt` in the cell, and the next interrupt of the kernel is a plain one again."""
    stepped = threading.Event()

    def main():
        run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 1.0)
        while not run.over:
            run.step()
            stepped.set()

    def ctrl_c():
        stepped.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=ctrl_c).start()
    with pytest.raises(KeyboardInterrupt):
        gaia.simulate(main, three, set={"stop.clocks": 1_000_000}, out=tmp_path / "out")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["stopped_by"] == "interrupted"
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
