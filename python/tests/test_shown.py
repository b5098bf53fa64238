"""Progress in a notebook."""

import sys
import types

import numpy
import pytest

import gaia


@pytest.fixture
def notebook(monkeypatch):
    """A fake kernel of IPython: what it displays, by the name of the display."""
    shown = {}

    class Handle:
        def __init__(self, name):
            self.name = name

        def update(self, data, raw):
            assert raw
            shown[self.name].append(data)

    def display(data, *, raw, display_id):
        assert raw and display_id
        name = len(shown)
        shown[name] = [data]
        return Handle(name)

    kernel, displays = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    kernel.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    displays.display = kernel.display = display
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    # Whether tqdm is installed or not.
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    return shown


def main():
    run = gaia.join({"w": numpy.ones(3, numpy.float32)}, metric="rmse", evaluate=lambda params: float(params["w"][0]))
    while not run.over:
        run.params["w"] *= 0.9
        run.step()


def test_one_line_changes_in_place_and_ends_with_the_summary(three, notebook, capfd):
    result = gaia.simulate(main, three, quiet=False)
    assert list(notebook) == [0], "one display"
    texts = [data["text/plain"] for data in notebook[0]]
    assert texts[0].startswith("test: clock ") and " of 20, objective " in texts[0]
    expected = f"test: clock {result['clocks']} of 20, objective {result['objective']:.4g}, rmse {result['metric']['value']:.4g}, "
    assert texts[-1].startswith(expected) and texts[-1].endswith("MB over the WAN")
    assert '<progress value="' in notebook[0][0]["text/html"]
    assert capfd.readouterr().err == ""


def test_nothing_is_shown_where_it_is_not_asked_for(three, notebook, capfd):
    gaia.simulate(main, three)
    assert notebook == {} and capfd.readouterr().err == ""


def test_a_run_that_fails_keeps_its_latest_line(three, notebook):
    def fails():
        run = gaia.join({"w": numpy.ones(3, numpy.float32)}, evaluate=lambda params: 1.0)
        while not run.over:
            if run.clock == 12:
                raise LookupError("no more data")
            run.step()

    with pytest.raises(LookupError):
        gaia.simulate(fails, three, quiet=False)
    assert " of 20, objective 1, metric 1, " in notebook[0][-1]["text/plain"]


def test_tqdm_is_taken_where_it_is_installed(three, notebook, monkeypatch):
    made = []

    class Tqdm:
        def __init__(self, **settings):
            self.settings, self.n, self.texts, self.closed = settings, 0, [], False
            made.append(self)

        def set_postfix_str(self, text):
            self.texts.append((self.n, text))

        def close(self):
            self.closed = True

    auto = types.ModuleType("tqdm.auto")
    auto.tqdm = Tqdm
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    result = gaia.simulate(main, three, quiet=False)
    (bar,) = made
    assert bar.settings == {"total": 20, "desc": "test", "unit": "clock"} and bar.closed and notebook == {}
    assert bar.texts[-1][0] == result["clocks"] and "rmse" in bar.texts[-1][1]


def test_outside_of_notebooks_lines_go_to_standard_error(three, capfd):
    gaia.simulate(main, three, quiet=False)
    error = capfd.readouterr().err
    assert "test: bsp over three-regions, simulated" in error and "objective" in error
