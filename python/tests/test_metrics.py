"""What a script finds in `run.metrics`."""

import re
import warnings

import numpy
import pytest
from conftest import PYTHON

import gaia


def judged(found, three, **joined):
    """What `run.metrics` has where `evaluate` returns this."""
    metrics = {}

    def main():
        run = gaia.join({"w": numpy.ones(3, numpy.float32)}, evaluate=lambda params: found, **joined)
        while not run.over:
            run.params["w"] *= 0.9
            run.step()
        metrics[gaia.rank()] = run.metrics

    gaia.simulate(main, three)
    return {key: value for key, value in metrics[0].items() if key != "clock"}


@pytest.mark.parametrize(
    ("found", "joined", "expected"),
    [
        (2.5, {}, {"loss": 2.5}),
        (2.5, {"metric": "loss"}, {"loss": 2.5}),
        ((2.5,), {"metric": "rmse"}, {"loss": 2.5, "rmse": 2.5}),
        ((2.5, 0.75), {"metric": "accuracy", "higher_is_better": True}, {"loss": 2.5, "accuracy": 0.75}),
        ((2.5, 0.75, 10), {"metric": "accuracy"}, {"loss": 2.5, "accuracy": 0.75}),
        ((2.5, 2.5, 10), {"metric": "loss"}, {"loss": 2.5}),
    ],
)
def test_metrics_have_the_loss_and_the_metric_by_its_name(three, found, joined, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert judged(found, three, **joined) == expected


def test_a_second_number_without_a_name_does_not_take_the_place_of_the_loss(three):
    with pytest.warns(UserWarning, match=r'second number, which has no name.* gaia.join\(..., metric="accuracy"\)'):
        assert judged((2.5, 0.75), three) == {"loss": 2.5, "metric": 0.75}


def test_names_that_are_taken_are_refused(three):
    with pytest.raises(gaia.GaiaError, match=r'a second number, and metric="loss" names it as the loss, expected another name'):
        judged((2.5, 0.75), three, metric="loss")
    with pytest.raises(gaia.GaiaError, match='metric is "clock", which is the name of the clock'):
        gaia.join({"w": numpy.ones(3, numpy.float32)}, evaluate=lambda params: 0.0, metric="clock")


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (None, "None"),
        ({"loss": 1.0}, "a value of type dict"),
        ("0.5", "a value of type str"),
        ((2.5, None), "None"),
        (numpy.ones(3), r"a value of type ndarray and shape \(3,\)"),
    ],
)
def test_what_an_evaluation_returns_in_place_of_a_number_is_named(three, found, what):
    text = rf"evaluate\(model\) has returned {what} in place of a number, expected loss, \(loss, metric\)"
    with pytest.raises(gaia.GaiaError, match=text) as raised:
        judged(found, three, metric="accuracy")
    assert raised.value.exit_code == 2


def test_an_array_of_one_number_is_a_number(three):
    assert judged((numpy.full((1, 1), 2.5), numpy.float64(0.75)), three, metric="accuracy") == {"loss": 2.5, "accuracy": 0.75}


def test_a_tensor_of_one_number_is_a_number_also_where_it_has_a_gradient(three):
    torch = pytest.importorskip("torch", reason="skipped: torch is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert judged(torch.tensor([2.5], requires_grad=True) * 2, three) == {"loss": 5.0}
    with pytest.raises(gaia.GaiaError, match=r"a value of type Tensor and shape \(2,\) in place of a number"):
        judged(torch.ones(2), three)


def writer():
    """The writer of TensorBoard where it is installed, and what it is told."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        SummaryWriter = None
    told = []

    class Writer(SummaryWriter or object):
        def __init__(self, folder):
            if SummaryWriter:
                super().__init__(folder)

        def add_scalar(self, name, value, step):
            told.append((step, name, value))
            if SummaryWriter:
                super().add_scalar(name, value, step)

    return Writer, told


def test_the_loop_of_the_page_logs_each_evaluation_once(one, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="skipped: torch is not installed")
    from loops import batch, net

    monkeypatch.chdir(tmp_path)
    page = (PYTHON.parent / "docs" / "src" / "python.md").read_text()
    (snippet,) = (one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "SummaryWriter" in one)
    Writer, told = writer()
    judged = []

    def evaluate(model):
        judged.append((float(len(judged)), 0.5))
        return judged[-1]

    def main():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        run = gaia.join(model, optimizer, evaluate=evaluate, metric="accuracy")
        found = {"gaia": gaia, "SummaryWriter": Writer, "run": run, "loader": map(batch, range(100)), "model": model}
        exec(snippet, {**found, "optimizer": optimizer, "loss": lambda answers, y: (answers - y).square().mean()})

    gaia.simulate(main, one, set={"stop.clocks": 6})
    clocks = [step for step, name, _ in told if name == "loss"]
    assert clocks == sorted(set(clocks)) and len(clocks) >= 5
    losses = [value for _, name, value in told if name == "loss"]
    assert losses == sorted(set(losses)) and set(losses) <= {loss for loss, _ in judged}
    assert {(name, value) for _, name, value in told if name != "loss"} == {("accuracy", 0.5)}
