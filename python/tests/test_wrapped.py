"""Modules that are compiled or wrapped before they join."""

import pytest

import gaia

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")

from loops import batch, joined, judge, loss, net, weights  # noqa: E402

nn = torch.nn
torch.set_num_threads(1)


def normed():
    """A module with statistics, which DDP would broadcast."""
    model = net()
    model.insert(1, nn.BatchNorm1d(8))
    return model


def saved(run, path):
    safetensors = pytest.importorskip("safetensors.torch", reason="skipped: safetensors is not installed")
    run.save(path)
    return safetensors.load_file(path)


def test_a_compiled_module_that_trains_alone_is_saved_by_its_own_names(tmp_path):
    model = normed()
    compiled = torch.compile(model, backend="eager")
    run = joined(compiled, torch.optim.SGD(model.parameters(), lr=0.1))
    tensors = saved(run, tmp_path / "model.safetensors")
    missing, unexpected = normed().load_state_dict(tensors, strict=False)
    assert tensors and unexpected == [] and set(missing) <= {"1.num_batches_tracked"}


def test_a_compiled_module_joins_by_its_own_names_and_is_evaluated_as_it_is(three, tmp_path):
    finals, judged = {}, set()

    def main():
        model = normed()
        compiled = torch.compile(model, backend="eager")
        optimizer = torch.optim.SGD(compiled.parameters(), lr=0.05)

        @torch.no_grad()
        def evaluate(given):
            given.eval()
            judged.add(given is compiled)
            return judge(given)

        run = gaia.join(compiled, optimizer, evaluate=evaluate)
        while not run.over:
            optimizer.zero_grad()
            loss(compiled, *batch(run.clock, gaia.rank())).backward()
            optimizer.step()
        assert all(one.training for one in (compiled, *model.modules()))
        finals[gaia.rank()] = weights(model)
        tensors = saved(run, tmp_path / f"{gaia.rank()}.safetensors")
        missing, unexpected = normed().load_state_dict(tensors, strict=False)
        assert unexpected == [] and set(missing) <= {"1.num_batches_tracked"}

    result = gaia.simulate(main, three, set={"stop.clocks": 6})
    assert result["copies_equal"] and judged == {True}
    assert all(torch.equal(finals[0], final) for final in finals.values())
    safetensors = pytest.importorskip("safetensors.torch", reason="skipped: safetensors is not installed")
    _, unexpected = normed().load_state_dict(safetensors.load_file(result.directory / "model.safetensors"), strict=False)
    assert unexpected == []


def test_ddp_and_data_parallel_wrap_what_has_joined():
    distributed = pytest.importorskip("torch.distributed", reason="skipped: torch has no torch.distributed")
    if not distributed.is_available():
        pytest.skip("skipped: torch has no torch.distributed")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        wrapped = nn.parallel.DistributedDataParallel(model)
        order = r"expected to join before it is wrapped: run = .* and then model = DistributedDataParallel\(net\)"
        for name, outer in (
            ("the module", wrapped),
            ("the module", torch.compile(wrapped, backend="eager")),
            ("0 of the module", nn.Sequential(wrapped, nn.Tanh())),
        ):
            with pytest.raises(gaia.GaiaError, match=f"^{name} is a DistributedDataParallel, which renames .*{order}") as raised:
                joined(outer, optimizer)
            assert raised.value.exit_code == 2
        with pytest.raises(gaia.GaiaError, match=r"the module is a DataParallel, .* and then model = DataParallel\(net\)"):
            joined(nn.DataParallel(net()), optimizer)
        # In this order it works.
        run = joined(model, optimizer)
        loss(wrapped, *batch(0)).backward()
        optimizer.step()
        assert run.clock == 1
    finally:
        distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore")
def test_fsdp1_is_refused_before_and_inside_a_module():
    distributed = pytest.importorskip("torch.distributed", reason="skipped: torch has no torch.distributed")
    if not distributed.is_available():
        pytest.skip("skipped: torch has no torch.distributed")
    fsdp = pytest.importorskip("torch.distributed.fsdp", reason="skipped: torch has no torch.distributed.fsdp")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        wrapped = fsdp.FullyShardedDataParallel(net(), device_id=torch.device("cpu"))
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        instead = r"is a FullyShardedDataParallel \(FSDP1\), .* expected FSDP2: .*fully_shard\(net\), .*sharded=True\)"
        for name, outer in (("the module", wrapped), ("0", nn.Sequential(wrapped, nn.Tanh()))):
            for sharded in (False, True):
                with pytest.raises(gaia.GaiaError, match=f"^{name} {instead}") as raised:
                    joined(outer, optimizer, sharded=sharded)
                assert raised.value.exit_code == 2
    finally:
        distributed.destroy_process_group()
