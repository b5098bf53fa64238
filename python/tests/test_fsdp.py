"""FSDP2 inside data centers: each process is a worker for the rows that it holds."""

import json
import threading

import pytest
from conftest import EXAMPLES, ONE, gaia as command, write
from processes import Cluster, said

import gaia
from gaia._place import Worker

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")
from gaia._fsdp import FsdpRun  # noqa: E402
from gaia._torch import check_sharding  # noqa: E402


def trained(cluster, script):
    """What the processes of two data centers have written, after a run that has gone well."""
    nodes = [cluster.coordinator(script), *cluster.torchrun(script, "east"), *cluster.torchrun(script, "west")]
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0] * 5, texts
    summary = json.loads((cluster.folder / "out" / "summary.json").read_text())
    assert summary["copies_equal"]
    return summary, [out for out, _ in texts[1:]]


@pytest.mark.parametrize("remote, servers", [("bsp", 2), ("asp", 1)])
def test_processes_that_share_a_model_have_equal_weights_everywhere(tmp_path, remote, servers):
    cluster = Cluster(tmp_path, clocks=30, workers=2, servers=servers, remote=remote)
    summary, outs = trained(cluster, EXAMPLES / "fsdp.py")
    checksums = [out.split("checksum")[1].split("after")[0] for out in outs]
    assert len(set(checksums)) == 1, checksums
    assert [out.split(":")[0].split("rank ")[1] for out in outs] == [f"{rank} of 4" for rank in range(4)]
    assert summary["objective"] < 0.8, summary["objective"]


EXACT = '''
import os, torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
import gaia

if "WORLD_SIZE" in os.environ:
    distributed.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 1))
batches = torch.Generator().manual_seed(1)
x = torch.randn(4, 16, 6, generator=batches)[min(gaia.rank(), 3)]
y = x.square().sum(1, keepdim=True) - 6
if distributed.is_initialized():
    fully_shard(net[0])
    fully_shard(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
seen = []


def validate(net):
    with torch.no_grad():
        return (net(x) - y).square().mean().item()


run = gaia.join(net, optimizer, evaluate=validate, sharded=True, steps_per_clock=1)
for clock in range(10**9):
    if run.over or (ENDS and clock == 12):
        break
    optimizer.zero_grad()
    (net(x) - y).square().mean().backward()
    optimizer.step()
run.end()
run.save(f"{os.environ['GAIA_DC']}.safetensors")
print("clocks", run.clock, "loss", run.metrics["loss"])
distributed.destroy_process_group()
'''


#: The same with a statistic that the module assigns to its name, also in evaluations. It is told at the end of the run.
MOVING = (
    EXACT.replace("ENDS", "False")
    .replace("nn.Linear(7, 1))", "nn.Linear(7, 1), Moving())")
    .replace('print("clocks"', 'print("mean", net[3].mean.tolist(), "clocks"')
    .replace(
        "torch.manual_seed(0)",
        """class Moving(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * (1 + gaia.rank())
        if not torch.is_grad_enabled():
            self.mean = torch.zeros(6)
        return x


torch.manual_seed(0)""",
    )
)


def test_statistics_that_a_module_assigns_are_agreed_on(tmp_path):
    """They were those that the module had joined with: nothing of them was sent or received."""
    _, outs = trained(Cluster(tmp_path, clocks=30, workers=2), write(tmp_path / "moving.py", MOVING))
    means = [json.loads(out.split("mean ")[1].split(" clocks")[0]) for out in outs]
    # Those of the first processes of the data centers, ranks 0 and 2, draw nearer to 1 and 3.
    assert all(one == means[0] for one in means) and all(1.5 < value < 2.1 for value in means[0]), means


