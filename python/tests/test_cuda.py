"""Models on a device of CUDA."""

import gc
import itertools
import json

import pytest
from conftest import EXAMPLES, write
from processes import Cluster, said

import gaia

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")

from gaia._staging import Staging, host_buffer, parts_of, rounded_buffer  # noqa: E402
from loops import batch, ended_alone, joined, loss, net, weights  # noqa: E402
from tables import check_rows_in_hand  # noqa: E402

nn = torch.nn
DEVICE = torch.device("cuda", 0)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: torch finds no device of CUDA")

#: What a device is busy with for about 0.2 s.
CYCLES = 400_000_000


def staged(*tensors):
    """The staging of these tensors, their parts of the buffer of the host, and their values as they have rounded them."""
    flat, rounded = host_buffer(tensors).zero_(), rounded_buffer(tensors)
    (staging,) = Staging.of(tensors, flat, rounded)
    return staging, parts_of(flat, tensors), parts_of(flat if rounded is None else rounded.zero_(), tensors)


def alike(found, expected):
    """Whether two tensors are equal to the bit, but for what kind of no number a value is."""
    is_equal = (found == expected) & (found.signbit() == expected.signbit())
    return bool((is_equal | (found.isnan() & expected.isnan())).all())


def values(seed):
    """Tensors in many forms: as matrices, images with their channels last, transposed, a scalar and none, and special values."""
    draws = torch.Generator().manual_seed(seed)
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-45, -1e-39, 3.4e38, 1 / 3, 65_520.0])
    image = torch.randn(4, 3, 16, 16, generator=draws).to(memory_format=torch.channels_last)
    shapes = [(1000, 300), (7,), (), (0, 4)]
    return [*(torch.randn(shape, generator=draws) for shape in shapes), image, torch.randn(5, 3, generator=draws).t(), special]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_what_is_stored_and_loaded_is_exact(dtype):
    first, second = ([one.to(dtype) for one in values(seed)] for seed in (0, 1))
    tensors = [one.to(DEVICE) for one in first]
    staging, parts, rounded = staged(*tensors)
    assert all(one.is_pinned() for one in (*parts, *rounded) if one.numel() > 0)
    staging.store()
    assert all(alike(part, one.float()) for part, one in zip(parts, first, strict=True))

    # What is loaded has more bits than the tensors.
    for part, one in zip(parts, values(1), strict=True):
        part.copy_(one)
    staging.load()
    torch.cuda.synchronize()
    assert all(alike(tensor.cpu(), one) for tensor, one in zip(tensors, second, strict=True))
    assert all(alike(part, one.float()) for part, one in zip(rounded, second, strict=True))
    assert all(alike(part, one) for part, one in zip(parts, values(1), strict=True)), "what was loaded"
    assert [one.stride() for one in tensors] == [one.stride() for one in first]


@pytest.fixture(params=["default", "own"])
def busy(request):
    """What makes the stream of the script busy: the default one, or one of its own."""
    stream = torch.cuda.default_stream() if request.param == "default" else torch.cuda.Stream()
    with torch.cuda.stream(stream):
        # What is loaded at its first use waits for the device.
        torch.cuda._sleep(1)
        yield lambda: torch.cuda._sleep(CYCLES)
        torch.cuda.synchronize()


def test_what_is_computed_before_storing_is_stored(busy):
    tensor = torch.zeros(1 << 22, device=DEVICE)
    staging, (flat,), _ = staged(tensor)
    for count in range(1, 6):
        busy()
        tensor.add_(1)
        staging.store()
        assert (flat == count).all(), count


def test_what_is_computed_after_loading_waits_for_it_and_the_host_does_not(busy):
    tensor = torch.zeros(1 << 22, device=DEVICE)
    staging, (flat,), _ = staged(tensor)
    staging.load()
    before, after = tensor.clone(), tensor * 2
    # A copy that is under way may take what is written next.
    torch.cuda.synchronize()
    for count in range(1, 6):
        flat.fill_(count)
        busy()
        before.copy_(tensor)
        staging.load()
        torch.mul(tensor, 2, out=after)
        assert not torch.cuda.current_stream().query(), "the host has waited"
        torch.cuda.synchronize()
        assert (before == count - 1).all() and (after == 2 * count).all(), count


