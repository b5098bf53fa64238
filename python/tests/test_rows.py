"""Rows of tables that are named before they are read."""

import json

import numpy
import pytest
from conftest import EXAMPLES, gaia as command

import gaia

ROWS, WIDTH = 2_000, 8


def batches(rank, count):
    """Each has the rows that it needs, in any order and more than once."""
    draws = numpy.random.default_rng(rank)
    return [draws.integers(ROWS, size=20) for _ in range(count)]


def pulls(batch):
    """Targets of rows."""
    return numpy.sin(batch)[:, None] * numpy.arange(WIDTH)


def averages(finals, named, form=lambda ids: ids, clocks=1):
    """A script that moves the rows of each batch of two epochs halfway to their targets."""

    def main():
        table = numpy.ones((ROWS, WIDTH), numpy.float32)
        evaluate = lambda params: float(numpy.square(params["table"]).mean())  # noqa: E731
        run = gaia.join({"table": table, "bias": numpy.zeros(3, numpy.float32)}, evaluate=evaluate, steps_per_clock=clocks)
        rows = {"table": form} if named else None
        for _ in range(2):
            for batch in run(batches(gaia.rank(), 32), rows=rows):
                ids = numpy.unique(batch)
                run.params["table"][ids] += (pulls(ids) - run.params["table"][ids]) / 2
                run.params["bias"] += 1
                run.step()
        run.end()
        finals[gaia.rank()] = {name: value.copy() for name, value in run.params.items()}

    return main


