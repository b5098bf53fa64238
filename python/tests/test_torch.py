"""Modules of torch, alone and in a run."""

import difflib
import itertools
import json

import pytest
from conftest import EXAMPLES, gaia as command, write
from processes import Cluster, ended, said

import gaia

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")

from gaia._torch import _rate  # noqa: E402

nn = torch.nn
torch.set_num_threads(1)


def data(rank):
    draws = torch.Generator().manual_seed(rank)
    x = torch.randn(64, 6, generator=draws)
    return x, x.square().sum(1, keepdim=True) - 6


def net(norm=None):
    torch.manual_seed(0)
    layers = [nn.Linear(6, 16), *([norm] if norm else []), nn.Tanh(), nn.Linear(16, 1)]
    return nn.Sequential(*layers)


def batches(rank):
    """Batches of 16 examples, again and again."""
    x, y = data(rank)
    return itertools.cycle(zip(x.split(16), y.split(16), strict=True))


def trained(model, optimizer, run=None, steps=30, rank=0):
    for x, y in run(batches(rank)) if run else itertools.islice(batches(rank), steps):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return torch.cat([one.detach().reshape(-1) for one in model.parameters()])


def judge(rank=0):
    x, y = data(rank + 100)

    @torch.no_grad()
    def evaluate(model):
        model.eval()
        return (model(x) - y).square().mean().item()

    return evaluate


def script(finals, optimizer_of=None, norm=None, dtype=None, **joined):
    def main():
        model = net(norm() if norm else None)
        if dtype is not None:
            model.to(dtype)
        optimizer = (optimizer_of or (lambda p: torch.optim.SGD(p, lr=0.05)))(model.parameters())
        evaluate = judge(gaia.rank()) if dtype is None else lambda model: 1.0
        run = gaia.join(model, optimizer, evaluate=evaluate, **joined)
        if dtype is None:
            trained(model, optimizer, run, rank=gaia.rank())
        else:
            x, y = data(gaia.rank())
            while not run.over:
                optimizer.zero_grad()
                (model(x.to(dtype)) - y.to(dtype)).square().mean().backward()
                optimizer.step()
        assert model.training
        finals[gaia.rank()] = {name: value.detach().clone() for name, value in model.state_dict().items()}

    return main


def test_alone_nothing_changes_to_the_bit():
    plain, joined = net(), net()
    optimizer = torch.optim.AdamW(joined.parameters())
    addresses = [one.data_ptr() for one in joined.parameters()]
    run = gaia.join(joined, optimizer, evaluate=judge())
    expected = trained(plain, torch.optim.AdamW(plain.parameters()))
    for x, y in run(itertools.islice(batches(0), 30)):
        optimizer.zero_grad()
        (joined(x) - y).square().mean().backward()
        optimizer.step()
    found = torch.cat([one.detach().reshape(-1) for one in joined.parameters()])
    assert torch.equal(found, expected) and run.clock == 30
    assert [one.data_ptr() for one in joined.parameters()] == addresses


def test_one_worker_under_bsp_is_the_plain_loop(one):
    for make in (lambda p: torch.optim.SGD(p, lr=0.002, momentum=0.9), lambda p: torch.optim.AdamW(p, lr=0.001)):
        finals = {}
        result = gaia.simulate(script(finals, make), one)
        differences = []
        for steps in range(result["clocks"], result["clocks"] + 3):
            model = net()
            trained(model, make(model.parameters()), steps=steps)
            pairs = zip(model.state_dict().values(), finals[0].values(), strict=True)
            differences.append(max((a - b).abs().max().item() for a, b in pairs))
        assert min(differences) < 1e-6, differences


@pytest.mark.parametrize("remote", ["bsp", "ssp", "asp", "tap", "local-steps"])
def test_statistics_stay_sound_and_final_models_are_equal(three, remote):
    finals = {}
    settings = {"sync.remote.model": remote, "stop.clocks": 80, "compute.examples_per_second": 100}
    if remote == "ssp":
        settings["sync.remote.staleness"] = 2
    if remote == "local-steps":
        settings |= {"sync.remote.outer_momentum": 0.9, "sync.remote.steps": 5}
    gaia.simulate(script(finals, norm=lambda: nn.BatchNorm1d(16)), three, set=settings)
    for name, value in finals[0].items():
        assert value.isfinite().all()
        # The number of batches is a worker's own.
        if "num_batches" not in name:
            assert all(torch.equal(value, finals[rank][name]) for rank in range(6)), name
    assert (finals[0]["1.running_var"] > 0).all()


