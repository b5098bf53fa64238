"""Processes of a run that are killed, interrupted and started again."""

import json
import signal

import pytest
from conftest import EXAMPLES, write
from processes import Cluster, appears, interrupt, said

#: A script that trains on data of its own, and waits at a clock until it is let go. It writes where it is into files.
SCRIPT = """
import os, time
from pathlib import Path
import gaia, numpy

dc = os.environ.get("GAIA_DC", "none")
x = numpy.random.default_rng(gaia.rank()).normal(size=(40, 5)).astype(numpy.float32)
y = x @ numpy.arange(5, dtype=numpy.float32)

def judge(params):
    return float(numpy.mean((x @ params["w"] - y) ** 2))

run = gaia.join({"w": numpy.zeros(5, numpy.float32)}, evaluate=judge)
print("joined at", run.clock, flush=True)
Path(f"{dc}-joined-at-{run.clock}").touch()
while not run.over:
    run.params["w"] -= 0.1 * 2 / len(x) * x.T @ (x @ run.params["w"] - y)
    if run.clock == 10:
        Path(f"{dc}-at-10").touch()
        while GATE:
            time.sleep(0.01)
    PACE
    run.step(examples=len(x))
print("ended at", run.clock, "with", run.params["w"].tolist(), flush=True)
"""


def script_of(folder, pace="pass", gate='not Path("go").exists()'):
    return write(folder / "script.py", SCRIPT.replace("PACE", pace).replace("GATE", gate))


def summary_of(folder):
    return json.loads((folder / "out" / "summary.json").read_text())


def check_whole(folder, texts, nodes):
    """Checks that a run has ended as without a fault."""
    assert [node.returncode for node in nodes] == [0] * len(nodes), texts
    summary = summary_of(folder)
    assert summary["copies_equal"] and summary["stopped_by"] == "clocks", summary
    # Each frame that was sent over a link was applied once.
    assert summary["conservation"]["links"] == 2 and summary["conservation"]["broken"] == [], summary
    return summary


def finals(texts):
    return {out.split(" with ")[1] for out, _ in texts if "ended at" in out}


def killed_and_started_again(folder, cluster, script, at):
    """Kills the script of east, whose server is another process, once a file is there, and starts it again. Checks that the run
    has ended as without a fault, and returns what its nodes have written."""
    east = cluster.worker(script, "east", GAIA_ROLE="worker")
    others = [cluster.coordinator(script), cluster.server(script, "east"), cluster.server(script, "west")]
    others.append(cluster.worker(script, "west", GAIA_ROLE="worker"))
    appears(folder / at, east, *others)
    east.kill()
    east.communicate()
    (folder / "go").touch()

    nodes = [*others, cluster.worker(script, "east", GAIA_ROLE="worker")]
    texts = said(nodes)
    check_whole(folder, texts, nodes)
    return texts


@pytest.mark.parametrize("model", ["bsp", "asp"])
def test_a_script_that_was_killed_takes_up_where_its_server_is(tmp_path, model):
    cluster, script = Cluster(tmp_path, clocks=30, remote=model), script_of(tmp_path)
    texts = killed_and_started_again(tmp_path, cluster, script, "east-at-10")
    assert (tmp_path / "east-joined-at-10").exists(), texts
    assert len(finals(texts)) == 1, texts


def test_a_script_that_was_killed_while_it_judges_judges_again(tmp_path):
    """The coordinator waits for no evaluation that nobody works on."""
    cluster, script = Cluster(tmp_path, clocks=30), script_of(tmp_path, gate="False")
    judging = '    Path(f"{dc}-judges").touch()\n    while dc == "east" and not Path("go").exists():\n        time.sleep(0.01)\n'
    script.write_text(script.read_text().replace("def judge(params):\n", "def judge(params):\n" + judging))
    texts = killed_and_started_again(tmp_path, cluster, script, "east-judges")
    assert len(finals(texts)) == 1, texts


def test_a_server_that_was_killed_goes_on_with_its_state(tmp_path):
    cluster, script = Cluster(tmp_path, clocks=30), script_of(tmp_path)
    server = cluster.server(script, "east")
    others = [cluster.coordinator(script), cluster.server(script, "west")]
    others += [cluster.worker(script, dc, GAIA_ROLE="worker") for dc in ("east", "west")]
    appears(tmp_path / "east-at-10", server, *others)
    server.kill()
    server.communicate()
    (tmp_path / "go").touch()
    nodes = [*others, cluster.server(script, "east")]
    texts = said(nodes)
    check_whole(tmp_path, texts, nodes)
    assert len(finals(texts)) == 1, texts


