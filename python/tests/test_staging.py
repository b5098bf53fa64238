"""Copies between tensors of an accelerator and the buffer of the host.

The accelerator is a CPU whose streams only record what is asked of them, so these tests check the order and not the overlap.
"""

import contextlib

import pytest

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import gaia  # noqa: E402
import gaia._staging  # noqa: E402
from gaia._staging import Staging, host_buffer, parts_of, rounded_buffer  # noqa: E402


class Streams(TorchDispatchMode):
    """A device of two streams, and what was done in which order."""

    def __init__(self):
        super().__init__()
        self.done = []
        self.running = "compute"

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = op._overloadpacket._qualified_op_name.removeprefix("aten::")
        non_blocking = name == "_foreach_copy_" and args[2:] == (True,)
        self.done.append((self.running, name, non_blocking))
        return op(*args, **kwargs)

    def Stream(self, device):
        return Stream(self, "side")

    def Event(self):
        return Event(self)

    def current_stream(self, device):
        return Stream(self, "compute")

    @contextlib.contextmanager
    def stream(self, stream):
        before, self.running = self.running, stream.name
        yield
        self.running = before


class Stream:
    def __init__(self, streams, name):
        self.streams, self.name = streams, name

    def record_event(self, event=None):
        self.streams.done.append((self.name, "event"))
        event = event or self.streams.Event()
        event.of = self.name
        return event

    def wait_event(self, event):
        self.streams.done.append((self.name, "waits for", event.of))


class Event:
    def __init__(self, streams):
        self.streams = streams

    def synchronize(self):
        self.streams.done.append(("host", "waits for", self.of))


AFTER_COMPUTING = [("compute", "event"), ("side", "waits for", "compute")]
COPY = [("side", "_foreach_copy_", True)]


def staged(*dtypes):
    """Tensors of a device with these types, their staging, its streams, the buffer, and that of rounded values if one rounds."""
    streams = Streams()
    tensors = [torch.full((2, 3), 1.0 + at, dtype=dtype) for at, dtype in enumerate(dtypes)]
    flat, rounded = host_buffer(tensors).zero_(), rounded_buffer(tensors)
    staging = Staging(tensors, parts_of(flat, tensors), None if rounded is None else parts_of(rounded.zero_(), tensors), streams)
    return tensors, staging, streams, flat, rounded


def test_storing_waits_for_what_is_computed_and_the_host_for_the_copy():
    tensors, staging, streams, flat, rounded = staged(torch.float32, torch.float32)
    with streams:
        staging.store()
    assert streams.done == [*AFTER_COMPUTING, *COPY, ("side", "event"), ("host", "waits for", "side")]
    assert flat.tolist() == [1.0] * 6 + [2.0] * 6


def test_what_is_computed_waits_for_loading_and_the_host_does_not():
    tensors, staging, streams, flat, rounded = staged(torch.float32, torch.float32)
    flat.copy_(torch.arange(12.0))
    with streams:
        staging.load()
    assert streams.done == [*AFTER_COMPUTING, *COPY, ("side", "event"), ("compute", "waits for", "side")]
    assert torch.cat(tensors).flatten().tolist() == flat.tolist() and rounded is None


def test_what_tensors_of_fewer_bits_have_rounded_comes_back_before_anything_computes():
    tensors, staging, streams, flat, rounded = staged(torch.bfloat16, torch.float32, torch.float16)
    flat.fill_(1 / 3)
    with streams:
        staging.load()
    # The host converts nothing.
    assert streams.done == [*AFTER_COMPUTING, *COPY, *COPY, ("side", "event"), ("compute", "waits for", "side")]
    third = torch.tensor(1 / 3)
    assert flat.tolist() == [third.item()] * 18
    assert rounded.tolist() == [third.bfloat16().item()] * 6 + [third.item()] * 6 + [third.half().item()] * 6
    assert torch.cat([one.float().flatten() for one in tensors]).tolist() == rounded.tolist()


def test_a_module_of_an_accelerator_trains_in_a_run(three, monkeypatch):
    """Parameters of double precision are staged on CPUs, too. With streams the run is the same, to the bit."""

    def final(streams):
        finals, every = {}, []

        def main():
            torch.manual_seed(0)
            model = torch.nn.Linear(4, 1).double()
            x = torch.randn(8, 4, generator=torch.Generator().manual_seed(gaia.rank())).double()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            if streams:
                every.append(Streams())
                monkeypatch.setattr(gaia._staging, "_streams_of", lambda device, own=every[-1]: own)
            run = gaia.join(model, optimizer, evaluate=lambda model: model(x).square().mean().item())
            while not run.over:
                optimizer.zero_grad()
                (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
                optimizer.step()
            finals[gaia.rank()] = model.weight.detach().clone()

        result = gaia.simulate(main, three)
        assert result["copies_equal"] and all(torch.equal(finals[0], finals[rank]) for rank in range(6))
        assert all(("host", "waits for", "side") in one.done for one in every) and len(every) == 6 * streams
        return finals[0]

    assert torch.equal(final(streams=True), final(streams=False))


def test_tensors_of_a_device_are_staged_together():
    tensors = [torch.zeros(2, dtype=torch.float64), torch.zeros(2, device="meta"), torch.zeros(2)]
    assert [len(staging._tensors) for staging in Staging.of(tensors, torch.zeros(6))] == [2, 1]
