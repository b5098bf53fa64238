"""Files of a script's tensors: what a run leaves, and what it starts from."""

import json

import numpy
import pytest
from conftest import EXAMPLES, gaia as command

import gaia

safetensors = pytest.importorskip("safetensors.numpy", reason="skipped: safetensors is not installed")


def test_a_run_goes_on_from_the_model_of_an_earlier_one(tmp_path, script):
    arguments = [EXAMPLES / "regions.toml", "--script", script, "--set", "stop.clocks=10"]
    first = command("train", *arguments, "--out", "first", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    tensors = safetensors.load_file(tmp_path / "first" / "model.safetensors")
    assert {name: value.shape for name, value in tensors.items()} == {"kernel": (3, 2, 2), "scale": ()}

    second = command("train", *arguments, "--out", "second", "--init", "first/model.safetensors", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    last, reached = (json.loads((tmp_path / run / "summary.json").read_text())["objective"] for run in ("first", "second"))
    assert reached < last
    start = f"first {tensors['kernel'][0, 0, 0]!s}\n"
    assert start in second.stdout

    # Shards have rows of the tensors.
    home = command("train", *arguments, "--set", "model.keep=home", "--out", "home", cwd=tmp_path)
    assert home.returncode == 0, home.stderr
    folder = sorted((tmp_path / "home" / "home").iterdir())[0]
    third = command("train", *arguments, "--out", "third", "--init", folder, cwd=tmp_path)
    assert third.returncode == 0, third.stderr
    assert start in third.stdout


def test_values_that_do_not_fit_a_script_are_one_error(tmp_path, script):
    def refused(tensors, *expected):
        safetensors.save_file(tensors, tmp_path / "values.safetensors")
        ended = command(
            "train", EXAMPLES / "regions.toml", "--script", script, "--init", "values.safetensors", cwd=tmp_path
        )
        assert ended.returncode == 2, ended.stderr
        assert all(text in ended.stderr for text in expected), ended.stderr

    kernel, scale = numpy.zeros((3, 2, 2), numpy.float32), numpy.zeros((), numpy.float32)
    refused({"kernel": kernel}, "found no `scale`, expected `scale` with the shape []")
    refused({"model.kernel": kernel, "scale": scale}, 'found "model.kernel" and no `kernel`')
    flat = {"kernel": kernel.reshape(3, 4), "scale": scale}
    refused(flat, "found `kernel` with the shape [3, 4], expected `kernel` with the shape [3, 2, 2]")

    (tmp_path / "values.pt").write_bytes(b"PK\x03\x04 a zip archive")
    ended = command("train", EXAMPLES / "regions.toml", "--script", script, "--init", "values.pt", cwd=tmp_path)
    assert ended.returncode == 2 and "safetensors.torch.save_file(model.state_dict(), FILE)" in ended.stderr, ended.stderr


def test_the_trained_model_of_a_script_is_not_evaluated_without_it(tmp_path, script):
    arguments = [EXAMPLES / "regions.toml", "--script", script, "--set", "stop.clocks=3", "--out", "out"]
    assert command("train", *arguments, cwd=tmp_path).returncode == 0
    for verb in (["evaluate"], ["predict", "--data", "x.csv", "--out", "y.csv"]):
        refused = command(verb[0], "out/model.safetensors", *verb[1:], cwd=tmp_path)
        assert refused.returncode == 2 and "found the model of a script" in refused.stderr, refused.stderr


def test_a_module_loads_the_model_of_its_run(three, tmp_path):
    torch = pytest.importorskip("torch", reason="skipped: torch is not installed")
    from safetensors.torch import load_file, save_file

    nn = torch.nn

    def net():
        torch.manual_seed(0)
        layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 4 * 4, 2)]
        model = nn.Sequential(*layers)
        model[3].bias.requires_grad_(False)
        return model

    finals = {}

    def main():
        model = net()
        optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.01)
        run = gaia.join(model, optimizer, evaluate=lambda model: 1.0)
        while not run.over:
            optimizer.zero_grad()
            model(torch.randn(8, 1, 6, 6)).square().mean().backward()
            optimizer.step()
        finals[gaia.rank()] = {name: value.clone() for name, value in model.state_dict().items()}

    result = gaia.simulate(main, three, set={"stop.clocks": 5, "model.every": 2})
    for file in ("model.safetensors", "model-best.safetensors"):
        loaded = net()
        missing, unexpected = loaded.load_state_dict(load_file(result.directory / file), strict=False)
        # The counter of batches is missing as well, which torch puts at 0.
        assert (missing, unexpected) == (["3.bias"], []), file
    loaded.load_state_dict(load_file(result.directory / "model.safetensors"), strict=False)
    for name, value in loaded.state_dict().items():
        if name != "1.num_batches_tracked":
            assert torch.equal(value, finals[0][name]), name

    # A state dict in another precision, with counters and frozen parameters, is where a run can start.
    save_file(loaded.to(torch.bfloat16).state_dict(), tmp_path / "bf16.safetensors")
    firsts = {}

    def look():
        model = net()
        optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.0)
        run = gaia.join(model, optimizer, evaluate=lambda model: 1.0)
        firsts[gaia.rank()] = model[0].weight.clone()
        run.end()

    gaia.simulate(look, three, set={"model.init": str(tmp_path / "bf16.safetensors")})
    assert all(torch.equal(first, loaded[0].weight.float()) for first in firsts.values()) and len(firsts) == 6
