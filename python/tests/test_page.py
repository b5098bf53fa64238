"""What `benches/page.py` makes of rows of a benchmark, and `benches/peers/steps.py` of peers that are missing or broken."""

import importlib.util
import subprocess
import sys

import pytest
from conftest import PYTHON, environment


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("page", PYTHON.parent / "benches" / "page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(**fields):
    defaults = {"bench": "codec", "name": "a", "value": 1.234, "range": [0.5, 20], "unit": "ns", "runs": 5}
    reference = {"reference": "a pass", "reference_value": 2.5, "ratio": 2.026, "ratio_range": [1.9, 2.1]}
    return {**defaults, **reference, **fields}


def test_tables_are_replaced_and_the_text_around_them_stays(page):
    place = "<!-- {} -->\nold\n<!-- end -->\n"
    old = "# Title\n" + place.format("rows codec") + "text\n" + place.format("rows filter")
    new = page.with_rows(old, [row()], "Measured by hand.\n")
    assert new.startswith("# Title\n<!-- rows codec -->\n\n| |")
    assert "| a | 1.23 (0.500 to 20.0) | ns | 2.03 (1.90 to 2.10) | a pass, 2.50 | 5 |\n\nMeasured by hand.\n" in new
    # What was measured on another day keeps that day.
    assert new.endswith("Measured by hand.\n\n<!-- end -->\ntext\n" + place.format("rows filter"))
    assert page.with_rows(new, [row()], "Measured by hand.\n") == new


def test_a_row_without_a_reference_says_why(page):
    absent = {"reference": "PyTorch is not installed", "reference_value": None, "ratio": None, "ratio_range": None}
    assert "| ns | – | PyTorch is not installed | 5 |" in page.table([row(**absent)])


def test_a_bench_without_a_place_in_the_page_is_an_error(page):
    with pytest.raises(SystemExit, match="rows codec"):
        page.with_rows("<!-- rows filter -->\n<!-- end -->\n", [row()], "")


def test_a_bench_without_a_place_is_named_and_left_out_of_a_page_that_has_others(page, capsys):
    place = "<!-- {} -->\nold\n<!-- end -->\n"
    new = page.with_rows(place.format("rows codec"), [row(), row(bench="sync", name="b")], "")
    assert "| a | 1.23" in new and "| b |" not in new
    assert capsys.readouterr().err == "left out: sync, since the page has no `<!-- rows sync -->`\n"


def test_rows_of_benches_in_python_are_rows_of_the_page(page, bench_module):
    python_row = bench_module("rows").row
    times = python_row("sync", "asp", "ms", [40.0, 20.0, 80.0], ("a pass", [10.0] * 3))
    assert set(times) == set(row())
    assert "| asp | 40.0 (20.0 to 80.0) | ms | 0.250 (0.125 to 0.500) | a pass, 10.0 | 3 |\n" in page.table([times])
    rates = python_row("push_pull", "TLS", "GB/s", [0.5], ("a TCP stream", [2.0]), more_is_better=True)
    assert "| TLS | 0.500 | GB/s | 0.250 | a TCP stream, 2.00 | 1 |\n" in page.table([rates])
    # Steps that took no longer than those of the plain script have no ratio.
    nothing = python_row("sync", "between", "ms", [-0.1], ("a step of the plain script", [3.0]))
    assert "| ms | – | a step of the plain script | 1 |\n" in page.table([nothing])


@pytest.mark.parametrize(
    ("torch", "answer"),
    [
        ('raise ImportError("no such\\nlibrary")', "none ImportError: no such library"),
        ('raise OSError("no such file")', "none OSError: no such file"),
        ('raise RuntimeError("made for another\\nprocessor")', "failed RuntimeError: made for another processor"),
    ],
)
def test_a_peer_that_is_missing_or_broken_says_why_and_the_others_are_asked(tmp_path, torch, answer):
    (tmp_path / "torch.py").write_text(torch)
    variables = environment(PYTHONDONTWRITEBYTECODE="1")
    variables["PYTHONPATH"] = str(tmp_path)
    command = [sys.executable, PYTHON.parent / "benches" / "peers" / "steps.py"]
    asked = "perceptron 2 3 4\nunknown\nconvolution 2 1 4 2 2 3\n"
    ended = subprocess.run(command, env=variables, input=asked, capture_output=True, text=True, timeout=60)
    expected = "failed ValueError: found `unknown`, expected perceptron, convolution, ratings or topics"
    assert ended.stdout.splitlines() == [answer, expected, answer], ended.stderr
