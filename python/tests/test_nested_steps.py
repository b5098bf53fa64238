"""Optimizers whose step calls another one: of another optimizer, or of the class that they extend."""

import itertools

import pytest

import gaia

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")

from loops import batch, ended_alone, joined, loss, net, weights  # noqa: E402

torch.set_num_threads(1)


class Shrinking(torch.optim.SGD):
    """Has more to do after the step that it extends."""

    def step(self, closure=None):
        super().step(closure)
        with torch.no_grad():
            for group in self.param_groups:
                torch._foreach_mul_(group["params"], 0.99)


class Lookahead(torch.optim.Optimizer):
    """Two steps of another optimizer, and half a step back."""

    def __init__(self, inner):
        self.inner, self.made = inner, 0
        super().__init__(inner.param_groups, {})
        self.slow = [one.detach().clone() for group in self.param_groups for one in group["params"]]

    @torch.no_grad()
    def step(self, closure=None):
        self.inner.step(closure)
        self.made += 1
        if self.made % 2 == 0:
            fast = [one for group in self.param_groups for one in group["params"]]
            torch._foreach_lerp_(self.slow, fast, 0.5)
            torch._foreach_copy_(fast, self.slow)


def shrinking(parameters):
    # torch calls hooks in the steps of a class once there is an optimizer of just that class.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    return Shrinking(parameters, lr=0.05)


def step(model, optimizer, at, rank=0):
    optimizer.zero_grad()
    loss(model, *batch(at, rank)).backward()
    optimizer.step()


def test_a_step_that_calls_the_one_it_extends_is_one_clock_and_whole(one):
    found = {}

    def main():
        model = net()
        optimizer = shrinking(model.parameters())
        run = joined(model, optimizer)
        while not run.over:
            before = run.clock
            step(model, optimizer, before)
            assert run.clock == before + 1 or run.over
        found[run.clock] = weights(model)

    gaia.simulate(main, one, set={"stop.clocks": 6})
    model = net()
    optimizer = shrinking(model.parameters())
    ((clocks, trained),) = found.items()
    for at in range(clocks):
        step(model, optimizer, at)
    assert (weights(model) - trained).abs().max() < 1e-5


def test_an_optimizer_that_has_another_one_make_its_steps_joins(one):
    def train(model, join):
        optimizer = Lookahead(torch.optim.SGD(model.parameters(), lr=0.05))
        run = join(model, optimizer)
        for at in itertools.count():
            if run.over:
                return run.clock
            step(model, optimizer, at)

    ended_alone(one, train)


def test_data_centers_agree_on_what_such_an_optimizer_makes(three):
    finals = {}

    def main():
        model = net()
        optimizer = Lookahead(shrinking(model.parameters()))
        run = joined(model, optimizer)
        while not run.over:
            step(model, optimizer, run.clock, gaia.rank())
        finals[gaia.rank()] = weights(model)

    assert gaia.simulate(main, three)["copies_equal"]
    assert all(torch.equal(finals[0], final) for final in finals.values())


@pytest.mark.parametrize("is_compiled_before", [False, True])
@pytest.mark.parametrize(
    "make",
    [shrinking, lambda p: Lookahead(torch.optim.SGD(p, lr=0.05)), lambda p: Lookahead(shrinking(p))],
    ids=["super", "outer", "both"],
)
def test_a_compiled_step_is_one_clock_and_whole(one, make, is_compiled_before):
    torch.compiler.reset()
    found = {}

    def main():
        model = net()
        optimizer = make(model.parameters())
        before_join = torch.compile(optimizer.step, backend="eager")
        run = joined(model, optimizer)
        compiled = before_join if is_compiled_before else torch.compile(optimizer.step, backend="eager")
        while not run.over:
            before = run.clock
            optimizer.zero_grad()
            loss(model, *batch(before)).backward()
            compiled()
            assert run.clock == before + 1 or run.over
        found[run.clock] = weights(model)

    gaia.simulate(main, one, set={"stop.clocks": 6})
    ((clocks, trained),) = found.items()
    plain = net()
    optimizer = make(plain.parameters())
    for at in range(clocks):
        step(plain, optimizer, at)
    assert (weights(plain) - trained).abs().max() < 1e-5


def test_a_step_in_a_compiled_function_is_one_clock():
    torch.compiler.reset()
    model = net()
    optimizer = shrinking(model.parameters())
    run = joined(model, optimizer)
    whole = torch.compile(lambda at: step(model, optimizer, at), backend="eager")
    for at in range(3):
        whole(at)
        assert run.clock == at + 1


def test_a_step_that_fails_is_no_clock_and_the_next_one_is():
    class Failing(Shrinking):
        fails = False

        def step(self, closure=None):
            super().step(closure)
            if self.fails:
                raise ArithmeticError("not this one")

    model = net()
    shrinking(model.parameters())
    optimizer = Failing(model.parameters(), lr=0.05)
    run = joined(model, optimizer)
    clocks = []
    for optimizer.fails in (False, True, True, False, False):
        try:
            step(model, optimizer, 0)
        except ArithmeticError:
            pass
        clocks.append(run.clock)
    assert clocks == [1, 1, 1, 2, 3]


def test_the_outer_one_of_two_optimizers_has_to_join(three):
    def main():
        model = net()
        inner = torch.optim.SGD(model.parameters(), lr=0.05)
        outer = Lookahead(inner)
        run = joined(model, inner)
        while not run.over:
            step(model, outer, run.clock)

    with pytest.raises(gaia.GaiaError, match="another optimizer has made a step.* the steps of the other, the outer one joins"):
        gaia.simulate(main, three)


def test_an_optimizer_whose_state_is_shared_among_processes_joins(one):
    distributed = pytest.importorskip("torch.distributed", reason="skipped: torch has no torch.distributed")
    optimizers = pytest.importorskip("torch.distributed.optim", reason="skipped: torch has no ZeroRedundancyOptimizer")
    if not distributed.is_available() or not hasattr(optimizers, "ZeroRedundancyOptimizer"):
        pytest.skip("skipped: torch has no ZeroRedundancyOptimizer")

    def train(model, join):
        optimizer = optimizers.ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
        run = join(model, optimizer)
        for at in itertools.count():
            if run.over:
                return run.clock
            step(model, optimizer, at)

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        ended_alone(one, train)
    finally:
        distributed.destroy_process_group()
