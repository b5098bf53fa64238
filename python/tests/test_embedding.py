"""Tables of which a worker holds the rows in hand."""

import json
import sys

import numpy
import pytest
from conftest import gaia as command
from conftest import write
from processes import Cluster, ended, said

import gaia

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")

import gaia.torch  # noqa: E402
from tables import ROWS, WIDTH, Model, check_rows_in_hand, trains  # noqa: E402


@pytest.mark.parametrize("steps", [1, 3])
def test_a_run_is_the_one_with_whole_tables(three, steps):
    check_rows_in_hand(three, steps=steps)


@pytest.mark.parametrize("driver", ["simulated", "emulated"])
def test_the_model_of_the_run_has_the_whole_table(three, driver):
    safetensors = pytest.importorskip("safetensors.numpy", reason="skipped: safetensors is not installed")
    finals = {}
    result = gaia.simulate(trains(finals), three, set={"stop.clocks": 1000}, driver=driver)
    model = safetensors.load_file(result.directory / "model.safetensors")
    table = model["users.weight"]
    assert table.shape == (ROWS, WIDTH) and set(model) == {"users.weight", "scale"}

    held_out = numpy.arange(0, ROWS, 37)
    expected = (table[held_out] * model["scale"]).sum(-1)
    assert numpy.allclose(finals[0][0].numpy(), expected, atol=1e-6)
    # Rows that nobody has trained are those that a script has that trains alone.
    torch.manual_seed(3)
    initial = gaia.torch.Embedding(ROWS, WIDTH, mean=0.2, std=0.1).weight.detach().numpy()
    unchanged = (table == initial).all(1)
    assert 0 < unchanged.sum() < ROWS and abs(initial.mean() - 0.2) < 0.01 and abs(initial.std() - 0.1) < 0.01


def test_updates_of_rows_in_hand_are_shared_under_asp(three):
    settings = {"sync.remote.model": "asp", "sync.remote.threshold": 0.01, "stop.clocks": 1000}
    result = gaia.simulate(trains({}), three, set=settings)
    assert result["objective"] < 0.9 * result.progress[0]["objective"]


def test_alone_the_table_is_whole(tmp_path):
    torch.manual_seed(3)
    model = Model(gaia.torch.Embedding(ROWS, WIDTH))
    weight = model.users.weight.detach().clone()
    assert weight.shape == (ROWS, WIDTH) and "users.weight" in model.state_dict()
    opt = torch.optim.Adam(model.parameters())
    run = gaia.join(model, opt, evaluate=len, evaluate_rows={"users.weight": [1]})
    for ids in run(torch.arange(8).split(2), rows={"users.weight": lambda ids: ids}):
        opt.zero_grad()
        model(ids).sum().backward()
        opt.step()
    assert (model.users.weight[:8] != weight[:8]).any(1).all()
    run.save(tmp_path / "model.safetensors")
    assert (tmp_path / "model.safetensors").stat().st_size > 4 * ROWS * WIDTH

    model.load_state_dict({"scale": torch.zeros(WIDTH), "users.weight": weight})
    assert torch.equal(model.users.weight, weight)
    with pytest.raises(gaia.GaiaError, match=r"Embedding\(0, 4, mean=0.0, std=1.0\), expected rows"):
        gaia.torch.Embedding(0, 4)


def simulated(three, body, **arguments):
    """Runs a script whose `body(model, run)` makes its steps."""

    def main():
        torch.manual_seed(0)
        model = Model(gaia.torch.Embedding(ROWS, WIDTH))
        optimizer = arguments.get("optimizer", lambda parameters: torch.optim.SGD(parameters, lr=0.1))(model.parameters())
        run = gaia.join(model, optimizer, evaluate=arguments.get("evaluate", lambda model: 1.0), **arguments.get("join", {}))
        for ids in run(torch.arange(40).split(4), rows=arguments.get("rows", {"users.weight": lambda ids: ids})):
            optimizer.zero_grad()
            body(model, run, ids)
            optimizer.step()

    return gaia.simulate(main, three)


