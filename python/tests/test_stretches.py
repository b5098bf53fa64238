"""Scripts that keep their changes between rounds of local steps, beside the server of their process."""

import json

import numpy
from conftest import write
from processes import Cluster, said

#: Pulls 3,000 numbers towards those of its data center. What it does after its loop is its own.
SCRIPT = """
import gaia, numpy

target = numpy.random.default_rng(gaia.rank()).normal(size=3000).astype(numpy.float32)
run = gaia.join({"w": numpy.zeros(3000, numpy.float32)}, evaluate=lambda params: float(numpy.mean((params["w"] - target) ** 2)))
for step in run(range(STEPS)):
    run.params["w"] -= 0.05 * (run.params["w"] - target)
    run.step()
if not run.over:
    run.params["w"][...] = 1e6
run.end()
numpy.save(f"final-{gaia.rank()}.npy", run.params["w"])
"""

def trained(folder, steps, overlap=0, clocks=1_000, **variables):
    """The final values of both data centers, and the summary of the run."""
    folder.mkdir()
    remote = f'local-steps", steps = 5, overlap = {overlap}, values = "f32'
    cluster = Cluster(folder, clocks=clocks, remote=remote, keys="evaluate.every = 4")
    script = write(folder / "script.py", SCRIPT.replace("STEPS", str(steps)))
    states = {dc: {name: f"{value}-{dc}" for name, value in variables.items()} for dc in ("east", "west")}
    nodes = [cluster.coordinator(script), *(cluster.worker(script, dc, **states[dc]) for dc in states)]
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0] * 3, texts
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["copies_equal"] and summary["conservation"]["broken"] == [], summary
    finals = [numpy.load(folder / f"final-{rank}.npy") for rank in range(2)]
    assert numpy.array_equal(*finals)
    return finals[0], summary


def lan_bytes_of_a_clock(summary):
    return summary["lan_bytes"] / sum(summary["data_center_clocks"])


def test_changes_that_are_kept_end_where_those_of_each_clock_do(tmp_path):
    kept, summary = trained(tmp_path / "kept", 43)
    # A state has what is changed in each clock, so nothing is kept.
    each, beside = trained(tmp_path / "each", 43, GAIA_STATE="state")
    numpy.testing.assert_allclose(kept, each, rtol=1e-4, atol=1e-5)
    assert numpy.abs(each).mean() > 0.3
    assert lan_bytes_of_a_clock(summary) < 0.7 * lan_bytes_of_a_clock(beside)


def test_a_run_that_is_stopped_between_two_rounds_has_what_was_kept(tmp_path):
    kept, summary = trained(tmp_path / "kept", 10_000, clocks=38)
    assert summary["stopped_by"] == "clocks"
    target = sum(numpy.random.default_rng(rank).normal(size=3000) for rank in range(2)) / 2
    steps = 1 - 0.95 ** max(summary["data_center_clocks"])
    # The first round counts workers, and moves copies by half as much.
    assert numpy.abs(kept - steps * target).mean() < 0.1 * numpy.abs(target).mean()


def test_a_round_that_arrives_while_changes_are_kept_enters_beside_them(tmp_path):
    kept, summary = trained(tmp_path / "kept", 43, overlap=3)
    each, beside = trained(tmp_path / "each", 43, overlap=3, GAIA_STATE="state")
    # Steps arrive when they do, so that the two are alike and not equal.
    assert numpy.abs(kept - each).mean() < 0.05 * numpy.abs(each).mean()
    assert lan_bytes_of_a_clock(summary) < lan_bytes_of_a_clock(beside)