def peak(dtype, join):
    """The most memory that five steps of a model of 24 MB in single precision take on the device."""
    # What earlier ones have left would be missed while it goes.
    gc.collect()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(24))).to(DEVICE, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in join(model, optimizer)(range(5)):
        for one in model.parameters():
            one.grad = torch.ones_like(one)
        optimizer.step()
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize("dtype, tensors", [(torch.float32, 0), (torch.bfloat16, 1)])
def test_no_copy_of_the_model_is_added_to_the_memory_of_the_device(one, dtype, tensors):
    """Of fewer bits it takes the memory of one tensor while that is converted."""
    found = []

    def main():
        found.append(peak(dtype, lambda model, optimizer: gaia.join(model, optimizer, evaluate=lambda model: 1.0)))

    gaia.simulate(main, one)
    plain = peak(dtype, lambda model, optimizer: lambda batches: batches)
    assert found[0] - plain <= tensors * 4 * 512 * 512, (found, plain)


def test_alone_nothing_changes_to_the_bit():
    def trained(join):
        model = net(DEVICE)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        addresses = [one.data_ptr() for one in model.parameters()]
        for x, y in join(model, optimizer)([batch(at, device=DEVICE) for at in range(20)]):
            optimizer.zero_grad()
            loss(model, x, y).backward()
            optimizer.step()
        assert [one.data_ptr() for one in model.parameters()] == addresses
        return weights(model)

    assert torch.equal(trained(joined), trained(lambda model, optimizer: lambda batches: batches))


def trains_regions(finals, dtype=torch.float32):
    """A script with statistics and random numbers of the device, whose initial values the device has drawn as well."""

    def main():
        layers = [nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.1), nn.Tanh(), nn.Linear(16, 1)]
        model = nn.Sequential(*layers).to(DEVICE, dtype)
        for one in model.parameters():
            nn.init.normal_(one, std=0.3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        batches = ([one.to(dtype) for one in batch(at % 50, gaia.rank(), DEVICE)] for at in itertools.count())
        x, y = (one.to(dtype) for one in batch(99, device=DEVICE))

        @torch.no_grad()
        def evaluate(model):
            return loss(model.eval(), x, y).item()

        for x_of_batch, y_of_batch in gaia.join(model, optimizer, evaluate=evaluate)(batches):
            optimizer.zero_grad()
            loss(model, x_of_batch, y_of_batch).backward()
            optimizer.step()
        assert model.training
        finals[gaia.rank()] = {name: one.clone() for name, one in model.state_dict().items() if one.is_floating_point()}

    return main


def check_regions(result, finals, workers=6):
    assert result["copies_equal"] and len(finals) == workers
    for name, value in finals[0].items():
        assert value.device == DEVICE and value.isfinite().all()
        assert all(torch.equal(value, finals[rank][name]) for rank in range(workers)), name
    assert result["objective"] < 0.8 * result.progress[0]["objective"], result["objective"]


@pytest.mark.parametrize("remote", ["bsp", "asp", "local-steps"])
def test_regions_have_equal_weights_in_the_end(three, remote):
    finals = {}
    settings = {"sync.remote.model": remote, "stop.clocks": 60}
    check_regions(gaia.simulate(trains_regions(finals), three, set=settings), finals)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_regions_have_equal_weights_of_fewer_bits(three, dtype):
    finals = {}
    check_regions(gaia.simulate(trains_regions(finals, dtype), three, set={"stop.clocks": 60}), finals)


def test_an_emulated_run_has_equal_weights_in_the_end(three):
    finals = {}
    check_regions(gaia.simulate(trains_regions(finals), three, set={"stop.clocks": 60}, driver="emulated"), finals)


def test_a_simulated_run_repeats_to_the_bit(three):
    """Weights that no script has seeded, and dropout."""
    finals = [{}, {}]
    results = [gaia.simulate(trains_regions(own), three, set={"sync.remote.model": "asp"}) for own in finals]
    assert results[0].progress == results[1].progress
    assert all(torch.equal(one, finals[1][0][name]) for name, one in finals[0][0].items())


def test_each_worker_has_its_own_random_numbers_of_a_device(three):
    """They do not depend on others, nor on evaluations."""
    drawn = {}

    def main(evaluates):
        def evaluate(model):
            return torch.rand((), device=DEVICE).item() if evaluates else 0.0

        model = nn.Linear(3, 1).to(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = gaia.join(model, optimizer, evaluate=evaluate)
        own = drawn.setdefault((evaluates, gaia.rank()), [])
        while not run.over:
            own.append(torch.rand((), device=DEVICE).item())
            optimizer.step()

    for evaluates in (False, True):
        gaia.simulate(lambda evaluates=evaluates: main(evaluates), three)
    assert len(set(drawn[True, 0])) == len(drawn[True, 0]) >= 20
    for rank in range(6):
        assert drawn[False, rank] == drawn[True, rank] == drawn[True, 0], rank


def test_a_module_may_be_on_several_devices(three):
    finals = {}

    class Both(nn.Module):
        """The first layer is on the host, which a run reads where it is."""

        def __init__(self):
            super().__init__()
            self.first, self.last = net()[0], net()[2].to(DEVICE)

        def forward(self, x):
            return self.last(self.first(x.cpu()).tanh().to(DEVICE))

    def main():
        model = Both()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        run = joined(model, optimizer)
        for at in run(range(1000)):
            optimizer.zero_grad()
            (model(batch(at)[0]) - batch(at, device=DEVICE)[1]).square().mean().backward()
            optimizer.step()
        finals[gaia.rank()] = model.state_dict()

    def joined(model, optimizer):
        return gaia.join(model, optimizer, evaluate=lambda model: 1.0)

    assert gaia.simulate(main, three)["copies_equal"]
    assert all(torch.equal(one.cpu(), finals[5][name].cpu()) for name, one in finals[0].items())


def test_half_precision_scaling_clipping_and_accumulation(one):
    """A batch that overflows makes no clock."""

    def train(model, join):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
        run = join(model, optimizer)
        for at in itertools.count():
            if run.over:
                assert at > run.clock
                return run.clock
            overflows, before = at % 3 == 2, run.clock
            optimizer.zero_grad()
            for part in range(2):
                x, y = batch(2 * at + part, device=DEVICE)
                with torch.autocast("cuda", dtype=torch.float16):
                    found = loss(model, x, y * float("inf") if overflows else y)
                scaler.scale(found / 2).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            assert (run.clock > before or run.over) == (not overflows)

    # Half precision rounds what differs in the last bit of single precision.
    ended_alone(one, train, within=1e-3, device=DEVICE)


def test_a_batch_that_a_fused_optimizer_skips_changes_nothing(one):
    """Its kernel skips the batch, which only the device knows. So it makes a clock, of no change."""

    def train(model, join):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
        scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
        run = join(model, optimizer)
        for at in itertools.count():
            if run.over:
                assert at == run.clock
                return run.clock
            x, y = batch(at, device=DEVICE)
            overflows, before = at % 3 == 2, weights(model)
            optimizer.zero_grad()
            scaler.scale(loss(model, x, y * float("inf") if overflows else y)).backward()
            scaler.step(optimizer)
            scaler.update()
            assert torch.allclose(weights(model), before, atol=1e-6) == overflows

    ended_alone(one, train, device=DEVICE)


OPTIMIZERS = {
    "momentum, fused": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True, fused=True),
    "Adam, fused": lambda parameters: torch.optim.Adam(parameters, lr=0.01, fused=True),
    "AdamW, capturable": lambda parameters: torch.optim.AdamW(parameters, lr=torch.tensor(0.01, device=DEVICE), capturable=True),
}


def steps(model, run, optimizer, forward=None):
    """Trains until a run is over, and returns its clock."""
    for at in itertools.count():
        if run.over:
            return run.clock
        optimizer.zero_grad()
        loss(forward or model, *batch(at, device=DEVICE)).backward()
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_state_of_an_optimizer_stays_on_the_device(one, name):
    def train(model, join):
        optimizer = OPTIMIZERS[name](model.parameters())
        return steps(model, join(model, optimizer), optimizer)

    ended_alone(one, train, device=DEVICE)


def test_a_module_is_compiled_for_the_device(one):
    pytest.importorskip("triton", reason="skipped: triton is not installed")

    def train(model, join):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        run = join(model, optimizer)
        return steps(model, run, optimizer, torch.compile(model))

    ended_alone(one, train, device=DEVICE)


def test_a_graph_that_was_captured_computes_with_what_was_loaded(one):
    def train(model, join):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        run = join(model, optimizer)
        x, y = batch(0, device=DEVICE)
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            loss(model, x, y).backward()
        torch.cuda.current_stream().wait_stream(side)
        optimizer.zero_grad()
        with torch.cuda.graph(graph):
            loss(model, x, y).backward()
        while not run.over:
            for input, new in zip((x, y), batch(run.clock, device=DEVICE), strict=True):
                input.copy_(new)
            graph.replay()
            optimizer.step()
        return run.clock

    ended_alone(one, train, device=DEVICE)


def test_rows_of_tables_of_the_device(three):
    """Those that a worker holds alone are those of the whole table."""
    finals = check_rows_in_hand(three, device=DEVICE)
    assert all(one.device == DEVICE for final in finals.values() for one in final[:2])


#: A script of a real run.
REAL = """
import os
import gaia, torch
from loops import batch, joined, loss, net

model = net("cuda:0")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, fused=True)
run = joined(model, optimizer)
for at in run(range(10**9)):
    optimizer.zero_grad()
    loss(model, *batch(at % 50, gaia.rank(), "cuda:0")).backward()
    optimizer.step()
run.end()
run.save(f"{os.environ['GAIA_DC']}.safetensors")
assert torch.cuda.memory_allocated() > 0
"""


def ended_well(cluster, nodes):
    """What the processes of a run have written, which has gone well."""
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0] * len(nodes), texts
    summary = json.loads((cluster.folder / "out" / "summary.json").read_text())
    assert summary["copies_equal"]
    progress = [json.loads(line) for line in (cluster.folder / "out" / "progress.jsonl").read_text().splitlines()]
    assert summary["objective"] < 0.8 * progress[0]["objective"], summary["objective"]
    return [out for out, _ in texts[1:]]


