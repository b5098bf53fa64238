"""Steps that change every parameter, and the processor time that one takes: the script that ``sync.py`` starts.

A gradient is a view of random numbers that were drawn before, so a step costs one pass over the parameters. What is measured
is the time of all threads of the process, between two steps in the middle of the run: neither the start nor the end counts.
With a device of CUDA all tensors are there, and times are taken once it has done what it was told.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import torch

SYSTEM = os.environ["BENCH_SYSTEM"]
PARAMETERS = int(os.environ["BENCH_PARAMETERS"])
WARM_UP, STEPS, AFTER = (int(os.environ[f"BENCH_{name}"]) for name in ("WARM_UP", "STEPS", "AFTER"))
STEPS_PER_CLOCK = int(os.environ.get("BENCH_STEPS_PER_CLOCK", "1"))
RANK = int(os.environ.get("BENCH_RANK", "0"))
DEVICE = torch.device(os.environ.get("BENCH_DEVICE", "cpu"))
#: How many steps are from one synchronisation to the next, where not every step ends with one.
EVERY = int(os.environ.get("BENCH_EVERY", "16"))

#: A tensor has as many parameters, or all where there are fewer.
TENSOR = 1_000_000
#: How far apart two gradients are in the numbers that were drawn.
SHIFTS = 65_536


class Steps(torch.nn.Module):
    """Tensors of 1,000 columns."""

    def __init__(self) -> None:
        super().__init__()
        counts = [min(TENSOR, PARAMETERS - at) for at in range(0, PARAMETERS, TENSOR)]
        self.tensors = torch.nn.ParameterList(torch.randn(count // 1000, 1000, device=DEVICE) * 0.05 for count in counts)


class Training:
    """A model whose gradients cost nothing, and plain SGD."""

    def __init__(self, rank: int) -> None:
        torch.manual_seed(0)
        self.model = Steps()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, foreach=True)
        torch.manual_seed(1 + rank)
        self._drawn = torch.randn(PARAMETERS + SHIFTS, device=DEVICE)
        self._step = 0

    def gradients(self) -> torch.Tensor:
        """The gradients of a step, one tensor after the other, which are those of the parameters."""
        self._step += 1
        start = self._step * 4099 % SHIFTS
        flat, offset = self._drawn[start : start + PARAMETERS], 0
        for parameter in self.model.parameters():
            parameter.grad = flat[offset : offset + parameter.numel()].view_as(parameter)
            offset += parameter.numel()
        return flat


class Measurement:
    """The processor time and the time between two steps, and the time of a step between two synchronisations."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, float]] = []
        #: When the second step after a synchronisation began.
        self._second: float | None = None
        #: The times from there to the step that ends with the next synchronisation.
        self._between: list[float] = []

    def steps(self) -> Iterator[int]:
        """The numbers of all steps."""
        for step in range(WARM_UP + STEPS + AFTER):
            if step in (WARM_UP, WARM_UP + STEPS):
                wait_for_device()
                self._marks.append((time.process_time(), time.perf_counter()))
            if WARM_UP <= step < WARM_UP + STEPS and step % EVERY in (1, EVERY - 1):
                wait_for_device()
                self._mark_between(step % EVERY == 1)
            yield step

    def _mark_between(self, is_second: bool) -> None:
        now = time.perf_counter()
        if is_second:
            self._second = now
        elif self._second is not None:
            self._between.append(now - self._second)

    def write(self) -> None:
        """Writes what was measured to a file of this process's name."""
        (cpu, wall), (cpu_after, wall_after) = self._marks
        usage = resource.getrusage(resource.RUSAGE_SELF)
        found = {
            "cpu_ms": (cpu_after - cpu) / STEPS * 1e3,
            "wall_ms": (wall_after - wall) / STEPS * 1e3,
            "between_ms": statistics.median(self._between) / (EVERY - 2) * 1e3 if self._between else 0.0,
            "peak_bytes": peak_bytes() or usage.ru_maxrss * 1024,
            "device_bytes": torch.cuda.max_memory_allocated() if DEVICE.type == "cuda" else 0,
        }
        Path(f"{os.environ.get('BENCH_NAME', 'alone')}.json").write_text(json.dumps(found))


def wait_for_device() -> None:
    """Waits until the device has done what it was told. What a CPU was told it has done."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def peak_bytes() -> int | None:
    """The most memory that the process has had. Unlike ``ru_maxrss`` it does not count that of the process that started it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)


def passes() -> None:
    """The reference: one pass that subtracts two arrays of that many numbers into a third."""
    import numpy

    after, before = (numpy.random.default_rng(seed).standard_normal(PARAMETERS, dtype=numpy.float32) for seed in (0, 1))
    changes = numpy.empty_like(after)
    measured = Measurement()
    for _ in measured.steps():
        numpy.subtract(after, before, out=changes)
    measured.write()


def with_gaia() -> None:
    """Alone where no run is named: that is the plain script."""
    import gaia

    training = Training(gaia.rank())
    run = gaia.join(training.model, training.optimizer, evaluate=lambda _: 0.0, steps_per_clock=STEPS_PER_CLOCK)
    measured = Measurement()
    for _ in run(measured.steps()):
        training.gradients()
        training.optimizer.step()
    run.end()
    # Of several scripts in a process only one is measured: the time of the process is that of all.
    if gaia.rank() == 0 or "GAIA_RUN" in os.environ:
        measured.write()


def with_gloo() -> None:
    """All gradients in one all-reduce, which is what DDP does with a bucket as large."""
    from torch import distributed

    distributed.init_process_group("gloo", timeout=timedelta(minutes=5))
    training, measured = Training(RANK), Measurement()
    flat = torch.empty(PARAMETERS)
    for _ in measured.steps():
        flat.copy_(training.gradients())
        distributed.all_reduce(flat)
        flat.div_(distributed.get_world_size())
        training.optimizer.step()
    measured.write()
    distributed.destroy_process_group()


def with_torchft(algorithm: str) -> None:
    """A synchronisation after every step."""
    from torch.distributed import TCPStore
    from torchft import Manager, ProcessGroupGloo
    from torchft.local_sgd import DiLoCo, LocalSGD

    training, measured = Training(RANK), Measurement()
    model, optimizer = training.model, training.optimizer
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(minutes=5)),
        load_state_dict=model.load_state_dict,
        state_dict=model.state_dict,
        min_replica_size=2,
        use_async_quorum=False,
        timeout=timedelta(minutes=5),
        quorum_timeout=timedelta(minutes=5),
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        replica_id=f"replica_{RANK}",
        hostname="127.0.0.1",
        init_sync=False,
    )
    if algorithm == "diloco":
        context: LocalSGD | DiLoCo = DiLoCo(manager, [model], optimizer, outer, sync_every=1)
    else:
        context = LocalSGD(manager, model, optimizer, sync_every=1)
    with context:
        for _ in measured.steps():
            training.gradients()
            optimizer.step()
    measured.write()
    manager.shutdown(wait=False)
    # Its threads may not end.
    os._exit(0)


SYSTEMS: dict[str, Callable[[], None]] = {
    "pass": passes,
    "gaia": with_gaia,
    "gloo": with_gloo,
    "torchft-local-sgd": lambda: with_torchft("local-sgd"),
    "torchft-diloco": lambda: with_torchft("diloco"),
}

SYSTEMS[SYSTEM]()