@pytest.mark.parametrize("remote", ["ssp", "asp", "tap"])
def test_statistics_are_means_where_a_clock_is_much_shorter_than_a_round_trip(three, remote):
    """Each worker corrected what others had corrected and it had not read yet, and variances fell below zero."""
    finals = {}
    settings = {"sync.remote.model": remote, "stop.clocks": 120, "compute.examples_per_second": 5000, "topology.wan.rtt": "100 ms"}
    if remote == "ssp":
        settings["sync.remote.staleness"] = 30
    slow = lambda parameters: torch.optim.SGD(parameters, lr=1e-5)  # noqa: E731
    gaia.simulate(script(finals, slow, norm=lambda: nn.BatchNorm1d(16)), three, set=settings)
    assert all(torch.equal(finals[0]["1.running_var"], finals[rank]["1.running_var"]) for rank in range(6))

    expected = []
    for rank in range(6):
        model = net(nn.BatchNorm1d(16))
        trained(model, slow(model.parameters()), steps=120, rank=rank)
        expected.append(model[1].running_var)
    expected = torch.stack(expected).mean(0)
    torch.testing.assert_close(finals[0]["1.running_var"], expected, rtol=0.05, atol=0.0)


def test_momentum_is_read_from_the_optimizer(three):
    from gaia._torch import _momentum

    parameters = list(net().parameters())
    sgd = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    assert (_momentum(sgd, 1), _momentum(sgd, 2), _momentum(torch.optim.Adam(parameters), 1)) == (0.9, 0.0, 0.0)


@pytest.mark.parametrize("decays", [False, True])
def test_a_threshold_falls_with_the_learning_rate_of_the_optimizer(three, decays):
    """Steps of the same size: only where the rate has fallen, smaller changes than before are sent."""

    def main():
        torch.manual_seed(0)
        model = torch.nn.Linear(60, 60)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        run = gaia.join(model, optimizer, evaluate=lambda model: 1.0)
        while not run.over:
            rate = optimizer.param_groups[0]["lr"] = 1e-6 if decays and run.clock >= 5 else 1.0
            for one in model.parameters():
                one.grad = 0.01 / rate * torch.randn(one.shape)
            optimizer.step()

    asp = {"model": "asp", "function": "absolute", "threshold": 0.5, "goal": "cost"}
    result = gaia.simulate(main, three, set={f"sync.remote.{key}": value for key, value in asp.items()})
    assert (result["significant_fraction"] > 0.5) == decays


def test_each_worker_has_its_own_random_numbers_of_a_device(three, monkeypatch):
    """A device that a CPU plays: its generator counts."""
    device = [0]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: device.__setitem__(0, 1000 * seed))
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", device.copy)
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", lambda states: device.__setitem__(0, states[0]))
    drawn = {}

    def draw():
        device[0] += 1
        return device[0]

    def main():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        run = gaia.join(model, optimizer, evaluate=lambda model: float(draw()))
        own = drawn.setdefault(gaia.rank(), [])
        while not run.over:
            own.append(draw())
            optimizer.step()

    gaia.simulate(main, three)
    assert drawn[0] == list(range(drawn[0][0], drawn[0][0] + len(drawn[0]))) and drawn[0][0] % 1000 == 1
    assert all(drawn[rank] == drawn[0] for rank in range(6))


def test_complex_parameters_are_refused(three):
    def main():
        model = torch.nn.ParameterList([torch.zeros(3, dtype=torch.complex64)])
        gaia.join(model, torch.optim.SGD(model.parameters(), lr=0.1), evaluate=lambda model: 0.0)

    with pytest.raises(gaia.GaiaError, match="0 holds torch.complex64, expected floating-point numbers"):
        gaia.simulate(main, three)


