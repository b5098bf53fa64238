"""What stays the user's in a loop of torch: scaling, accumulation, closures, compilation, checkpoints."""

import copy
import itertools

import pytest

import gaia

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")

from loops import batch, ended_alone, joined, loss, net, weights  # noqa: E402

nn = torch.nn
torch.set_num_threads(1)


def test_an_overflowing_batch_of_a_scaler_makes_no_clock(one):
    """`GradScaler.step` leaves out `optimizer.step` where a gradient is not finite."""

    def train(model, join):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        run = join(model, optimizer)
        skipped = 0
        for at in itertools.count():
            if run.over:
                assert skipped >= 2
                return run.clock
            x, y = batch(at)
            if at % 3 == 2:
                y = y * float("inf")
            optimizer.zero_grad()
            before = run.clock
            scaler.scale(loss(model, x, y)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            assert (run.clock > before or run.over) == (at % 3 != 2)
            skipped += at % 3 == 2

    ended_alone(one, train)


def test_a_clock_is_a_step_however_many_batches_it_accumulates(one):
    def train(model, join):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        run = join(model, optimizer)
        batches = map(batch, itertools.count())
        while not run.over:
            for _ in range(4):
                (loss(model, *next(batches)) / 4).backward()
            optimizer.step()
            optimizer.zero_grad()
        return run.clock

    ended_alone(one, train)


def test_a_closure_is_called_as_often_as_the_optimizer_likes(one):
    """L-BFGS evaluates its closure several times a step, and moves the parameters between."""
    calls = []

    def train(model, join):
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
        run = join(model, optimizer)

        def closure():
            calls.append(run.clock)
            optimizer.zero_grad()
            found = loss(model, *batch(run.clock % 3))
            found.backward()
            return found

        while not run.over:
            optimizer.step(closure)
        return run.clock

    # Its quotients of small differences amplify the rounding of each clock.
    ended_alone(one, train, within=1e-3)
    assert len(calls) > 2 * len(set(calls))


def test_a_scheduler_that_looks_at_the_loss_is_the_users(one):
    def train(model, join):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=1.0)
        run = join(model, optimizer)
        while not run.over:
            optimizer.zero_grad()
            found = loss(model, *batch(0))
            found.backward()
            optimizer.step()
            scheduler.step(found.item())
        assert optimizer.param_groups[0]["lr"] < 0.1
        return run.clock

    ended_alone(one, train)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_module_is_compiled_after_joining(one, backend):
    def train(model, join):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        run = join(model, optimizer)
        compiled = torch.compile(model, backend=backend)
        for at in itertools.count():
            if run.over:
                return run.clock
            optimizer.zero_grad()
            loss(compiled, *batch(at)).backward()
            optimizer.step()

    ended_alone(one, train)


def test_the_workers_own_state_is_saved_and_loaded(three, tmp_path):
    """With `torch.save`, in the middle of a run: model, optimizer and scheduler, and the numbers go on."""
    finals = {}

    def main():
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
        run = joined(model, optimizer)
        path = tmp_path / f"state-{gaia.rank()}.pt"
        while not run.over:
            optimizer.zero_grad()
            loss(model, *batch(run.clock, gaia.rank())).backward()
            optimizer.step()
            scheduler.step()
            if run.clock == 5 and not run.over:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "clock": run.clock}, path)
                saved = torch.load(path)
                assert torch.equal(saved["model"]["0.weight"], model[0].weight) and saved["clock"] == 5
                # Other values in the place of the model's, and back: `load_state_dict` writes where the run reads.
                model.load_state_dict(copy.deepcopy(net().state_dict()))
                model.load_state_dict(saved["model"])
                optimizer.load_state_dict(saved["optimizer"])
        finals[gaia.rank()] = weights(model)

    gaia.simulate(main, three)
    assert all(torch.equal(finals[0], finals[rank]) for rank in range(6)) and len(list(tmp_path.glob("state-*"))) == 6


def test_values_that_are_loaded_after_joining_are_a_change_like_any_other(one):
    loaded, found = net(), {}
    nn.init.constant_(loaded[0].weight, 0.25)

    def main():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        run = joined(model, optimizer)
        model.load_state_dict(loaded.state_dict())
        while not run.over:
            optimizer.zero_grad()
            loss(model, *batch(0)).backward()
            optimizer.step()
        found["weights"] = weights(model)

    gaia.simulate(main, one)
    assert torch.allclose(found["weights"], weights(loaded), atol=1e-6)


def test_distributed_checkpoints_hold_what_the_worker_has(one, tmp_path):
    checkpoint = pytest.importorskip("torch.distributed.checkpoint", reason="skipped: torch has no distributed checkpoints")
    found = {}

    def main():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        run = joined(model, optimizer)
        while not run.over:
            optimizer.zero_grad()
            loss(model, *batch(run.clock)).backward()
            optimizer.step()
            if run.clock == 5 and not run.over:
                checkpoint.save({"model": model.state_dict()}, checkpoint_id=tmp_path / "dcp", no_dist=True)
                other = net()
                state = {"model": other.state_dict()}
                checkpoint.load(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
                other.load_state_dict(state["model"])
                found["equal"] = torch.equal(weights(other), weights(model))

    gaia.simulate(main, one)
    assert found == {"equal": True}


@pytest.mark.parametrize("dtype, change", [(torch.float32, "half"), (torch.float32, "bfloat16"), (torch.bfloat16, "float")])
def test_a_model_that_is_converted_after_joining_is_refused(one, dtype, change):
    def main():
        model = net().to(dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        joined(model, optimizer) if dtype == torch.float32 else gaia.join(model, optimizer, evaluate=lambda model: 1.0)
        getattr(model, change)()
        optimizer.step()

    with pytest.raises(gaia.GaiaError, match="0.weight was moved or converted after gaia.join.*join last"):
        gaia.simulate(main, one)


@pytest.mark.parametrize("joins", ["generator", "judge"])
def test_a_graph_from_before_an_exchange_is_an_error_and_not_a_wrong_gradient(three, joins):
    """The loop of a GAN keeps the graph of the generator over the step of the judge. So the optimizer joins whose step comes
    last."""

    def main():
        model = nn.ModuleDict({"generator": net(), "judge": nn.Sequential(nn.Linear(1, 8), nn.Linear(8, 1))})
        optimizers = {name: torch.optim.SGD(part.parameters(), lr=0.01) for name, part in model.items()}
        run = gaia.join(model, optimizers[joins], evaluate=lambda model: 1.0)
        while not run.over:
            made = model["generator"](batch(run.clock, gaia.rank())[0])
            optimizers["judge"].zero_grad()
            model["judge"](made.detach()).square().mean().backward()
            optimizers["judge"].step()
            optimizers["generator"].zero_grad()
            (model["judge"](made) - 1).square().mean().backward()
            optimizers["generator"].step()

    settings = {"stop.clocks": 4}
    if joins == "generator":
        assert gaia.simulate(main, three, set=settings)["copies_equal"]
        return
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gaia.simulate(main, three, set=settings)


def test_statistics_that_were_measured_in_the_inference_mode_join(three):
    def main():
        model = nn.BatchNorm1d(6)
        with torch.inference_mode():
            model.running_mean = model.running_mean + 0.5
        run = gaia.join(model, torch.optim.SGD(model.parameters(), lr=0.1), evaluate=lambda model: 1.0)
        run.end()
        assert torch.equal(model.running_mean, torch.full((6,), 0.5))

    assert gaia.simulate(main, three)["copies_equal"]