def test_a_row_that_is_not_in_hand_is_named(three):
    backward = lambda model, run, ids: model(ids).sum().backward()  # noqa: E731
    text = 'row 7 of users.weight is not in hand, .*loader, rows={"users.weight": ...}.* evaluate_rows={"users.weight": ...}'
    with pytest.raises(gaia.GaiaError, match=text):
        simulated(three, lambda model, run, ids: model(torch.tensor([int(ids[0]), 7])).sum().backward())
    with pytest.raises(gaia.GaiaError, match="row 0 of users.weight is not in hand"):
        simulated(three, backward, rows=None)
    with pytest.raises(gaia.GaiaError, match="row 999 of users.weight is not in hand"):
        simulated(three, backward, evaluate=lambda model: float(model(torch.tensor([999])).sum()))


def test_what_cannot_be_is_refused(three):
    def backward(model, run, ids):
        model(ids).sum().backward()

    momentum = lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)  # noqa: E731
    for optimizer, kept in (
        (momentum, "SGD keeps momentum_buffer"),
        (torch.optim.Adam, "Adam keeps exp_avg"),
        (torch.optim.Adagrad, "Adagrad keeps sum"),
    ):
        with pytest.raises(gaia.GaiaError, match=f"{kept} for each row of .*weight.* that keeps nothing: torch.optim.SGD"):
            simulated(three, backward, optimizer=optimizer)

    for join, text in (
        ({"evaluate_rows": {"user.weight": [1]}}, "evaluate_rows names `user.weight`, expected a tensor such as users.weight"),
        ({"evaluate_rows": {"users.weight": [1.5]}}, "rows of users.weight are float64, expected whole numbers"),
        ({"evaluate_rows": {"users.weight": [1000]}}, "evaluate_rows names row 1000 of users.weight, expected 0 to 999"),
        ({"sharded": True}, "users.weight is a gaia.torch.Embedding, and the processes .*expected one process a worker"),
    ):
        with pytest.raises(gaia.GaiaError, match=text):
            simulated(three, backward, join=join)
    with pytest.raises(gaia.GaiaError, match="rows names row 1000 of users.weight, expected 0 to 999"):
        simulated(three, backward, rows={"users.weight": lambda ids: ids + 999})
    with pytest.raises(gaia.GaiaError, match="run.save.* in a worker that holds rows of users.weight, expected the model.safe"):
        simulated(three, lambda model, run, ids: run.save("unused"))
    with pytest.raises(gaia.GaiaError, match="evaluate_rows names `table`, expected the weight of a gaia.torch.Embedding"):
        gaia.join({"table": numpy.zeros(3, numpy.float32)}, evaluate=len, evaluate_rows={"table": [1]})


def test_runs_that_need_whole_tables_are_refused(three, tmp_path):
    guard = {"sync.remote.model": "asp", "sync.remote.guard.every": 10}
    with pytest.raises(gaia.GaiaError, match="guard compares whole copies, expected none for .* sparse table `users.weight`"):
        gaia.simulate(trains({}), three, set=guard)

    script = write(tmp_path / "train.py", LARGE)
    for verb in ("train", "init"):
        refused = command(verb, three, "--script", script, "--init", "trained.safetensors", cwd=tmp_path, ROWS="5000")
        assert refused.returncode == 2, refused.stderr
        assert "trained.safetensors, expected none for a model with the sparse table `weight`" in refused.stderr


def test_an_optimizer_that_has_not_joined_is_checked(three):
    def body(model, run, ids):
        model(ids).sum().backward()
        if run.clock > 2:
            torch.optim.Adam(model.users.parameters()).step()

    with pytest.raises(gaia.GaiaError, match="Adam keeps exp_avg for each row of users.weight"):
        simulated(three, body, optimizer=lambda parameters: torch.optim.SGD([next(parameters)], lr=0.1))


def test_in_a_run_a_state_dict_is_without_rows_in_hand(three):
    seen = []

    def body(model, run, ids):
        seen.append(sorted(model.state_dict()))
        model.load_state_dict({"scale": torch.ones(WIDTH)})
        model(ids).sum().backward()

    simulated(three, body)
    assert seen and all(names == ["scale"] for names in seen)


