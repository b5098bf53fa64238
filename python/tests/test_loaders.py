"""Data loaders with processes, however the script is started."""

import json
import subprocess
import sys

import pytest
from conftest import environment, gaia as command, write
from processes import Cluster, said

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")

#: Two workers, whose scripts share a process.
TWO = """
name = "two"
driver = "simulated"
app.kind = "external"
sync.remote = { model = "bsp" }
compute = { model = "cost", examples_per_second = 500.0 }
stop.clocks = 2
topology = { name = "one", data_center = [{ name = "only", servers = 1, workers = 2 }], wan = {} }
"""

METHODS = ["fork", "forkserver", "spawn"]

#: A script with a data set of its own, which other processes find in its module `__main__`.
SCRIPT = """
import os, sys
import gaia, torch
from torch import nn

class Squares(torch.utils.data.Dataset):
    def __init__(self, rank):
        draws = torch.Generator().manual_seed(rank)
        self.x = torch.randn(32, 4, generator=draws)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, at):
        # In the loader's process.
        assert torch.utils.data.get_worker_info() is not None
        return self.x[at], self.x[at].sum()[None]

def collate(rows):
    return torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows])

def main():
    torch.manual_seed(0)
    assert len(sys.argv) == 1 and sys.argv[0].endswith("script.py"), sys.argv
    data = Squares(gaia.rank())
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    evaluate = lambda model: (model(data.x) - data.x.sum(1, keepdim=True)).square().mean().item()
    run = gaia.join(model, optimizer, evaluate=evaluate)
    loader = torch.utils.data.DataLoader(
        data, batch_size=8, num_workers=WORKERS, collate_fn=collate, multiprocessing_context="METHOD"
    )
    for epoch in range(2):
        for x, y in run(loader):
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
    run.end()
    print("trained to", [round(one, 4) for one in model.weight.flatten().tolist()], flush=True)
"""

GUARDED = SCRIPT + '\nif __name__ == "__main__":\n    main()\n'
UNGUARDED = SCRIPT + "\nmain()\n"


def script_of(folder, method, text=GUARDED, workers=2):
    return write(folder / "script.py", text.replace("METHOD", method).replace("WORKERS", str(workers)))


def together(folder, script):
    return command("train", write(folder / "two.toml", TWO), "--script", script, "--out", "out", "--quiet", cwd=folder)


def alone(script):
    return subprocess.run([sys.executable, script], env=environment(), capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("method", METHODS)
def test_a_script_that_trains_alone(tmp_path, method):
    ended = alone(script_of(tmp_path, method))
    assert ended.returncode == 0 and ended.stdout.count("trained to") == 1, ended


@pytest.mark.parametrize("method", METHODS)
def test_scripts_that_share_a_process(tmp_path, method):
    """Each has a module `__main__` of its own, whose classes go to the processes of its loader."""
    ended = together(tmp_path, script_of(tmp_path, method))
    assert ended.returncode == 0, ended
    finals = {line for line in ended.stdout.splitlines() if line.startswith("trained to")}
    assert len(finals) == 1 and ended.stdout.count("trained to") == 2, ended.stdout
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["copies_equal"]


@pytest.mark.parametrize("method", METHODS)
def test_a_script_that_is_a_node(tmp_path, method):
    cluster, script = Cluster(tmp_path, clocks=3), script_of(tmp_path, method, workers=1)
    nodes = [cluster.coordinator(script), cluster.worker(script, "east"), cluster.worker(script, "west")]
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0, 0, 0], texts
    assert len({out.splitlines()[-1] for out, _ in texts[1:]}) == 1 and "trained to" in texts[1][0], texts


@pytest.mark.parametrize("started", ["alone", "in one process", "as a node"])
def test_a_script_that_trains_where_it_is_imported_is_told_so(tmp_path, started):
    """Its loader's processes import it. Without a guard each of them would train, and join the run a second time."""
    script = script_of(tmp_path, "spawn", UNGUARDED, workers=1)
    if started == "alone":
        ended = alone(script)
        code, error = ended.returncode, ended.stderr
    elif started == "in one process":
        ended = together(tmp_path, script)
        code, error = ended.returncode, ended.stderr
    else:
        cluster = Cluster(tmp_path, clocks=3)
        nodes = [cluster.coordinator(script), cluster.worker(script, "east"), cluster.worker(script, "west")]
        texts = said(nodes)
        code, error = nodes[1].returncode, texts[1][1]
    assert code == 1, error
    wanted = 'was called in a process that the script has started, such as one of a data loader, expected it to be called in the script only, below `if __name__ == "__main__":`'
    assert wanted in error, error


def test_a_number_is_not_guessed_in_a_process_of_a_loader(tmp_path):
    """Several workers share the process that has started it."""
    guarded = GUARDED.replace("        # In the loader's process.\n", "        gaia.rank()\n")
    ended = together(tmp_path, script_of(tmp_path, "spawn", guarded))
    assert ended.returncode == 1 and "gaia.rank() or gaia.size() was called in a process" in ended.stderr, ended.stderr


def test_a_process_that_was_forked_is_a_copy_of_the_script_and_knows_its_number(tmp_path):
    guarded = GUARDED.replace("        # In the loader's process.\n", "        assert (gaia.rank(), gaia.size()) == (RANK, 2)\n")
    guarded = guarded.replace("RANK", "self.rank").replace("        draws = ", "        self.rank = rank\n        draws = ")
    ended = together(tmp_path, script_of(tmp_path, "fork", guarded))
    assert ended.returncode == 0, ended.stderr
