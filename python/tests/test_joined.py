"""What of a module and its optimizer a run trains, and what it refuses."""

import collections
import warnings

import pytest

import gaia

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")

from gaia._inside import inside  # noqa: E402
from gaia._run import _examples_of  # noqa: E402
from gaia._trained import Trained  # noqa: E402
from loops import batch, joined, loss, net  # noqa: E402

nn = torch.nn


class Moving(nn.Module):
    """A layer with statistics that it assigns, and buffers that are none."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("mask", torch.tensor([[0.0, -torch.inf], [0.0, 0.0]]))
        self.register_buffer("unset", torch.full((3,), torch.nan))
        self.register_buffer("frequencies", torch.ones(4), persistent=False)

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        else:
            self.mean = torch.zeros(2)
        return self.layer(torch.softmax(self.mask[:1], dim=1) * x - self.mean)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_statistics_that_a_module_assigns_are_agreed_on_and_other_buffers_stay(three, tmp_path, dtype):
    finals = {}

    def main():
        torch.manual_seed(0)
        model = Moving().to(dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def judge(model):
            model.eval()
            return model(torch.ones(3, 2, dtype=dtype)).square().mean().item()

        run = gaia.join(model, optimizer, evaluate=torch.no_grad()(judge))
        for _ in run(range(1000)):
            optimizer.zero_grad()
            model(torch.full((4, 2), 1.0 + gaia.rank(), dtype=dtype)).square().mean().backward()
            optimizer.step()
        finals[gaia.rank()] = model.state_dict()
        run.save(tmp_path / f"{gaia.rank()}.safetensors")

    assert gaia.simulate(main, three)["copies_equal"]
    for final in finals.values():
        # The mean of what the six workers draw nearer to: 1 to 6.
        assert torch.equal(final["mean"], finals[0]["mean"]) and 2.0 < final["mean"][0] < 3.5, final["mean"]
        assert torch.isinf(final["mask"][0, 1]) and final["unset"].isnan().all() and "frequencies" not in final


def test_a_statistic_of_another_shape_is_refused(three):
    def main():
        model = Moving()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = gaia.join(model, optimizer, evaluate=lambda model: 1.0)
        for _ in run(range(10)):
            model.mean = torch.zeros(3)
            optimizer.step()

    with pytest.raises(gaia.GaiaError, match=r"mean was assigned \(3,\), expected a tensor of shape \(2,\)"):
        gaia.simulate(main, three)


@pytest.mark.filterwarnings("ignore")
def test_a_scripted_module_trains_with_its_statistics(three):
    """Its buffers are no dict: the first step raised `AttributeError`."""
    finals = {}

    def main():
        torch.manual_seed(0)
        model = torch.jit.script(nn.Sequential(Moving(), nn.BatchNorm1d(1)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def judge(model):
            model.eval()
            return model(torch.ones(3, 2)).square().mean().item()

        run = gaia.join(model, optimizer, evaluate=torch.no_grad()(judge))
        for _ in run(range(1000)):
            optimizer.zero_grad()
            model(torch.full((4, 2), 1.0 + gaia.rank())).square().mean().backward()
            optimizer.step()
        finals[gaia.rank()] = model.state_dict()

    assert gaia.simulate(main, three, set={"stop.clocks": 20})["copies_equal"]
    for final in finals.values():
        assert torch.equal(final["0.mean"], finals[0]["0.mean"]) and 2.0 < final["0.mean"][0] < 3.5, final["0.mean"]
        assert torch.equal(final["1.running_mean"], finals[0]["1.running_mean"])


def trained(change, optimizers=lambda model: [torch.optim.SGD(model.parameters(), lr=0.1)]):
    """Trains with the last of some optimizers, of which the first has joined. `change(model, optimizers)` is called after two steps."""

    def main():
        model = net()
        found = optimizers(model)
        run = joined(model, found[0])
        for at in run(range(10)):
            loss(model, *batch(at)).backward()
            for optimizer in {id(one): one for one in (found[0], found[-1])}.values():
                optimizer.step()
            if at == 1:
                change(model, found)

    return main


def test_a_parameter_that_is_trained_after_all_is_refused(three):
    def freeze(model):
        model[0].requires_grad_(False)
        return [torch.optim.SGD(model.parameters(), lr=0.1)]

    with pytest.raises(gaia.GaiaError, match="0.weight was frozen at gaia.join.* expected it to need a gradient before"):
        gaia.simulate(trained(lambda model, _: model[0].requires_grad_(True), freeze), three)


class Taught(nn.Module):
    """A student, and the teacher that follows it by hand."""

    def __init__(self):
        super().__init__()
        self.student, self.teacher = net(), net().requires_grad_(False)

    def forward(self, x):
        return self.student(x)

    @torch.no_grad()
    def follow(self):
        for teacher, student in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            teacher.lerp_(student, 0.1)


@pytest.mark.parametrize("changes", ["each step", "before the first step", "late", "alone"])
def test_a_script_that_changes_what_is_frozen_is_warned_once(one, changes):
    """Each worker had a teacher of its own, without a word."""

    def main():
        model = Taught()
        optimizer = torch.optim.SGD(model.student.parameters(), lr=0.1)
        run = joined(model, optimizer)
        model.load_state_dict(Taught().state_dict())
        for at in run(range(15)):
            optimizer.zero_grad()
            loss(model, *batch(at)).backward()
            optimizer.step()
            if changes in ("each step", "alone") or (changes == "late" and at == 12):
                model.follow()

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        main() if changes == "alone" else gaia.simulate(main, one)
    texts = [str(one.message) for one in said if "frozen" in str(one.message)]
    assert len(texts) == (changes == "each step"), texts
    for text in texts:
        assert text.startswith("teacher.0.weight was frozen at gaia.join(...), so it is not sent"), text


def test_a_parameter_that_is_not_of_the_module_is_refused(three):
    def more(model):
        other = nn.Parameter(torch.zeros(5, 2))
        other.grad = torch.ones(5, 2)
        return [torch.optim.SGD([*model.parameters(), other], lr=0.1)]

    with pytest.raises(gaia.GaiaError, match=r"trains a parameter of shape \(5, 2\) that is not of the module"):
        gaia.simulate(trained(lambda *_: None, more), three)


def test_an_optimizer_that_takes_the_place_of_the_one_that_has_joined_is_refused(three):
    def main():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = joined(model, optimizer)
        for at in run(range(10)):
            if at == 2:
                optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            loss(model, *batch(at)).backward()
            optimizer.step()

    with pytest.raises(gaia.GaiaError, match="another optimizer has made a step with parameters of the one of gaia.join"):
        gaia.simulate(main, three)
    # After a run, and without one, parameters are the script's own.
    torch.optim.SGD(net().parameters(), lr=0.1).step()


def test_an_optimizer_of_other_parameters_may_step_as_well(three):
    def two(model):
        return [torch.optim.SGD(part.parameters(), lr=0.1) for part in (model[2], model[0])]

    assert gaia.simulate(trained(lambda *_: None, two), three, set={"stop.clocks": 5})["copies_equal"]


def test_a_parameter_that_another_optimizer_trains_after_all_is_refused(three):
    """Each worker would train its own, and send none of it."""

    def two(model):
        model[0].requires_grad_(False)
        return [torch.optim.SGD(part.parameters(), lr=0.1) for part in (model[2], model[0])]

    with pytest.raises(gaia.GaiaError, match="0.weight was frozen at gaia.join.* expected it to need a gradient before"):
        gaia.simulate(trained(lambda model, _: model[0].requires_grad_(True), two), three)


def test_the_parameters_of_another_module_are_looked_for_once_in_the_one_that_has_joined(one, monkeypatch):
    looked, look = [], Trained._refuse_frozen
    monkeypatch.setattr(Trained, "_refuse_frozen", lambda self, found: looked.append(len(found)) or look(self, found))
    other = nn.Linear(6, 1)

    def two(model):
        loss(other, *batch(0)).backward()
        return [torch.optim.SGD(one.parameters(), lr=0.1) for one in (model, other)]

    def more(_, optimizers):
        added = nn.Parameter(torch.zeros(2))
        added.grad = torch.ones(2)
        optimizers[1].add_param_group({"params": added})

    before = other.weight.detach().clone()
    assert gaia.simulate(trained(more, two), one, set={"stop.clocks": 5})["copies_equal"]
    assert looked == [2, 1] and not torch.equal(before, other.weight)


def test_an_optimizer_of_another_module_is_refused(three):
    """It would make clocks in which nothing changes."""

    def before(model):
        return [torch.optim.SGD(net().parameters(), lr=0.1)]

    with pytest.raises(gaia.GaiaError, match="the optimizer has no parameter of the module.* expected an optimizer of this module"):
        gaia.simulate(trained(lambda *_: None, before), three)


@pytest.mark.parametrize("make", [lambda shared: shared, lambda shared: nn.Sequential(shared, nn.Linear(1, 1))], ids=["all", "a part"])
def test_a_module_that_several_workers_share_is_refused(three, make):
    """As one that a notebook builds outside of the function: each worker would train on values of the others."""
    shared = net()

    def main():
        model = make(shared)
        joined(model, torch.optim.SGD(model.parameters(), lr=0.1)).end()

    with pytest.raises(gaia.GaiaError, match=r"0(\.0)? of the module is that of another worker of this process, expected each worker to"):
        gaia.simulate(main, three)


def test_workers_may_share_what_none_of_them_trains(three):
    """As an activation that is the default of an argument, and a backbone that is frozen."""
    activation, frozen = nn.Tanh(), nn.Linear(6, 6).requires_grad_(False)

    def main():
        torch.manual_seed(0)
        model = nn.Sequential(frozen, activation, nn.Linear(6, 1))
        optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
        for at in (run := joined(model, optimizer))(range(1000)):
            optimizer.zero_grad()
            loss(model, *batch(at)).backward()
            optimizer.step()
        assert run.over

    assert gaia.simulate(main, three, set={"stop.clocks": 3})["copies_equal"]


def test_a_module_joins_again_after_a_run_that_has_failed(one):
    """The exception of the run that has failed keeps its run, as that of a cell of a notebook does."""
    model = net()

    def main(fails):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = joined(model, optimizer)
        for at in run(range(3)):
            if fails:
                raise LookupError("no data")
            loss(model, *batch(at)).backward()
            optimizer.step()

    with pytest.raises(LookupError) as failed:
        gaia.simulate(lambda: main(True), one)
    assert gaia.simulate(lambda: main(False), one)["stopped_by"] == "ended"
    assert failed.value.__traceback__ is not None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nn.LazyLinear(1), "weight is of a lazy module and has no shape yet, expected a forward pass before gaia.join"),
        (lambda: nn.Linear(6, 1, device="meta"), "weight is on the device meta and has no values, expected model.to_empty"),
        (lambda: [nn.Linear(6, 1)], "a value of type list, expected .* torch.nn.ModuleList may have several modules"),
    ],
)
def test_a_model_that_cannot_join_is_named(three, make, said):
    def main():
        model = make()
        parameters = model[0].parameters() if isinstance(model, list) else model.parameters()
        gaia.join(model, torch.optim.SGD(parameters, lr=0.1), evaluate=lambda model: 1.0)

    with pytest.raises(gaia.GaiaError, match=said) as raised:
        gaia.simulate(main, three)
    assert raised.value.exit_code == 2


def test_a_scheduler_is_no_optimizer():
    optimizer = torch.optim.SGD(net().parameters(), lr=0.1)
    with pytest.raises(gaia.GaiaError, match="but with a value of type StepLR, expected join"):
        gaia.join(net(), torch.optim.lr_scheduler.StepLR(optimizer, 1), evaluate=lambda model: 1.0)


def test_tensors_without_a_module_are_refused():
    """They would be copied, and come back as arrays: the script would train its own, and not those of the run."""
    with pytest.raises(gaia.GaiaError, match="0.weight is a tensor of torch, expected a torch.nn.Module and its optimizer"):
        gaia.join(net().state_dict(), evaluate=lambda model: 1.0)


def test_a_tensor_is_written_without_the_others(three, tmp_path):
    sizes = {}

    def main():
        model = net()
        run = joined(model, torch.optim.SGD(model.parameters(), lr=0.1))
        sizes[gaia.rank()] = [one.untyped_storage().nbytes() for one in model.parameters()]
        run.end()

    gaia.simulate(main, three)
    assert sizes[0] == [4 * one.numel() for one in net().parameters()]


def test_a_default_device_does_not_move_what_is_on_the_host(three):
    finals = {}

    def main():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with torch.device("meta"):
            run = gaia.join(model, optimizer, evaluate=lambda model: 1.0)
        for at in run(range(3)):
            loss(model, *batch(at)).backward()
            with torch.device("meta"):
                optimizer.step()
        finals[gaia.rank()] = model[0].weight.detach().clone()

    gaia.simulate(main, three)
    assert all(torch.equal(finals[0], final) for final in finals.values())


class Loader:
    """Says when its loop begins."""

    def __init__(self, name, begun):
        self.name, self.begun = name, begun

    def __iter__(self):
        self.begun.append(self.name)
        return iter([1, 2])


def test_a_loop_over_batches_begins_where_the_script_begins_it():
    model = net()
    run, begun = joined(model, torch.optim.SGD(model.parameters(), lr=0.1)), []
    pairs = zip(run(Loader("first", begun)), Loader("second", begun), strict=True)
    assert begun == ["first", "second"]
    assert list(pairs) == [(1, 1), (2, 2)]
    batches = run(Loader("by hand", begun))
    assert begun[2:] == [] and next(batches) == 1 and begun[2:] == ["by hand"]


TEXTS = ["a", "b"]


@pytest.mark.parametrize(
    "batch, examples",
    [
        (torch.zeros(32, 2), 32),
        ((TEXTS, torch.zeros(32)), 32),
        (collections.UserDict(ids=torch.zeros(32, 7)), 32),
        ({"weight": torch.tensor(1.0), "x": [torch.zeros(8)]}, 8),
        ((), 1),
        (TEXTS, 1),
    ],
)
def test_examples_are_counted_by_the_first_tensor_of_a_batch(batch, examples):
    assert _examples_of(batch) == examples


def test_processes_of_torchrun_form_a_group_before_they_join(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert inside() == (0, 1)
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(gaia.GaiaError, match="torchrun has started 2 processes.* expected torch.distributed.init_process_group"):
        gaia.rank()
