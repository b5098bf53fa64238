"""What a run is told of a script that has failed, and that it is told."""

import json
import sys
import threading

import numpy
import pytest
from conftest import EXAMPLES, raised_in_time, write
from processes import Cluster, ended, said

import gaia
from gaia._scripts import described

FAILS = """
import gaia, numpy, os, sys
run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 0.0)
sys.excepthook = lambda kind, error, trace: print("shown:", error)
for _ in run(range(10**9)):
    if run.clock == 20 and os.environ.get("GAIA_DC") == "west":
        raise LookupError("no more data")
    run.step()
"""


class Untold(Exception):
    """An exception whose text cannot be made."""

    def __str__(self):
        raise LookupError


def raised(act):
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def raises(error):
    raise error


def test_an_exception_is_told_in_one_line_that_a_run_takes():
    told = described(3, raised(lambda: raises(ValueError("shapes differ:\n  (2,)\n  (3,)"))))
    assert told.startswith("rank 3: ValueError: shapes differ: (2,) (3,) (test_failures.py:"), told
    assert described(0, ValueError("line \udce9")) == "rank 0: ValueError: line \\udce9"
    assert described(0, Untold()) == "rank 0: Untold: <its text cannot be made>"
    assert described(0, KeyError()) == "rank 0: KeyError"


def test_the_line_is_that_of_the_user_and_not_of_a_library():
    of_python = described(0, raised(lambda: json.loads("{")))
    assert "(test_failures.py:" in of_python, of_python
    of_package = described(0, raised(lambda: numpy.linalg.inv(numpy.zeros((2, 3)))))
    assert "(test_failures.py:" in of_package, of_package


@pytest.mark.parametrize("error", [ValueError("line \udce9"), Untold()], ids=["half of a character", "no text"])
def test_an_exception_that_cannot_be_told_as_it_is_ends_the_run(three, error):
    """The run waited for the script, for ever."""

    def main():
        run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 0.0)
        while not run.over:
            if run.clock == 3:
                raise error
            run.step()

    assert raised_in_time(lambda: gaia.simulate(main, three)) is error


@pytest.mark.parametrize("ends", [lambda: None, sys.exit, lambda: sys.exit(0)], ids=["its end", "an exit", "an exit with 0"])
def test_an_evaluation_that_fails_after_the_script_is_that_of_the_run(one, ends):
    error, has_ended = LookupError("no held-out data"), []

    def main():
        run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=lambda params: raises(error) if has_ended else 0.0)
        run.step()
        has_ended.append(True)
        ends()

    assert raised_in_time(lambda: gaia.simulate(main, one)) is error


def test_an_exception_that_another_library_shows_is_told(tmp_path):
    """Some set their own `sys.excepthook` and do not call the one before: the run had ended in order."""
    cluster, script = Cluster(tmp_path, clocks=100_000), write(tmp_path / "fails.py", FAILS)
    nodes = [cluster.coordinator(script), cluster.worker(script, "east"), cluster.worker(script, "west")]
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [1, 1, 1], texts
    assert "rank 1: LookupError: no more data (fails.py:6)" in texts[0][1], texts
    assert "shown: no more data" in texts[2][0], texts


def ddp(folder, fails):
    """Starts two data centers of two processes each, in which a clock begins with `fails`: the coordinator and the processes."""
    pytest.importorskip("torch", reason="skipped: torch is not installed")
    text = (EXAMPLES / "ddp.py").read_text()
    assert text.count("    optimizer.zero_grad()\n") == 1
    script = write(folder / "fails.py", text.replace("    optimizer.zero_grad()\n", f"    {fails}\n        optimizer.zero_grad()\n"))
    cluster = Cluster(folder, clocks=10**6)
    return [cluster.coordinator(script), *cluster.torchrun(script, "east"), *cluster.torchrun(script, "west")]


def test_an_exception_that_another_library_shows_in_a_process_of_ddp_is_told(tmp_path):
    nodes = ddp(
        tmp_path,
        "import sys; sys.excepthook = print\n"
        "        if run.clock == 9 and gaia.rank() == 3: raise LookupError('no more data')",
    )
    with ended(*nodes):
        _, told = nodes[0].communicate(timeout=120)
        assert nodes[0].returncode == 1 and "rank 3: LookupError: no more data (fails.py:" in told, told


def test_a_process_of_ddp_that_aborts_ends_the_run_by_the_first_one(tmp_path):
    """It tells nobody. The first process hears of it from torch at its next collective, and tells that."""
    nodes = ddp(tmp_path, "if run.clock == 9 and gaia.rank() == 3: import os; os.abort()")
    with ended(*nodes):
        _, told = nodes[0].communicate(timeout=120)
        assert nodes[0].returncode == 1 and "rank 2: " in told and "(fails.py:" in told, told
        nodes[4].communicate(timeout=120)
        assert nodes[4].returncode == -6, "the signal of abort"


def test_processes_that_met_without_a_store_tell_nobody(monkeypatch):
    """As with MPI. The exception is shown, and nobody waits."""
    pytest.importorskip("torch", reason="skipped: torch is not installed")
    from gaia import _failures

    monkeypatch.setattr(_failures.distributed.distributed_c10d, "_get_default_store", lambda: None)
    shows = []
    monkeypatch.setattr("sys.excepthook", lambda *error: shows.append(error))
    before = _failures.sys.excepthook
    _failures.tell_failures(lambda: False)
    assert _failures.sys.excepthook is before

    threads = threading.active_count()
    listening = _failures.Listening(worker=None, is_over=lambda: False)
    assert threading.active_count() == threads and not listening.has_heard
    listening.stop()
