"""Settings of `gaia.simulate` as Python values."""

import datetime
import tomllib
from pathlib import Path

import numpy
import pytest
from conftest import PYTHON

import gaia
from gaia._toml import flag_values


def main():
    run = gaia.join({"w": numpy.ones(3, numpy.float32)}, evaluate=lambda params: float(params["w"][0]))
    while not run.over:
        run.params["w"] *= 0.9
        run.step()


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (20, 20),
        (numpy.int64(20), 20),
        (True, True),
        (1e-5, 1e-5),
        (1e22, 1e22),
        (numpy.float64(0.5), 0.5),
        (float("inf"), float("inf")),
        (["a b", 1], ["a b", 1]),
        (("north", "south"), ["north", "south"]),
        ({"model": "asp", "guard": {"every": 20, "of": [True]}}, {"model": "asp", "guard": {"every": 20, "of": [True]}}),
        ({"bytes of links": 1, 'a "b"': "1"}, {"bytes of links": 1, 'a "b"': "1"}),
        ({}, {}),
        ([], []),
        (Path("/data/1.5"), "/data/1.5"),
        (['say "hi"\n\t\\ \x00\x7f äöü 🗼'], ['say "hi"\n\t\\ \x00\x7f äöü 🗼']),
    ],
)
def test_a_value_is_the_same_in_toml(value, read):
    found = tomllib.loads(f"value = {flag_values({'value': value})['value']}")["value"]
    assert found == read and type(found) is type(read)


def test_text_is_as_on_the_command_line():
    assert flag_values({"a": "5 s", "b": "[1, 2]"}) == {"a": "5 s", "b": "[1, 2]"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"stop.clocks": None}, "set has stop.clocks = None of type NoneType, expected text, a number"),
        ({"stop": {"after": [datetime.timedelta(1)]}}, r"set has stop.after.0 = datetime.timedelta\(days=1\) of type timedelta"),
        ({"sync.remote": {3: "asp"}}, "set has the key 3 of type int in sync.remote, expected text"),
        ({3: "asp"}, "set has the key 3 of type int, expected text"),
        (["stop.clocks=20"], r"set is \['stop.clocks=20'\] of type list, expected a dict"),
    ],
)
def test_what_no_setting_can_be_is_named(three, tmp_path, settings, said):
    with pytest.raises(gaia.GaiaError, match=said) as raised:
        gaia.simulate(main, three, set=settings, out=tmp_path / "out")
    assert raised.value.exit_code == 2 and not (tmp_path / "out").exists()


def test_tables_and_paths_are_settings(three):
    topology = PYTHON.parent / "config" / "topology" / "three-regions.toml"
    asp = {"model": "asp", "function": "progress", "threshold": 0.25}
    result = gaia.simulate(main, three, set={"sync.remote": asp, "topology.file": topology, "stop": {"clocks": 7}})
    plan = tomllib.loads((result.directory / "run.toml").read_text())
    assert {key: plan["sync"]["remote"][key] for key in asp} == asp
    assert plan["stop"]["clocks"] == 7
