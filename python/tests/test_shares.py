"""Workers that share the model of their data center, in simulation and without torch."""

import numpy
import pytest

import gaia
from gaia._place import worker
from gaia._run import Parameters, Run

TENSORS = [("table", (11, 3)), ("vector", (7,)), ("spread", (5,))]


class Half(Parameters):
    """One of two parts of a table and a vector, and all of a statistic."""

    statistics = 1

    def __init__(self, part):
        cuts = [(0, 6, 11), (0, 4, 7)]
        self.rows = [(cut[part], cut[part + 1]) for cut in cuts] + [(0, 5)]
        self.tensors = TENSORS
        self.whole = numpy.arange(33 + 7 + 5, dtype=numpy.float32)
        self.table, self.vector, self.spread = (
            one[start:end]
            for one, (start, end) in zip(
                (self.whole[:33].reshape(11, 3), self.whole[33:40], self.whole[40:]), self.rows, strict=True
            )
        )
        self.values = numpy.concatenate([self.table.reshape(-1), self.vector, self.spread])

    def subject(self):
        return self.values


class HalfRun(Run):
    def _share(self):
        return self._parameters.rows, self._parameters.rows[0][0] == 0, self._parameters.whole


def test_a_worker_reads_and_changes_the_rows_that_it_holds(three):
    finals, evaluated = {}, []

    def main():
        parameters = Half(gaia.rank() % 2)
        evaluate = lambda values: evaluated.append(len(values)) or 1.0  # noqa: E731
        run = HalfRun(parameters, worker(), evaluate, 1, sharded=True)
        run._begin("loss", False, 0.0, average=False)
        weights = len(parameters.values) - 5
        for _ in range(9):
            parameters.values[:weights] += 1
            # The first part sends statistics, what others make of them is replaced.
            parameters.values[weights:] += 6 if parameters.rows[0][0] == 0 else numpy.nan
            run._stepped()
            assert run.over or not numpy.isnan(parameters.values).any()
        run.end()
        finals[gaia.rank()] = parameters

    gaia.simulate(main, three, set={"stop.clocks": 1000})
    assert sorted(finals) == list(range(6)) and set(evaluated) == {18 + 4 + 5, 15 + 3 + 5}
    for parameters in finals.values():
        weights = len(parameters.values) - 5
        initial = numpy.concatenate([parameters.table.reshape(-1), parameters.vector])
        # One worker in each of three data centers holds a row.
        assert (parameters.values[:weights] - initial == 3 * 9).all()
        spread = parameters.values[weights:] - parameters.spread
        assert (spread == spread[0]).all() and spread[0] > 0, spread


def test_rows_are_named_by_workers_that_hold_the_whole_model(three):
    """Whatever the tables of vectors are, where other workers share it."""
    finals = []

    def main():
        parameters = Half(0)
        parameters.values = parameters.whole.copy()
        run = Run(parameters, worker(), lambda values: 1.0, 1, sharded=True)
        run._begin("loss", False, 0.0, average=False)
        own = gaia.rank()
        for _ in run(range(9), rows={"vector": lambda _: [own]}):
            parameters.values[33 + own] += 1
            run._stepped()
        run.end()
        finals.append(parameters.values - parameters.whole)

    gaia.simulate(main, three, set={"stop.clocks": 1000})
    assert all((final[33:39] == 9).all() and final.sum() == 54 for final in finals), finals


def test_what_a_worker_holds_are_rows_of_its_tensors(three):
    def main(rows):
        parameters = Half(0)
        parameters.rows = rows
        HalfRun(parameters, worker(), lambda values: 1.0, 1, sharded=True)._begin("loss", False, 0.0, average=True)

    for rows in ([(0, 6), (0, 4)], [(0, 12), (0, 4), (0, 5)], [(6, 0), (0, 4), (0, 5)]):
        with pytest.raises(ValueError, match="no rows of the tensors"):
            gaia.simulate(lambda rows=rows: main(rows), three)
    with pytest.raises(ValueError, match="found 27 values, expected 30"):
        gaia.simulate(lambda: main([(0, 7), (0, 4), (0, 5)]), three)
