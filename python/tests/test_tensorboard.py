"""The file of a run, as TensorBoard's own package reads it."""

import json

import numpy
import pytest

import gaia

events = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="skipped: tensorboard is not installed"
)


def main():
    run = gaia.join({"w": numpy.ones(3, numpy.float32)}, metric="rmse", evaluate=lambda params: float(params["w"][0]))
    while not run.over:
        run.params["w"] *= 0.9
        run.step()


def test_every_evaluation_is_a_scalar_of_its_clock(three, tmp_path):
    gaia.simulate(main, three, out=tmp_path / "out")
    found = events.EventAccumulator(str(tmp_path / "out"), size_guidance={"scalars": 0})
    found.Reload()
    lines = [json.loads(line) for line in (tmp_path / "out" / "progress.jsonl").read_text().splitlines()]
    tags = set(found.Tags()["scalars"])

    def check(tag, values):
        scalars = found.Scalars(tag)
        assert [(scalar.step, scalar.wall_time) for scalar in scalars] == [(line["clock"], line["time_s"]) for line in lines]
        assert [scalar.value for scalar in scalars] == pytest.approx(values)

    check("objective/all", [line["objective"] for line in lines])
    for at, dc in enumerate(lines[0]["data_centers"]):
        check(f"rmse/{dc['name']}", [line["data_centers"][at]["metric"] for line in lines])
    links = {f"{dc['name']} to {to}" for dc in lines[-1]["data_centers"] for to in dc["sent_bytes"]}
    assert links and {f"bytes of links/{link}" for link in links} <= tags