def test_schedulers_clipping_frozen_and_tied_parameters(three):
    finals = {}

    def main():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False), nn.Linear(6, 1))
        model[1].weight = model[0].weight
        model[2].bias.requires_grad_(False)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
        run = gaia.join(model, optimizer, evaluate=judge())
        assert [name for name, _ in run._parameters.tensors] == ["0.weight", "2.weight"]
        x, y = data(gaia.rank())
        while not run.over:
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
        assert model[1].weight is model[0].weight
        finals[gaia.rank()] = model[0].weight.detach().clone()

    gaia.simulate(main, three)
    assert all(torch.equal(finals[0], finals[rank]) for rank in range(6))


@pytest.mark.parametrize("tie", ["a parameter", "a statistic"])
def test_two_tensors_in_the_same_memory_are_refused(three, tie):
    """The run parted them: each was trained by itself."""

    def main():
        model = nn.Sequential(nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False))
        if tie == "a parameter":
            model[1].weight.data = model[0].weight.data
        else:
            model[1].register_buffer("shadow", model[0].weight.data)
        gaia.join(model, torch.optim.SGD(model.parameters(), lr=0.05), evaluate=judge())

    name = "1.weight" if tie == "a parameter" else "1.shadow"
    said = f"0.weight and {name} are two tensors in the same memory, expected one: .* decoder.weight = encoder.weight"
    with pytest.raises(gaia.GaiaError, match=said) as raised:
        gaia.simulate(main, three)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("memory", ["of other processes", "of a frozen tensor", "in one piece", "of one value"])
def test_tensors_stay_in_memory_that_others_have_as_well(three, memory):
    """Those others went on with the initial values."""
    finals = {}

    def main():
        model = net()
        if memory == "of other processes":
            model.share_memory()
        elif memory == "of a frozen tensor":
            model.frozen = nn.Parameter(model[0].weight.data, requires_grad=False)
        elif memory == "in one piece":
            flat = torch.cat([one.detach().flatten() for one in model.parameters()])
            for one, part in zip(model.parameters(), flat.split([one.numel() for one in model.parameters()]), strict=True):
                one.data = part.view(one.shape)
        else:
            model.register_buffer("wide", torch.ones(1).share_memory_().expand(5))
        addresses = [one.data_ptr() for one in model.parameters()]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        trained(model, optimizer, gaia.join(model, optimizer, evaluate=judge(gaia.rank())), rank=gaia.rank())
        if memory in ("of other processes", "in one piece"):
            assert [one.data_ptr() for one in model.parameters()] == addresses
        if memory == "of other processes":
            assert all(one.is_shared() for one in model.parameters())
        if memory == "of a frozen tensor":
            assert torch.equal(model.frozen, model[0].weight)
        finals[gaia.rank()] = torch.cat([one.detach().flatten() for one in model.parameters()])

    result = gaia.simulate(main, three)
    assert result["copies_equal"] and result["objective"] < result.progress[0]["objective"]
    assert all(torch.equal(finals[0], final) for final in finals.values())


def test_tensors_keep_their_layout(three):
    """As `channels_last`, for which convolutions were chosen. The run made them contiguous."""
    finals = {}

    def main():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 1)).to(memory_format=torch.channels_last)
        x = torch.randn(8, 3, 4, 4, generator=torch.Generator().manual_seed(gaia.rank()))
        strides = [one.stride() for one in model.parameters()]
        assert not model[0].weight.is_contiguous()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        run = gaia.join(model, optimizer, evaluate=torch.no_grad()(lambda model: (model(x) - 1).square().mean().item()))
        for _ in run(range(1000)):
            optimizer.zero_grad()
            (model(x) - 1).square().mean().backward()
            optimizer.step()
        assert [one.stride() for one in model.parameters()] == strides
        finals[gaia.rank()] = torch.cat([one.detach().flatten() for one in model.parameters()])

    result = gaia.simulate(main, three)
    assert result["copies_equal"] and result["objective"] < 0.5 * result.progress[0]["objective"]
    assert all(torch.equal(finals[0], final) for final in finals.values())


def test_parameters_of_fewer_bits_keep_their_single_precision_master(three):
    finals = {}
    gaia.simulate(script(finals, dtype=torch.bfloat16), three)
    assert finals[0]["0.weight"].dtype == torch.bfloat16
    assert all(torch.equal(finals[0][name], finals[5][name]) for name in finals[0])


