"""`gaia.simulate`, as a notebook calls it: again and again, in one process."""

import collections
import os
import threading

import numpy
import pytest
from conftest import raised_in_time

import gaia
from gaia._place import Turn, worker


def main():
    run = gaia.join({"w": numpy.ones(3, numpy.float32)}, evaluate=lambda params: float(params["w"][0]))
    while not run.over:
        run.params["w"] *= 0.9
        run.step()


@pytest.mark.parametrize(
    ("function", "settings", "said"),
    [
        (None, {}, r"main is None, expected a function: gaia.simulate\(main\), and not gaia.simulate\(main\(\)\)"),
        (main, {"driver": "real"}, "driver is 'real', expected one that runs a function in this process: simulated or emulated"),
    ],
)
def test_what_cannot_be_simulated_is_named(three, tmp_path, function, settings, said):
    with pytest.raises(gaia.GaiaError, match=said) as raised:
        gaia.simulate(function, three, out=tmp_path / "out", **settings)
    assert raised.value.exit_code == 2 and not (tmp_path / "out").exists()


def test_a_run_inside_the_script_of_a_run_is_refused(three):
    """The scripts of the inner run would wait for the turn of the outer one, for ever."""
    with pytest.raises(gaia.GaiaError, match=r"gaia.simulate\(...\) was called in a script of a run, expected it outside"):
        gaia.simulate(lambda: gaia.simulate(main, three), three)
    assert gaia.simulate(main, three, set={"stop.clocks": 2})["clocks"] == 2


def test_a_script_that_has_not_ended_with_its_run_is_named_by_the_next_one(one, monkeypatch):
    """The scripts of the next run would wait for its turn, for ever."""
    monkeypatch.setattr("gaia._scripts.STEP_MAX_S", 0.0)
    goes_on, threads = threading.Event(), []

    def keeps_the_turn():
        gaia.join({"w": numpy.ones(3, numpy.float32)}, evaluate=lambda params: 1.0)
        threads.append(threading.current_thread())
        worker().exchange.fail("no route to host")
        goes_on.wait()

    try:
        assert "no route to host" in str(raised_in_time(lambda: gaia.simulate(keeps_the_turn, one)))
        refused = raised_in_time(lambda: gaia.simulate(main, one))
        assert isinstance(refused, gaia.GaiaError) and "a script of an earlier run in this process has not ended" in str(refused)
    finally:
        goes_on.set()
    threads[0].join(timeout=120)
    assert gaia.simulate(main, one, set={"stop.clocks": 2})["clocks"] == 2


def test_a_simulation_waits_for_the_step_of_an_earlier_run():
    earlier = Turn(seed=1)
    waits, takes = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (earlier.take(), takes.set(), waits.wait(), earlier.give()))
    thread.start()
    takes.wait()
    assert not Turn.is_kept(within_s=0.0), "a run that goes on beside it"
    earlier.is_left = True
    assert Turn.is_kept(within_s=0.0)
    waits.set()
    assert not Turn.is_kept(within_s=120.0)
    thread.join()


@pytest.mark.parametrize("ask", [gaia.rank, gaia.size])
def test_a_number_is_not_guessed_in_a_thread_of_a_script(three, ask):
    """Each of them was told that it is the first of one."""
    said = []

    def starts_a_thread():
        numbers = gaia.rank(), gaia.size()
        said.append(raised_in_time(ask))
        assert numbers == (gaia.rank(), gaia.size())
        main()

    gaia.simulate(starts_a_thread, three, set={"stop.clocks": 2})
    assert len(said) == 6
    for error in said:
        assert isinstance(error, gaia.GaiaError) and error.exit_code == 2
        assert "was called in a thread that is none of the scripts of the run" in str(error), error
    # Outside of runs all threads are alike.
    assert raised_in_time(ask) is None and (gaia.rank(), gaia.size()) == (0, 1)


def test_a_thread_of_a_script_does_not_train_alone(three):
    said = []

    def starts_a_thread():
        weights = {"weights": numpy.zeros(3, dtype=numpy.float32)}
        said.append(raised_in_time(lambda: gaia.join(weights, evaluate=lambda _: 0.0)))
        main()

    gaia.simulate(starts_a_thread, three, set={"stop.clocks": 2})
    assert len(said) == 6
    for error in said:
        assert isinstance(error, gaia.GaiaError) and error.exit_code == 2
        assert "gaia.join(...) was called in a thread that is none of the scripts of the run" in str(error), error


def test_the_default_run_leaves_files_beside_its_directory_alone(tmp_path):
    own = tmp_path / "digits.toml"
    own.write_text("# mine\n")
    result = gaia.simulate(main, set={"stop.clocks": 2}, out=tmp_path / "digits")
    assert own.read_text() == "# mine\n" and result["clocks"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits", "digits.toml"]


def test_a_directory_stays_where_it_is_named_when_a_script_goes_elsewhere(three, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    def goes_elsewhere():
        os.chdir(tmp_path / "elsewhere")
        main()

    result = gaia.simulate(goes_elsewhere, three, set={"stop.clocks": 2}, out="out")
    assert result.directory == tmp_path / "out" and (tmp_path / "out" / "summary.json").is_file()
    assert result.progress[-1]["clock"] == 2 and not list((tmp_path / "elsewhere").iterdir())


def test_dicts_keep_their_types(three):
    """JAX takes a dict of another type for another tree."""
    given = collections.OrderedDict(b=numpy.zeros(2), a=collections.defaultdict(list, c=numpy.zeros(1)))
    kinds = []

    def ordered():
        run = gaia.join(given, evaluate=lambda params: kinds.append(params) or 1.0)
        kinds.append(run.params)
        while not run.over:
            kinds.append(run.step(run.params))

    gaia.simulate(ordered, three, set={"stop.clocks": 2})
    for tree in kinds:
        assert type(tree) is collections.OrderedDict and list(tree) == ["b", "a"]
        assert type(tree["a"]) is collections.defaultdict and tree["a"].default_factory is list
    assert isinstance(given["b"], numpy.ndarray), "the script's own is left as it is"
