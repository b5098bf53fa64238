"""Arrays in processes of `torch.distributed`."""

import json

import numpy
import pytest
from conftest import write
from processes import Cluster, said

import gaia

distributed = pytest.importorskip("torch.distributed", reason="skipped: torch is not installed")
if not distributed.is_available():
    pytest.skip("skipped: torch has no torch.distributed", allow_module_level=True)


def join():
    return gaia.join({"w": numpy.ones(3, numpy.float32)}, evaluate=lambda params: 0.0)


@pytest.mark.parametrize(("workers", "variables"), [(1, {}), (2, {"GAIA_INDEX": "0"})], ids=["one worker", "GAIA_INDEX"])
@pytest.mark.parametrize("process", [0, 1])
def test_arrays_of_several_processes_that_are_one_worker_are_refused(tmp_path, monkeypatch, workers, variables, process):
    monkeypatch.setattr("gaia._place.inside", lambda: (process, 2))
    monkeypatch.setattr("gaia._join.inside", lambda: (process, 2))
    assert join().step() is not None, "alone a group is the script's own"
    for name, value in {"GAIA_RUN": Cluster(tmp_path, workers=workers).run, "GAIA_DC": "east", **variables}.items():
        monkeypatch.setenv(name, str(value))
    said = "arrays in 2 processes of torch.distributed, which are one worker of east, expected one process a worker"
    with pytest.raises(gaia.GaiaError, match=said) as raised:
        join()
    assert raised.value.exit_code == 2


SCRIPT = """
import os
import gaia, numpy
from torch import distributed

if "WORLD_SIZE" in os.environ:
    distributed.init_process_group("gloo")
run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 0.0)
while not run.over:
    run.params["w"] += gaia.rank()
    run.step()
print("final", gaia.rank(), run.params["w"][0])
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_each_process_with_arrays_is_a_worker(tmp_path, processes):
    cluster, script = Cluster(tmp_path, clocks=5, workers=processes), write(tmp_path / "script.py", SCRIPT)
    nodes = [cluster.coordinator(script)]
    for dc in ("east", "west"):
        nodes += cluster.torchrun(script, dc, processes)
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0] * (1 + 2 * processes), texts
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["copies_equal"]
    finals = [out.split("final ")[1].split() for out, _ in texts[1:]]
    assert [int(rank) for rank, _ in finals] == list(range(2 * processes))
    # Each clock adds the mean of all ranks.
    (clocks,) = {float(final) / numpy.mean(range(2 * processes)) for _, final in finals}
    assert clocks >= 5 and clocks == round(clocks), finals
