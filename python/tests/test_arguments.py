"""Arguments of a script that a run starts."""

import json

import pytest
from conftest import EXAMPLES, gaia, write

SCRIPT = """
import argparse, sys
import gaia, numpy

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=1.0)
parser.add_argument("names", nargs="*")
found = parser.parse_args()
assert sys.argv[0] == __file__ and found.names == ["two words"], sys.argv
run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=lambda params: float(params["w"][0]))
while not run.over:
    run.params["w"] += found.rate
    run.step()
"""


@pytest.mark.parametrize("driver, named", [
    ("simulated", ["--script", "train.py"]),
    ("simulated", ["--set", "app.script=train.py"]),
    ("real", ["--script", "train.py"]),
])
def test_a_script_has_what_stands_behind_all_flags(tmp_path, driver, named):
    write(tmp_path / "train.py", SCRIPT)
    settings = ["--set", "sync.remote.model=bsp", "--set", "stop.clocks=4"]
    flags = [*named, "--driver", driver, "--out", "out", *settings, "--quiet"]
    ended = gaia("train", EXAMPLES / "regions.toml", *flags, "--", "--rate", "0.25", "two words", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["objective"] == 0.25 * summary["data_center_clocks"][0]


def test_arguments_need_a_script(tmp_path):
    refused = gaia("train", EXAMPLES / "regions.toml", "--", "--rate", "0.25", cwd=tmp_path)
    assert refused.returncode == 2 and "names no script" in refused.stderr, refused.stderr


def test_arguments_of_a_run_file_are_no_script(tmp_path):
    write(tmp_path / "other.py", "raise SystemExit('was run')")
    arguments = ["--set", "app.arguments=['other.py']", "--set", "stop.clocks=4"]
    refused = gaia("train", EXAMPLES / "regions.toml", *arguments, cwd=tmp_path)
    assert refused.returncode != 0 and "names no script" in refused.stderr, refused.stderr