@pytest.mark.parametrize("remote", ["asp", "local-steps"])
def test_data_centers_with_a_device_have_equal_weights(tmp_path, remote):
    safetensors = pytest.importorskip("safetensors.torch", reason="skipped: safetensors is not installed")
    cluster, script = Cluster(tmp_path, clocks=100, remote=remote), write(tmp_path / "script.py", REAL)
    ended_well(cluster, [cluster.coordinator(script), *(cluster.worker(script, dc) for dc in ("east", "west"))])
    east, west = (safetensors.load_file(tmp_path / f"{dc}.safetensors") for dc in ("east", "west"))
    assert all(torch.equal(east[name], west[name]) for name in east)


#: The first of several processes of DDP, without the others.
FIRST_OF_SEVERAL = """
import gaia, gaia._torch
gaia._torch.inside = lambda: (0, 2)
gaia._torch.check_sharding = lambda *_: None
"""

#: For an example: how many processes share the device in each data center, and what replaces parts of it. NCCL refuses two
#: processes on a device.
GROUPS = {
    "nccl": (1, {}),
    "nccl, the first of several": (1, {"\nimport gaia\n": FIRST_OF_SEVERAL}),
    "gloo": (2, {'"nccl" if device.type == "cuda" else "gloo"': '"gloo"', 'int(os.environ["LOCAL_RANK"])': "0"}),
}


@pytest.mark.parametrize("example, group", [*(("ddp", group) for group in GROUPS), ("fsdp", "nccl")])
def test_processes_of_a_data_center_with_a_device_have_equal_weights(tmp_path, example, group):
    processes, changes = GROUPS[group]
    text = (EXAMPLES / f"{example}.py").read_text()
    for part, other in changes.items():
        assert text.count(part) == 1, part
        text = text.replace(part, other)
    script = write(tmp_path / "script.py", text)
    cluster = Cluster(tmp_path, clocks=60, workers=processes if example == "fsdp" else 1)
    nodes = [cluster.coordinator(script)]
    for dc in ("east", "west"):
        nodes += cluster.torchrun(script, dc, processes, CUDA_VISIBLE_DEVICES="0")
    checksums = [out.split("checksum")[1] for out in ended_well(cluster, nodes)]
    assert len(checksums) == 2 * processes and len(set(checksums)) == 1, checksums