def test_the_run_goes_on_without_a_data_center_that_is_given_up(tmp_path):
    leaves = '[failures]\ngive_up_after = "1 s"\non_give_up = "leave"\n'
    cluster, script = Cluster(tmp_path, clocks=200, remote="asp", keys=leaves), script_of(tmp_path, "time.sleep(0.02)")
    (tmp_path / "go").touch()
    east, others = cluster.worker(script, "east"), [cluster.coordinator(script), cluster.worker(script, "west")]
    appears(tmp_path / "east-at-10", east, *others)
    east.kill()
    east.communicate()
    texts = said(others)
    assert [node.returncode for node in others] == [0, 0], texts
    left = [(one["data_center"], one["change"]) for one in summary_of(tmp_path)["membership"]]
    assert left == [("east", "left")] and "ended at" in texts[1][0], texts


def test_a_change_is_divided_by_the_workers_that_are_left(tmp_path):
    """Each worker adds 1 a clock, so the mean of all adds 1, and of one alone as well."""
    leaves = '[failures]\ngive_up_after = "1 s"\non_give_up = "leave"\n'
    cluster = Cluster(tmp_path, clocks=200, remote="asp", keys=leaves)
    script = write(
        tmp_path / "counts.py",
        "import gaia, numpy, os, time\n"
        "from pathlib import Path\n"
        "run = gaia.join({'w': numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 1.0)\n"
        "values = []\n"
        "while not run.over:\n"
        "    values.append(float(run.params['w'][0]))\n"
        "    run.params['w'] += 1\n"
        "    if run.clock == 10:\n"
        "        Path(os.environ.get('GAIA_DC', 'none') + '-at-10').touch()\n"
        "    time.sleep(0.02)\n"
        "    run.step()\n"
        "print('grew by', values[-1] - values[-2])\n",
    )
    east, others = cluster.worker(script, "east"), [cluster.coordinator(script), cluster.worker(script, "west")]
    appears(tmp_path / "east-at-10", east, *others)
    east.kill()
    east.communicate()
    texts = said(others)
    assert [node.returncode for node in others] == [0, 0], texts
    assert "grew by 1.0" in texts[1][0], texts


def test_the_run_ends_when_a_data_center_is_given_up(tmp_path):
    """By default, and whatever the remote model."""
    cluster = Cluster(tmp_path, clocks=100_000, keys='failures.give_up_after = "1 s"\n')
    script = script_of(tmp_path)
    (tmp_path / "go").touch()
    east, others = cluster.worker(script, "east"), [cluster.coordinator(script), cluster.worker(script, "west")]
    appears(tmp_path / "east-at-10", east, *others)
    east.kill()
    east.communicate()
    texts = said(others)
    assert [node.returncode for node in others] == [1, 1], texts
    assert "of east" in texts[0][1] and "lost" in texts[0][1], texts
    assert "gaia._errors.RunStopped" in texts[1][1] and "of east" in texts[1][1], texts


@pytest.mark.parametrize("model", ["bsp", "asp"])
def test_a_server_without_state_takes_the_copy_of_a_mirror_or_ends_the_run(tmp_path, model):
    """The script and its server are one process, which keeps no state."""
    cluster, script = Cluster(tmp_path, clocks=60, remote=model), script_of(tmp_path, "time.sleep(0.02)")
    east, others = cluster.worker(script, "east"), [cluster.coordinator(script), cluster.worker(script, "west")]
    appears(tmp_path / "east-at-10", east, *others)
    east.kill()
    east.communicate()
    (tmp_path / "go").touch()
    nodes = [*others, cluster.worker(script, "east")]
    texts = said(nodes)
    if model == "asp":
        check_whole(tmp_path, texts, nodes)
        assert len(finals(texts)) == 1, texts
        return
    assert [node.returncode for node in nodes] == [1, 1, 1], texts
    assert all("server 0 of east has lost its copy and cannot rebuild it" in error for _, error in texts), texts


def test_a_process_that_is_terminated_writes_its_state_and_goes_on_with_it(tmp_path):
    """Its nodes do not wait for the script, which is told at its next step."""
    nodes_run = 'dc == "east" and any(one.name == "gaia-node" for one in __import__("threading").enumerate())'
    gate = f'{nodes_run} if not Path("again").exists() else False'
    cluster, script = Cluster(tmp_path, clocks=30), script_of(tmp_path, gate=gate)
    state = {"GAIA_STATE": "state-east"}
    east, others = cluster.worker(script, "east", **state), [cluster.coordinator(script), cluster.worker(script, "west")]
    appears(tmp_path / "east-at-10", east, *others)
    east.send_signal(signal.SIGTERM)
    out, error = east.communicate(timeout=60)
    assert (east.returncode, error) == (75, "") and "ended at" not in out, error
    assert list((tmp_path / "state-east" / "east" / "server-0" / "checkpoints").glob("record-*"))

    (tmp_path / "again").touch()
    nodes = [*others, cluster.worker(script, "east", **state)]
    texts = said(nodes)
    check_whole(tmp_path, texts, nodes)
    assert (tmp_path / "east-joined-at-10").exists() and len(finals(texts)) == 1, texts