#: A script with a table of so many rows, which shows what its process has had in memory at most.
LARGE = """
import gaia, numpy, os, torch
import gaia.torch

rows = int(os.environ["ROWS"])
torch.manual_seed(1)
model = gaia.torch.Embedding(rows, 64, std=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
own = torch.arange(gaia.rank(), 40_000, gaia.size())
held_out = own[:10]
evaluate = lambda model: model(held_out).square().mean().item()
run = gaia.join(model, optimizer, evaluate=evaluate, evaluate_rows={"weight": held_out}, average=False)
for ids in run(own.split(2_000), rows={"weight": lambda ids: ids}):
    optimizer.zero_grad()
    (model(ids).square().sum() / 2).backward()
    optimizer.step()
run.end()
print("zero", not model(held_out).any(), "clocks", run.clock)
status = open("/proc/self/status").read()
print("peak", int(status.split("VmHWM:")[1].split()[0]))
"""


def peaks(folder, rows, program):
    """The most that each of two scripts has had in memory, in bytes. Their servers and the coordinator are other processes."""
    folder.mkdir()
    script = write(folder / "train.py", LARGE)
    cluster = Cluster(folder, clocks=1000, keys='app.model = "model.safetensors"')
    declared = command("init", cluster.run, "--script", script, "--out", "model.safetensors", cwd=folder, ROWS=str(rows))
    assert declared.returncode == 0, declared.stderr
    assert (folder / "model.safetensors").stat().st_size < 4096

    nodes = [cluster.node(program, "--coordinator", "--out", "out")]
    nodes += [cluster.node(program, "--dc", dc, "--server", "0") for dc in ("east", "west")]
    workers = [cluster.worker(script, dc, GAIA_ROLE="worker", ROWS=str(rows)) for dc in ("east", "west")]
    texts = said(nodes + workers)
    assert [node.returncode for node in nodes + workers] == [0] * 5, texts
    assert all("zero True" in out for out, _ in texts[3:]), texts
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["copies_equal"] and summary["objective"] == 0, summary
    return [1024 * int(out.split("peak ")[1]) for out, _ in texts[3:]]


def test_a_worker_never_holds_a_table_that_its_servers_hold(tmp_path):
    """Not at the start, in no clock, for no evaluation and not at the end."""
    safetensors = pytest.importorskip("safetensors.numpy", reason="skipped: safetensors is not installed")
    rows, program = 400_000, [sys.executable, "-m", "gaia"]
    small = peaks(tmp_path / "small", 40_000, program)
    large = peaks(tmp_path / "large", rows, program)
    added = max(large) - min(small)
    table = 4 * 64 * rows
    print(f"a table of {table / 1e6:.0f} MB, ten times another: {added / 1e6:.0f} MB more, of {max(large) / 1e6:.0f} MB in all")
    assert added < table / 5, (small, large)

    trained = safetensors.load_file(tmp_path / "large" / "out" / "model.safetensors")["weight"]
    assert trained.shape == (rows, 64)
    initial = numpy.empty((rows, 64), numpy.float32)
    torch.manual_seed(1)
    gaia._gaia.write_initial_rows(initial, 64, *gaia.torch.Embedding(1, 64, std=0.1).initial)
    assert not trained[:40_000].any() and (trained[40_000:] == initial[40_000:]).all()


def test_a_script_with_a_server_in_its_process_and_one_that_starts_again(tmp_path):
    """The server hands the rows over, and a worker that has lost what it held reads them again."""
    dies = "    if run.clock == int(os.environ.get('DIES', 0)):\n        os._exit(9)\n"
    script = write(tmp_path / "train.py", LARGE.replace("    optimizer.step()\n", f"    optimizer.step()\n{dies}"))
    cluster = Cluster(tmp_path, clocks=1000)
    variables = {"ROWS": "50000"}
    node = ["-m", "gaia", "node", cluster.run, "--script", script]
    coordinator = cluster.start(*node, "--coordinator", "--out", "out", **variables)
    west = cluster.worker(script, "west", **variables)
    server = cluster.start(*node, "--dc", "east", "--server", "0", "--state", "state", "--quiet", **variables)
    first = cluster.worker(script, "east", GAIA_ROLE="worker", DIES="5", **variables)
    with ended(coordinator, west, server, first):
        first.communicate(timeout=120)
        assert first.returncode == 9
        again = cluster.worker(script, "east", GAIA_ROLE="worker", **variables)
        nodes = [coordinator, west, server, again]
        texts = said(nodes)
    assert [node.returncode for node in nodes] == [0] * 4, texts
    assert "zero True" in texts[1][0] and "zero True" in texts[3][0], texts
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["copies_equal"]
