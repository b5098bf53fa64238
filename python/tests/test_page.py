"""What `benches/page.py` makes of rows of a benchmark."""

import importlib.util

import pytest
from conftest import PYTHON


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
    old = "# Title\n" + place.format("machine") + place.format("rows codec") + "text\n" + place.format("rows filter")
    new = page.with_rows(old, [row()], "Measured by hand.\n")
    assert new.startswith("# Title\n<!-- machine -->\n\nMeasured by hand.\n\n<!-- end -->\n")
    assert "| a | 1.23 (0.500 to 20.0) | ns | 2.03 (1.90 to 2.10) | a pass, 2.50 | 5 |\n" in new
    assert new.endswith("<!-- end -->\ntext\n" + place.format("rows filter"))
    assert page.with_rows(new, [row()], "Measured by hand.\n") == new


def test_a_row_without_a_reference_says_why(page):
    absent = {"reference": "PyTorch is not installed", "reference_value": None, "ratio": None, "ratio_range": None}
    assert "| ns | – | PyTorch is not installed | 5 |" in page.table([row(**absent)])


def test_a_bench_without_a_place_in_the_page_is_an_error(page):
    with pytest.raises(SystemExit, match="rows codec"):
        page.with_rows("<!-- machine -->\n<!-- end -->\n", [row()], "")