def steps(count, batches=(0, 1, 2, 3), shares=(0.25, 0.25, 0.25, 0.25)):
    """The weights after steps on some of the batches."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.Tanh(), torch.nn.Linear(7, 1))
    x = torch.randn(4, 16, 6, generator=torch.Generator().manual_seed(1))
    y = x.square().sum(2, keepdim=True) - 6
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    for _ in range(count):
        optimizer.zero_grad()
        sum(share * (net(x[at]) - y[at]).square().mean() for at, share in zip(batches, shares, strict=True)).backward()
        optimizer.step()
    return net.state_dict()


@pytest.mark.parametrize("ends", [False, True])
def test_under_bsp_a_clock_is_a_step_on_the_batches_of_all_processes(tmp_path, ends):
    """Whether the run ends by itself or with the loop of its scripts. The saved model is whole."""
    safetensors = pytest.importorskip("safetensors.torch", reason="skipped: safetensors is not installed")
    script = write(tmp_path / "exact.py", EXACT.replace("ENDS", str(ends)))
    summary, outs = trained(Cluster(tmp_path, clocks=10**6 if ends else 15, workers=2, servers=2), script)
    assert summary["stopped_by"] == ("ended" if ends else "clocks")
    east, west = (safetensors.load_file(tmp_path / f"{dc}.safetensors") for dc in ("east", "west"))
    assert distance(east, [steps(count) for count in range(10, 20)]) < 1e-5
    assert all(torch.equal(east[name], west[name]) for name in east)


def distance(found, expected):
    """How far a model is from the nearest of others: the largest difference of a value."""
    assert all(one.keys() == found.keys() for one in expected)
    return min(max((found[name] - one[name]).abs().max().item() for name in one) for one in expected)


def test_a_data_center_with_one_process_counts_as_much_as_one_that_shares_the_model(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch", reason="skipped: safetensors is not installed")
    text = EXACT.replace("ENDS", "False").replace("distributed.destroy_process_group()", "")
    script = write(tmp_path / "exact.py", text)
    cluster = Cluster(tmp_path, clocks=15, workers=(2, 1))
    nodes = [cluster.coordinator(script), *cluster.torchrun(script, "east"), cluster.worker(script, "west")]
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0] * 4, texts
    east, west = (safetensors.load_file(tmp_path / f"{dc}.safetensors") for dc in ("east", "west"))
    expected = [steps(count, batches=(0, 1, 2), shares=(0.25, 0.25, 0.5)) for count in range(10, 20)]
    assert distance(east, expected) < 1e-5
    assert all(torch.equal(east[name], west[name]) for name in east)


def test_an_exception_in_one_process_ends_all(tmp_path):
    cluster = Cluster(tmp_path, clocks=10**6, workers=2, servers=1)
    fails = '    if clock == 9 and gaia.rank() == 3:\n        raise LookupError("no more data")\n'
    text = EXACT.replace("ENDS", "False").replace("    optimizer.zero_grad()\n", fails + "    optimizer.zero_grad()\n")
    script = write(tmp_path / "fails.py", text)
    nodes = [cluster.coordinator(script), *cluster.torchrun(script, "east"), *cluster.torchrun(script, "west")]
    texts = said(nodes)
    assert all(node.returncode != 0 for node in nodes), texts
    assert "rank 3: LookupError: no more data" in texts[0][1], texts


@pytest.mark.parametrize("example", ["ddp", "fsdp"])
def test_processes_that_leave_their_group_before_the_end_of_the_run_fail_it(tmp_path, example):
    text = (EXAMPLES / f"{example}.py").read_text().replace("run.end()", "pass").replace("range(100)", "range(2)")
    assert "range(2)" in text
    script = write(tmp_path / "leaves.py", text)
    workers = 1 if example == "ddp" else 2
    cluster = Cluster(tmp_path, clocks=10**6, workers=workers)
    nodes = [cluster.coordinator(script), *cluster.torchrun(script, "east"), *cluster.torchrun(script, "west")]
    texts = said(nodes)
    assert all(node.returncode != 0 for node in nodes), [node.returncode for node in nodes]
    assert "the process group was destroyed before the run was over" in texts[0][1], texts


class Together:
    """The collectives of two processes that are threads."""

    def __init__(self):
        self._barrier, self._slots, self.ranks = threading.Barrier(2, timeout=30), [None, None], threading.local()

    def get_world_size(self):
        return 2

    def all_gather(self, found, own):
        self._slots[self.ranks.own] = own.clone()
        self._barrier.wait()
        for into, one in zip(found, self._slots, strict=True):
            into.copy_(one)
        self._barrier.wait()

    def broadcast(self, sent, src):
        found = [sent.clone(), sent.clone()]
        self.all_gather(found, sent)
        sent.copy_(found[src])


class Said:
    """An exchange that says what a test has told it to."""

    def __init__(self, *requests):
        self.requests, self.ended = list(requests), False

    def wait(self, only, stop):
        request, clock = self.requests.pop(0)
        assert only in (None, request) or (request == "stop" and stop)
        return request, clock, request == "evaluate", False

    def end(self):
        """Answers an iteration that the script has not taken as well."""
        self.ended = True
        self.requests = [one for one in self.requests if one[0] != "iterate"]


@pytest.mark.parametrize(
    "first, second",
    [
        ([("iterate", 4)], [("stop", 0)]),
        ([("stop", 0)], [("iterate", 4)]),
        ([("stop", 0)], []),
    ],
)
def test_a_worker_that_has_stopped_lets_the_others_go(monkeypatch, first, second):
    """An iteration needs all processes. Where one of them starts none, no other waits for it in the middle of its own."""
    together = Together()
    monkeypatch.setattr("gaia._fsdp.distributed", together)
    exchanges = [Said(*first, ("evaluate", 0)), Said(*second, ("evaluate", 0))]
    told = {}

    def process(rank):
        together.ranks.own = rank
        run = object.__new__(FsdpRun)
        run._rank, run._device, run._has_ended = rank, torch.device("cpu"), False
        told[rank] = run._request(Worker(exchanges[rank]))

    threads = [threading.Thread(target=process, args=(rank,)) for rank in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert told == dict.fromkeys(range(2), ("evaluate", 0, True, False))
    assert all(one.ended for one in exchanges)


@pytest.fixture
def process_group():
    distributed = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.fixture
def place(monkeypatch, tmp_path):
    """Sets the place of the script: a data center with as many workers, and the processes inside it."""

    def set_place(workers, processes, index=None):
        centers = f'data_center = [{{ name = "east", servers = 1, workers = {workers} }}]'
        text = ONE.replace('data_center = [{ name = "only", servers = 1, workers = 1 }]', centers)
        monkeypatch.setenv("GAIA_RUN", str(write(tmp_path / "run.toml", text)))
        monkeypatch.setenv("GAIA_DC", "east")
        if index is not None:
            monkeypatch.setenv("GAIA_INDEX", index)
        for module in ("_place", "_torch"):
            monkeypatch.setattr(f"gaia.{module}.inside", lambda: (processes - 1, processes))

    return set_place


def test_processes_are_counted_by_what_the_run_file_says(place):
    place(workers=1, processes=2)
    assert (gaia.rank(), gaia.size()) == (1, 2)
    place(workers=2, processes=2)
    assert (gaia.rank(), gaia.size()) == (1, 2)
    place(workers=3, processes=2)
    with pytest.raises(gaia.GaiaError, match="east has 3 workers.*and 2 processes.*expected 1 worker.*or one for each"):
        gaia.rank()
    place(workers=3, processes=2, index="2")
    assert (gaia.rank(), gaia.size()) == (5, 6)


def test_a_module_that_is_shared_in_another_way_is_refused(place, process_group):
    from torch.distributed.fsdp import fully_shard

    net = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.Linear(7, 1))
    place(workers=2, processes=2)
    with pytest.raises(gaia.GaiaError, match="worker for each process.*not shared among them, expected fully_shard"):
        check_sharding(net, False)
    fully_shard(net[0])
    with pytest.raises(gaia.GaiaError, match=r"1.weight is in each process as a whole, expected fully_shard\(...\) of the whole"):
        check_sharding(net, True)
    fully_shard(net)
    with pytest.raises(gaia.GaiaError, match=r"expected gaia.join\(..., sharded=True\)"):
        check_sharding(net, False)
    check_sharding(net, True)
    place(workers=1, processes=2)
    with pytest.raises(gaia.GaiaError, match="are one worker of the run, expected a worker for each"):
        check_sharding(net, True)


def test_a_shared_module_is_saved_as_a_whole_without_a_run(tmp_path, process_group):
    safetensors = pytest.importorskip("safetensors.torch", reason="skipped: safetensors is not installed")
    from torch.distributed.fsdp import fully_shard

    net = torch.nn.Linear(6, 7)
    expected = {name: value.clone() for name, value in net.state_dict().items()}
    fully_shard(net)
    run = gaia.join(net, torch.optim.SGD(net.parameters(), lr=0.1), evaluate=len, sharded=True)
    run.save(tmp_path / "model.safetensors")
    saved = safetensors.load_file(tmp_path / "model.safetensors")
    assert saved.keys() == expected.keys() and all(torch.equal(saved[name], expected[name]) for name in saved)


def test_workers_that_each_hold_the_whole_model_are_refused(tmp_path):
    """In a real run, where the mean would count each of them."""
    node = Cluster(tmp_path, workers=2).worker(EXAMPLES / "fsdp.py", "east")
    ((_, error),) = said([node])
    assert node.returncode == 1 and "sharded=True) in a data center with 2 workers, expected its workers to share" in error, error


def test_in_simulation_each_worker_has_the_whole_module(tmp_path):
    ended = command("train", EXAMPLES / "regions.toml", "--script", EXAMPLES / "fsdp.py", "--set", "stop.clocks=5", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