FORMS = {
    "array": lambda ids: ids,
    "list": lambda ids: ids.tolist(),
    "nested": lambda ids: ids.reshape(4, 5).astype(numpy.uint16),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("clocks", [1, 4])
def test_the_values_are_those_without_names_and_the_lan_carries_less(three, form, clocks):
    finals = {False: {}, True: {}}
    settings = {"stop.clocks": 1000}
    without, named = (
        gaia.simulate(averages(finals[named], named, FORMS[form], clocks), three, set=settings) for named in (False, True)
    )
    assert named["objective"] == without["objective"] and named["clocks"] == without["clocks"]
    assert without["lan_bytes"] > 4 * named["lan_bytes"], (without["lan_bytes"], named["lan_bytes"])
    for rank in range(6):
        for name in ("table", "bias"):
            assert (finals[True][rank][name] == finals[False][0][name]).all()


def test_rows_are_named_with_a_step(three):
    def main(named, finals):
        run = gaia.join({"table": numpy.ones((ROWS, WIDTH), numpy.float32)}, evaluate=lambda params: 1.0)
        rows = batches(gaia.rank(), 30)
        for now, following in zip(rows, rows[1:], strict=False):
            ids = numpy.unique(now)
            run.params["table"][ids] *= 0.5
            run.step(rows={"table": following} if named else None)
            if run.over:
                break
        run.end()
        finals.append(run.params["table"].copy())

    finals = {False: [], True: []}
    without, named = (
        gaia.simulate(lambda named=named: main(named, finals[named]), three, set={"stop.clocks": 20}) for named in (False, True)
    )
    assert without["lan_bytes"] > 4 * named["lan_bytes"]
    assert all((one == finals[False][0]).all() for one in finals[True])


def test_rows_that_are_not_read_stay_what_they_were(three):
    """An evaluation and the final values have all rows."""
    seen = {}

    def main():
        evaluated = []
        evaluate = lambda params: evaluated.append(params["table"][:, 0].copy()) or 1.0  # noqa: E731
        run = gaia.join({"table": numpy.zeros((6, 2), numpy.float32)}, evaluate=evaluate)
        own = gaia.rank()
        for clock in range(6):
            run.params["table"][own] += 6
            run.step(rows={"table": [own]})
            if clock > 0:
                # The others' rows were read when the run began, and their values are those of then.
                others = [row for row in range(6) if row != own]
                assert not run.params["table"][others].any(), run.params["table"]
                assert (run.params["table"][own] > 0).all()
        run.end()
        seen[own] = evaluated, run.params["table"][:, 0].copy()

    gaia.simulate(main, three, set={"stop.clocks": 1000, "evaluate.every": 1})
    for evaluated, final in seen.values():
        assert any((table > 0).all() for table in evaluated), evaluated
        assert (final == 6).all(), final


def test_a_row_that_changes_without_a_name_ends_the_run(three):
    def main(row):
        run = gaia.join({"bias": numpy.zeros(1, numpy.float32), "table": numpy.ones((9, 2), numpy.float32)}, evaluate=len)
        for _ in run([[4, 7]] * 9, rows={"table": lambda ids: ids}):
            run.params["table"][[4, 7]] += 1
            if run.clock > 3 and gaia.rank() == 2:
                run.params["table"][row, 1] += 1
            run.step()

    for row in (0, 5, 8):
        with pytest.raises(gaia.GaiaError, match=f'table: row {row} has changed, and rows={{"table": ...}} has not named it'):
            gaia.simulate(lambda row=row: main(row), three)


def test_wrong_rows_are_named(three):
    def main(rows):
        run = gaia.join({"table": numpy.ones((9, 2), numpy.float32)}, evaluate=len)
        for _ in run(range(9), rows=rows):
            run.step()

    for rows, text in (
        ({"tables": lambda batch: [batch]}, "rows names `tables`, expected a tensor such as table"),
        ({"table": lambda batch: [3, 9]}, "rows names row 9 of table, expected 0 to 8"),
        ({"table": lambda batch: [-1]}, "rows names row -1 of table, expected 0 to 8"),
        ({"table": lambda batch: [1.5]}, "rows of table are float64, expected whole numbers"),
    ):
        with pytest.raises(gaia.GaiaError, match=text) as raised:
            gaia.simulate(lambda rows=rows: main(rows), three)
        assert raised.value.exit_code == 2


def test_rows_of_a_vector_are_its_values(three):
    finals = {}

    def main(named):
        run = gaia.join({"vector": numpy.zeros(5_000, numpy.float32)}, evaluate=len, average=False)
        for batch in run(batches(gaia.rank(), 10), rows={"vector": lambda ids: ids} if named else None):
            run.params["vector"][numpy.unique(batch)] += 1
            run.step()
        run.end()
        finals[named] = run.params["vector"].copy()

    for named in (False, True):
        gaia.simulate(lambda named=named: main(named), three, set={"stop.clocks": 1000})
    assert (finals[True] == finals[False]).all() and finals[True].sum() > 1000


def test_a_loop_that_is_left_and_batches_without_a_step(three):
    """The next clock reads the rows of the batch that comes next, whichever that is."""
    finals = {}

    def main():
        run = gaia.join({"table": numpy.zeros((ROWS, 1), numpy.float32)}, evaluate=len, average=False)
        own = numpy.arange(60) + 60 * gaia.rank()
        rows = {"table": lambda row: [row]}
        for start in (0, 20, 40):
            for at, row in enumerate(run(own[start:], rows=rows)):
                if at == 20:
                    break
                # What was read is what this worker has written.
                assert run.params["table"][row, 0] == 0
                if row % 3:
                    run.params["table"][row] += 1
                    run.step()
        run.end()
        finals[gaia.rank()] = run.params["table"][:, 0].copy()

    gaia.simulate(main, three, set={"stop.clocks": 1000})
    expected = (numpy.arange(ROWS) % 3 > 0) * (numpy.arange(ROWS) < 360)
    assert all((final == expected).all() for final in finals.values()), finals


@pytest.mark.parametrize("ends", [True, False])
def test_a_clock_ends_where_a_loop_that_names_rows_ends(three, ends):
    """Five batches are two clocks of two steps, and one of a single step. What follows names nothing."""
    finals = {}

    def main():
        run = gaia.join({"w": numpy.zeros((100, 1), numpy.float32)}, evaluate=lambda params: 1.0, steps_per_clock=2)
        for batch in run([[at] for at in range(10, 15)], rows={"w": lambda batch: batch}):
            run.params["w"][batch] += 1
            run.step()
        if not ends:
            for at in run(range(50, 54)):
                run.params["w"][at] += 1
                run.step()
        run.end()
        finals[gaia.rank()] = run.params["w"][:, 0].copy()

    gaia.simulate(main, three, set={"stop.clocks": 1000})
    expected = numpy.zeros(100, numpy.float32)
    expected[10:15] = 1
    expected[50 : 50 if ends else 54] = 1
    assert all(numpy.abs(finals[rank] - expected).max() < 1e-5 for rank in range(6)), finals[0]


def test_a_step_on_several_batches_names_the_rows_of_all(three):
    finals = []

    def main(batches_per_clock):
        run = gaia.join({"table": numpy.zeros((60, 1), numpy.float32)}, evaluate=len, average=False)
        gathered = []
        rows = {"table": lambda row: [row]}
        for row in run(numpy.arange(10) + 10 * gaia.rank(), rows=rows, batches_per_clock=batches_per_clock):
            gathered.append(row)
            if len(gathered) == 2:
                run.params["table"][gathered] += 1
                gathered = []
                run.step()
        run.end()
        finals.append(run.params["table"].copy())

    gaia.simulate(lambda: main(2), three, set={"stop.clocks": 1000})
    assert len(finals) == 6 and all((final == 1).all() for final in finals)
    with pytest.raises(gaia.GaiaError, match="table: row [0-9]+ has changed"):
        gaia.simulate(lambda: main(None), three, set={"stop.clocks": 1000})
    with pytest.raises(gaia.GaiaError, match="batches_per_clock is 0, expected at least 1"):
        gaia.simulate(lambda: main(0), three)


def test_alone_rows_change_nothing():
    run = gaia.join({"table": numpy.zeros((4, 1), numpy.float32)}, evaluate=len)
    seen = []
    for batch in run([1, 2, 3], rows={"table": lambda row: [row]}):
        seen.append(batch)
        run.step()
    assert seen == [1, 2, 3] and run.clock == 3


def torch_or_skip():
    return pytest.importorskip("torch", reason="skipped: torch is not installed")


def recommended(folder, name, script):
    """The summary and the evaluations of a run of the recommender."""
    settings = ["--set", "sync.remote.model=bsp", "--set", "stop.clocks=20"]
    ended = command("train", EXAMPLES / "regions.toml", "--script", script, *settings, "--out", name, "--json", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    progress = [json.loads(line) for line in (folder / name / "progress.jsonl").read_text().splitlines()]
    return json.loads((folder / name / "summary.json").read_text()), [one["objective"] for one in progress]


def test_the_recommender_needs_a_tenth_of_the_bytes_of_the_lan(tmp_path):
    torch_or_skip()
    text = (EXAMPLES / "recommender.py").read_text()
    assert text.count(", rows=rows)") == 1
    (tmp_path / "recommender_all.py").write_text(text.replace(", rows=rows)", ")"))
    named, objectives = recommended(tmp_path, "named", EXAMPLES / "recommender.py")
    without, expected = recommended(tmp_path, "all", tmp_path / "recommender_all.py")
    assert objectives == expected and objectives[-1] < 0.8 * objectives[0]
    assert without["lan_bytes"] > 10 * named["lan_bytes"], (without["lan_bytes"], named["lan_bytes"])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_of_a_module_with_a_sparse_and_a_dense_optimizer(three, dtype):
    torch = torch_or_skip()

    def main(sparse):
        torch.manual_seed(0)
        model = torch.nn.Embedding(50, 4, sparse=sparse).to(getattr(torch, dtype))
        optimizer = (torch.optim.SparseAdam if sparse else torch.optim.Adam)(model.parameters(), lr=0.1)
        run = gaia.join(model, optimizer, evaluate=lambda model: 1.0)
        own = torch.arange(8) + 8 * gaia.rank()
        for ids in run(own.split(2), rows={"weight": lambda ids: ids}):
            optimizer.zero_grad()
            model(ids).square().sum().backward()
            optimizer.step()
        run.end()
        finals.append(model.weight.detach().clone())

    finals = []
    gaia.simulate(lambda: main(True), three, set={"stop.clocks": 1000})
    assert len(finals) == 6 and all(torch.equal(final, finals[0]) for final in finals)
    torch.manual_seed(0)
    initial = torch.nn.Embedding(50, 4).to(getattr(torch, dtype)).weight
    changed = (finals[0] != initial).any(1)
    assert changed[:48].all() and not changed[48:].any()

    # The moments of Adam move the rows of the batch before.
    with pytest.raises(gaia.GaiaError, match="weight: row [0-9]+ has changed.*SparseAdam"):
        gaia.simulate(lambda: main(False), three, set={"stop.clocks": 1000})