def test_a_model_that_is_moved_after_joining_is_refused(three):
    def main():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = gaia.join(model, optimizer, evaluate=judge())
        model.double()
        x, y = data(0)
        for _ in run(range(5)):
            (model(x.double()) - y).square().mean().backward()
            optimizer.step()

    with pytest.raises(gaia.GaiaError, match="0.weight was moved or converted after gaia.join.*join last"):
        gaia.simulate(main, three)
    with pytest.raises(gaia.GaiaError, match="without an optimizer"):
        gaia.join(net(), evaluate=judge())


def test_a_simulated_run_of_a_module_repeats_to_the_byte(three):
    def main():
        model = nn.Sequential(net(), nn.Dropout(0.2), nn.Linear(1, 1))
        optimizer = torch.optim.AdamW(model.parameters())
        run = gaia.join(model, optimizer, evaluate=judge(gaia.rank()))
        x, y = data(gaia.rank())
        for rows in (torch.randperm(64)[:16] for _ in run(range(10**9))):
            optimizer.zero_grad()
            (model(x[rows]) - y[rows]).square().mean().backward()
            optimizer.step()

    settings = {"sync.remote.model": "asp"}
    first, second = (gaia.simulate(main, three, set=settings) for _ in range(2))
    assert first.progress == second.progress and len(first.progress) == 20


def test_a_state_dict_is_saved(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch", reason="skipped: safetensors is not installed")
    model = net(nn.BatchNorm1d(16))
    run = gaia.join(model, torch.optim.SGD(model.parameters(), lr=0.1), evaluate=judge())
    run.save(tmp_path / "model.safetensors")
    other = net(nn.BatchNorm1d(16))
    nn.init.zeros_(other[0].weight)
    missing, unexpected = other.load_state_dict(safetensors.load_file(tmp_path / "model.safetensors"), strict=False)
    assert (missing, unexpected) == ([], [])
    assert torch.equal(other[0].weight, model[0].weight)


def test_four_lines_make_a_plain_script_one_of_gaia():
    plain, joined = ((EXAMPLES / name).read_text().split('"""', 2)[2].splitlines() for name in ("digits_plain.py", "digits.py"))
    changes = [line for line in difflib.ndiff(plain, joined) if line.startswith("+") and line[1:].strip()]
    assert len(changes) == 4, changes


@pytest.mark.parametrize("example", ["digits", "language", "recommender", "ddp"])
def test_examples_train_over_three_regions(tmp_path, example):
    arguments = ["--script", EXAMPLES / f"{example}.py", "--set", "stop.clocks=80", "--out", "out", "--json"]
    ended = command("train", EXAMPLES / "regions.toml", *arguments, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    progress = [json.loads(line) for line in (tmp_path / "out" / "progress.jsonl").read_text().splitlines()]
    assert progress[-1]["objective"] < 0.8 * progress[0]["objective"], example


def test_loaders_with_processes(three):
    finals = {}

    def main():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        run = gaia.join(model, optimizer, evaluate=judge())
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(*data(gaia.rank())), batch_size=16, num_workers=1, multiprocessing_context="fork"
        )
        while not run.over:
            for x, y in run(loader):
                optimizer.zero_grad()
                (model(x) - y).square().mean().backward()
                optimizer.step()
        finals[gaia.rank()] = model[0].weight.detach().clone()

    gaia.simulate(main, three, set={"stop.clocks": 6})
    assert all(torch.equal(finals[0], finals[rank]) for rank in range(6))




@pytest.mark.parametrize("rate", [0.5, torch.tensor(0.5)])
def test_a_learning_rate_on_a_device_is_read_where_a_clock_ends(rate):
    optimizer = torch.optim.Adam([torch.zeros(2, requires_grad=True)], lr=rate)
    assert [_rate(optimizer, waits) for waits in (False, True)] == [0.5, 0.5]
    optimizer.param_groups[0]["lr"] = torch.tensor(0.5, device="meta")
    assert _rate(optimizer, waits=False) is None
    with pytest.raises(RuntimeError):
        _rate(optimizer, waits=True)


class OwnRate(torch.optim.Optimizer):
    """Finds its rate by itself, as Adafactor with relative steps does."""

    def __init__(self, groups):
        super().__init__(groups, {"lr": None})

    def step(self, closure=None):
        pass


def test_an_optimizer_that_finds_its_rate_by_itself_joins():
    model = net()
    optimizer = OwnRate([{"params": one} for one in model.parameters()])
    run = gaia.join(model, optimizer, evaluate=judge())
    optimizer.step()
    assert run.clock == 1 and _rate(optimizer, waits=True) is None
    optimizer.param_groups[0]["lr"] = 0.5
    assert _rate(optimizer, waits=True) == 0.5


#: What the processes of a worker broadcast, and whether they are equal after each clock.
EQUAL_PROCESSES = """
broadcasts, broadcast = [], distributed.broadcast
def counted(tensor, *arguments, **named):
    broadcasts.append(tensor.numel())
    broadcast(tensor, *arguments, **named)
distributed.broadcast = counted

def check(run):
    own = torch.cat([one.detach().flatten().double() for one in net.state_dict().values()] + [torch.tensor([run.clock])])
    first = own.clone()
    broadcast(first, 0)
    assert torch.equal(own, first), (own - first).abs().max()
"""


def test_processes_that_make_local_steps_exchange_values_where_the_run_has_given_some(tmp_path):
    """DDP keeps weights equal. Statistics are those of the first process after each clock."""
    cluster = Cluster(tmp_path, clocks=40, remote='local-steps", steps = 8, outer = "plain', keys="evaluate.every = 100")
    text = (EXAMPLES / "ddp.py").read_text()
    text = text.replace("\nrun = gaia.join", f"{EQUAL_PROCESSES}\nrun = gaia.join")
    text = text.replace("        optimizer.step()\n", "        optimizer.step()\n        check(run) if distributed.is_initialized() else None\n")
    text += "\nflat = sum(one.numel() for one in net.state_dict().values() if one.is_floating_point())\n"
    text += 'print("whole", broadcasts.count(flat), "of", run.clock)\n'
    script = write(tmp_path / "script.py", text)
    nodes = [cluster.coordinator(script)]
    for dc in ("east", "west"):
        nodes += cluster.torchrun(script, dc)
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0] * 5, texts
    checksums = [out.split("checksum")[1].split("\n")[0] for out, _ in texts[1:]]
    assert len(set(checksums)) == 1, checksums
    for out, _ in texts[1:]:
        whole, clocks = map(int, out.split("whole ")[1].split(" of "))
        # At the beginning and the end, around each round, and where an evaluation was between.
        assert 5 <= whole < 0.5 * clocks, out


