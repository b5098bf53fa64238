"""The model of a script as a file, for nodes that do not run the script."""

import json
import sys

import numpy
import pytest
from conftest import EXAMPLES, PYTHON, SHRINKING, gaia as command, write
from processes import Cluster, said

safetensors = pytest.importorskip("safetensors.numpy", reason="skipped: safetensors is not installed")

MODEL = 'app.model = "model.safetensors"'


def init(script, folder, *arguments, run=EXAMPLES / "regions.toml", out="model.safetensors", **variables):
    ended = command("init", run, "--script", script, "--out", out, *arguments, "--json", cwd=folder, **variables)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_init_writes_what_a_script_declares(tmp_path, script):
    written = init(script, tmp_path)
    assert (written["tensors"], written["statistics"], written["parameters"]) == (2, 0, 13)
    assert (written["metric"], written["momentum"], written["average"]) == ("distance", 0, True)
    tensors = safetensors.load_file(tmp_path / "model.safetensors")
    assert tensors["kernel"].shape == (3, 2, 2) and (tensors["kernel"] == 1).all()
    assert tensors["scale"].shape == () and tensors["scale"] == 0.5

    again = init(script, tmp_path, out="again.safetensors")
    assert again["tensors"] == 2
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


def test_init_takes_values_and_ignores_a_model_that_is_there(tmp_path, script):
    trained = {"kernel": numpy.full((3, 2, 2), 3, numpy.float16), "scale": numpy.float64(2), "steps": numpy.int64(7)}
    safetensors.save_file({name: numpy.asarray(value) for name, value in trained.items()}, tmp_path / "trained.safetensors")
    (tmp_path / "model.safetensors").write_text("of another script")
    init(script, tmp_path, "--init", "trained.safetensors", "--set", "app.model=model.safetensors")
    tensors = safetensors.load_file(tmp_path / "model.safetensors")
    assert (tensors["kernel"] == 3).all() and tensors["scale"] == 2 and len(tensors) == 2


def programs():
    """Programs that run nodes without a script: the one without any Python, and the package's."""
    plain = PYTHON.parent / "target" / "debug" / "gaia"
    built = pytest.mark.skipif(not plain.is_file(), reason=f"skipped: {plain} is not built")
    return [pytest.param([plain], marks=built, id="plain"), pytest.param([sys.executable, "-m", "gaia"], id="python")]


@pytest.mark.parametrize("program", programs())
def test_nodes_without_workers_need_no_script(tmp_path, script, program):
    cluster = Cluster(tmp_path, clocks=12, keys=MODEL)
    init(script, tmp_path, run=cluster.run)
    nodes = [cluster.node(program, "--coordinator", "--out", "out")]
    nodes += [cluster.node(program, "--dc", dc, "--server", "0") for dc in ("east", "west")]
    # All start from the values of the file, whatever the script has made.
    workers = [cluster.worker(script, "east", GAIA_ROLE="worker"), cluster.worker(script, "west", GAIA_ROLE="worker", FIRST="7")]
    texts = said(nodes + workers)
    assert [node.returncode for node in nodes + workers] == [0] * 5, texts
    assert all("first 1.0" in out for out, _ in texts[3:]), texts
    assert texts[3][0] == texts[4][0], texts
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["copies_equal"] and summary["metric"]["name"] == "distance"
    assert summary["objective"] < 12
    tensors = safetensors.load_file(tmp_path / "out" / "model.safetensors")
    assert tensors["kernel"].shape == (3, 2, 2) and tensors["kernel"][0, 0, 0] == numpy.float32(texts[3][0].split("final ")[1])


def test_a_server_beside_a_script_starts_from_the_file(tmp_path, script):
    cluster = Cluster(tmp_path, clocks=6, keys=MODEL)
    init(script, tmp_path, run=cluster.run, FIRST="4")
    nodes = [cluster.node([sys.executable, "-m", "gaia"], "--coordinator", "--out", "out")]
    nodes += [cluster.worker(script, dc) for dc in ("east", "west")]
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0] * 3, texts
    assert all("first 4.0" in out for out, _ in texts[1:]), texts


def test_a_coordinator_without_a_script_chooses_rounds_for_a_model_of_a_file(tmp_path, script):
    cluster = Cluster(tmp_path, clocks=12, keys=MODEL, remote="auto")
    init(script, tmp_path, run=cluster.run)
    nodes = [cluster.node([sys.executable, "-m", "gaia"], "--coordinator", "--out", "out")]
    nodes += [cluster.worker(script, dc) for dc in ("east", "west")]
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0] * 3, texts
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["copies_equal"] and summary["remote_sync"] == "local-steps", summary
    assert "So nothing was tried" in summary["remote_sync_reason"], summary


def test_a_script_that_is_not_the_one_of_the_file_is_refused(tmp_path, script):
    init(script, tmp_path)
    other = write(tmp_path / "other.py", SHRINKING.replace("(3, 2, 2)", "(3, 4)"))
    model = ["--set", "app.model=model.safetensors"]
    refused = command("train", EXAMPLES / "regions.toml", "--script", other, *model, cwd=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert "tensor 1 is kernel [3, 4], expected kernel [3, 2, 2], as in" in refused.stderr
    assert "write it again with gaia init" in refused.stderr

    sums = write(tmp_path / "sums.py", SHRINKING.replace('metric="distance"', 'metric="distance", average=False'))
    refused = command("train", EXAMPLES / "regions.toml", "--script", sums, *model, cwd=tmp_path)
    assert refused.returncode == 2 and "added changes, expected" in refused.stderr, refused.stderr


def test_nodes_without_a_script_and_without_its_model_are_refused(tmp_path, script):
    run = EXAMPLES / "regions.toml"
    none = command("node", run, "--coordinator", cwd=tmp_path)
    assert none.returncode == 2 and "expected --script or app.script, or app.model" in none.stderr, none.stderr
    missing = command("node", run, "--coordinator", "--set", "app.model=none.safetensors", cwd=tmp_path)
    assert missing.returncode == 2 and "none.safetensors" in missing.stderr, missing.stderr
    fails = write(tmp_path / "fails.py", "import gaia\nraise LookupError('no data')\n")
    failed = command("init", run, "--script", fails, cwd=tmp_path)
    assert failed.returncode == 2 and "LookupError: no data (fails.py:2)" in failed.stderr, failed.stderr
    assert not (tmp_path / "model.safetensors").exists()
