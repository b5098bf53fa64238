"""What `bench/exactness.py` and `bench/killed.py` make of what regions have recorded."""

import math

import pytest

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")


def region(record, path, data, seed, change=lambda _: None):
    """Trains a copy of a layer on data of its own, changes it at the end, and writes its record."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer, draws = torch.optim.SGD(model.parameters(), lr=0.1), torch.Generator().manual_seed(seed)
    recorded = record.Record(model, 0.1)
    for _ in range(data):
        optimizer.zero_grad()
        model(torch.randn(8, 4, generator=draws)).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        change(model)
    recorded.write(path)
    return path


def test_the_steps_of_a_region_alone_add_up_to_its_copy(bench_module, tmp_path):
    record = bench_module("record")
    found = record.compared([region(record, tmp_path / "a.pt", 20, seed=1)])
    assert found.between_copies == 0.0 and found.from_exact < 1e-6


def test_copies_that_never_meet_differ_by_what_the_others_have_changed(bench_module, tmp_path):
    record = bench_module("record")
    found = record.compared([region(record, tmp_path / f"{seed}.pt", 20, seed) for seed in (1, 2)])
    assert found.between_copies > 0.1
    # Each lacks half of the difference.
    assert found.from_exact == pytest.approx(found.between_copies / 2, rel=1e-3)


def test_copies_that_are_alike_may_still_be_far_from_the_exact_result(bench_module, tmp_path):
    record = bench_module("record")
    reset = lambda model: model.weight.zero_()  # noqa: E731
    found = record.compared([region(record, tmp_path / f"{name}.pt", 20, seed=1, change=reset) for name in "ab"])
    assert found.between_copies == 0.0 and found.from_exact > 0.1


def steps(*spans):
    """The times of steps. A span is from one time to another, with a step every so many seconds."""
    return [since + at * every for since, until, every in spans for at in range(round((until - since) / every))]


def test_the_steps_of_others_and_of_a_region_that_comes_back_are_counted_apart(bench_module):
    killed = bench_module("killed")
    times = killed.Times(killed=10.0, again=30.0, ended=50.0)
    # Ten steps a second before, of the slower one four while another is away, and eight after that.
    fast = steps((0, 10, 0.1), (10, 30, 0.2), (30, 50, 0.125))
    slow = steps((0, 10, 0.1), (10, 30, 0.25), (30, 50, 0.125))
    own = steps((0, 10, 0.1), (34, 50, 0.125))
    found = killed.judged([fast, slow], own, times)
    assert found.before == pytest.approx(10.0, rel=0.02) and found.others_while_away == pytest.approx(4.0, rel=0.02)
    assert found.others_after == pytest.approx(8.0, rel=0.02) and found.itself_after == pytest.approx(8.0, rel=0.02)
    assert found.back_s == pytest.approx(4.0) and found.ended == ()

    gone = killed.judged([fast[:100]], own[:100], times, ("a",))
    assert (gone.others_while_away, gone.others_after, gone.itself_after, gone.back_s) == (0.0, 0.0, 0.0, math.inf)
    assert killed.cells(gone) == ["10.0", "0.0", "ended with an error", "0.0", "never"]