def test_ddp_inside_two_data_centers(tmp_path):
    cluster, script = Cluster(tmp_path, clocks=30), EXAMPLES / "ddp.py"
    nodes = [cluster.coordinator(script)]
    for dc in ("east", "west"):
        nodes += cluster.torchrun(script, dc)
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0] * 5, texts
    checksums = [out.split("checksum")[1] for out, _ in texts[1:]]
    assert len(set(checksums)) == 1, checksums
    assert [out.split(":")[0].split("rank ")[1] for out, _ in texts[1:]] == [f"{rank} of 4" for rank in range(4)]


@pytest.mark.parametrize("first", ["steps", "is busy"])
def test_an_exception_in_one_process_of_a_worker_is_that_of_the_run(tmp_path, first):
    """The first process of the worker would hear of it at its next collective, and not why: here it comes to none."""
    fails = '    if run.clock == 9 and gaia.rank() == 3:\n            raise LookupError("no more data")\n'
    if first == "is busy":
        fails += "        if run.clock == 9 and gaia.rank() == 2:\n            import time; time.sleep(3600)\n"
    text = (EXAMPLES / "ddp.py").read_text().replace("    optimizer.zero_grad()\n", f"{fails}        optimizer.zero_grad()\n")
    assert "no more data" in text
    cluster, script = Cluster(tmp_path, clocks=10**6), write(tmp_path / "fails.py", text)
    nodes = [cluster.coordinator(script), *cluster.torchrun(script, "east"), *cluster.torchrun(script, "west")]
    with ended(*nodes):
        _, told = nodes[0].communicate(timeout=120)
        assert nodes[0].returncode == 1 and "rank 3: LookupError: no more data (fails.py:" in told, told
        _, error = nodes[1].communicate(timeout=120)
        assert nodes[1].returncode == 1 and "rank 3: LookupError: no more data (fails.py:" in error, error
