"""Rows that are named by the processes of torch.distributed inside a data center."""

import json

import pytest
from conftest import write
from processes import Cluster, said

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")

#: Each process names the rows of its own batches. MODE is ddp or fsdp.
NAMING = '''
import os, torch
from torch import distributed, nn
import gaia

in_group = "WORLD_SIZE" in os.environ
if in_group:
    distributed.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Embedding(6_000, 8, sparse=MODE == "ddp"), nn.Linear(8, 1))
if MODE == "fsdp" and in_group:
    from torch.distributed.fsdp import fully_shard
    fully_shard(net[0])
    fully_shard(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
batches = torch.randint(6_000, (4, 40, 10), generator=torch.Generator().manual_seed(1))[min(gaia.rank(), 3)]
run = gaia.join(net, optimizer, evaluate=lambda net: 1.0, sharded=MODE == "fsdp")
model = net
if MODE == "ddp" and in_group:
    model = nn.parallel.DistributedDataParallel(net)
for ids in run(batches, rows={"0.weight": (lambda ids: ids[:9]) if FORGETS else (lambda ids: ids)}):
    optimizer.zero_grad()
    (model(ids) - torch.sin(ids.float())[:, None]).square().mean().backward()
    optimizer.step()
run.end()
run.save(f"{os.environ['GAIA_DC']}.safetensors")
print("clocks", run.clock)
distributed.destroy_process_group()
'''


def expected():
    """The weights after a step on each batch of all four processes."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Embedding(6_000, 8), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for ids in torch.randint(6_000, (4, 40, 10), generator=torch.Generator().manual_seed(1)).transpose(0, 1):
        optimizer.zero_grad()
        (net(ids) - torch.sin(ids.float())[..., None]).square().mean().backward()
        optimizer.step()
    return net.state_dict()


def started(folder, mode, forgets=False):
    """A run of two data centers with two processes each, and what all have written."""
    # The processes of DDP are one worker.
    keys, processes = "evaluate.every = 1000", 1 if mode == "ddp" else 2
    cluster = Cluster(folder, clocks=1000, workers=processes, servers=processes, keys=keys)
    script = write(folder / "naming.py", NAMING.replace("MODE", repr(mode)).replace("FORGETS", repr(forgets)))
    nodes = [cluster.coordinator(script), *cluster.torchrun(script, "east"), *cluster.torchrun(script, "west")]
    return nodes, said(nodes)


@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_a_clock_reads_the_rows_that_one_of_the_processes_names(tmp_path, mode):
    safetensors = pytest.importorskip("safetensors.torch", reason="skipped: safetensors is not installed")
    nodes, texts = started(tmp_path, mode)
    assert [node.returncode for node in nodes] == [0] * 5, texts
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["copies_equal"] and summary["stopped_by"] == "ended"
    # Each of two data centers reads the whole table in the first clock and for evaluations alone.
    assert summary["lan_bytes"] < 2 * 40 * 4 * 8 * 6_000 / 2, summary["lan_bytes"]
    models = [safetensors.load_file(tmp_path / f"{dc}.safetensors") for dc in ("east", "west")]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    for name, values in expected().items():
        assert torch.allclose(models[0][name], values, atol=1e-5), name


def test_a_row_that_no_process_has_named_ends_the_run(tmp_path):
    nodes, texts = started(tmp_path, "ddp", forgets=True)
    assert all(node.returncode != 0 for node in nodes), texts
    assert any("0.weight: row" in text and "has changed" in text for _, text in texts), texts
