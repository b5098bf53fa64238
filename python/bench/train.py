"""A region's training with one of the systems: the script that ``regions.py`` starts in each region.

After every ``EVERY`` steps it judges its copy of the model, and writes the time, what the region has sent, and what it found.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import nn

from record import Record
from tasks import TASKS, Batch, Place

SYSTEM, TASK = os.environ["BENCH_SYSTEM"], os.environ["BENCH_TASK"]
NUMBERS = ("SEED", "REGIONS", "PROCESSES", "STEPS", "EVERY")
SEED, REGIONS, PROCESSES, STEPS, EVERY = (int(os.environ[f"BENCH_{name}"]) for name in NUMBERS)
LEARNING_RATE, SLOW = (float(os.environ[f"BENCH_{name}"]) for name in ("LEARNING_RATE", "SLOW"))
RECORDS, KILLED = (os.environ[f"BENCH_{name}"] == "1" for name in ("RECORDS", "KILLED"))
MINUTES = timedelta(minutes=5)
#: The state of a communication hook of DDP, and the hook.
Hook = tuple[object, Callable[..., Any]]


class Log:
    """What a region writes, if it has a name: a line for its first step, and one for each time it judges."""

    def __init__(self) -> None:
        self._path = Path(f"{os.environ['BENCH_NAME']}.jsonl") if "BENCH_NAME" in os.environ else None

    def write(self, **values: float) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps({"time": time.monotonic(), "sent_bytes": sent_bytes(), **values}) + "\n")


def sent_bytes() -> int:
    """What the region's network card has sent. 0 where there is none."""
    counter = Path("/sys/class/net/eth0/statistics/tx_bytes")
    return int(counter.read_text()) if counter.exists() else 0


class Training:
    """A task in one region, and the loop that all peers share."""

    def __init__(self, rank: int, processes: int = PROCESSES) -> None:
        """``rank`` counts all ``processes`` of all regions."""
        place = Place.of(rank, REGIONS, processes)
        self.task = TASKS[TASK](place, SEED, LEARNING_RATE)
        self.model: nn.Module = self.task.model
        self.optimizer = self.task.optimizer
        self.log = Log()
        self._judges = place.process == 0
        self._slow = SLOW if place.region == REGIONS - 1 else 1.0
        self._record = None
        if RECORDS:
            self.optimizer.param_groups[0]["momentum"] = 0.0
            self._record = Record(self.model, LEARNING_RATE)

    def batches(self) -> Iterator[Batch]:
        """Batches, until all steps are done. Of a run in which a region is killed the log has every step."""
        for step, batch in zip(range(STEPS), self.task.batches(), strict=False):
            if step == 0 or KILLED:
                self.log.write(step=0)
            yield batch

    def step(self, batch: Batch) -> None:
        began = time.thread_time()
        self.optimizer.zero_grad()
        self.task.loss(self.model, batch).backward()
        if self._slow > 1.0:
            # What this thread has computed, and not what it has waited for.
            time.sleep((self._slow - 1.0) * (time.thread_time() - began))
        self.optimizer.step()

    def end(self) -> None:
        """Once the copy will not change any more."""
        if self._record is not None:
            self._record.write(Path(f"{os.environ['BENCH_NAME']}.pt"))

    def judge(self, step: int) -> tuple[float, float, int]:
        loss, metric, examples = self.task.judge(self.model)
        self.log.write(step=step, loss=loss, metric=metric, examples=examples)
        return loss, metric, examples

    def loop(self, after_step: Callable[[int], None] = lambda _: None) -> None:
        for step, batch in enumerate(self.batches(), start=1):
            self.step(batch)
            after_step(step)
            if step % EVERY == 0 and self._judges:
                self.judge(step)
        self.end()


def with_gaia() -> None:
    import gaia
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    # The coordinator's trial has one process in each region.
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > 1:
        distributed.init_process_group("gloo", timeout=MINUTES)
    training = Training(gaia.rank(), processes)
    task = training.task
    # The coordinator writes down what all regions have judged.
    judge = lambda _: task.judge(task.model)  # noqa: E731
    named = {"metric": task.metric, "higher_is_better": task.higher_is_better}
    run = gaia.join(training.model, training.optimizer, evaluate=judge, **named)
    if processes > 1:
        training.model = DistributedDataParallel(training.model)
    for batch in run(training.batches()):
        training.step(batch)
    run.end()
    training.end()
    if processes > 1:
        distributed.destroy_process_group()


def with_ddp(hook: Callable[[], Hook] | None = None, **settings: Any) -> None:
    """``hook`` makes a state and a communication hook; ``settings`` are those of DDP."""
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    distributed.init_process_group("gloo", timeout=MINUTES)
    training = Training(distributed.get_rank())
    model = DistributedDataParallel(training.model, **settings)
    if hook is not None:
        model.register_comm_hook(*hook())
    training.model = model
    training.loop()
    distributed.destroy_process_group()


def half_precision() -> Hook:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    return None, fp16_compress_hook


def with_power_sgd(rank: int, *, gathers: bool = False) -> None:
    from power_sgd import PowerSgd

    # One bucket: collectives of several would wait for one another, each for its round trips.
    with_ddp(lambda: (None, PowerSgd(rank, SEED, gathers=gathers).hook), bucket_cap_mb=1 << 10)


def with_post_local_sgd(sync_every: int) -> None:
    """Means of the parameters in single precision, by torch's averager. The momentum of each region stays there."""
    from torch import distributed
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.nn.parallel import DistributedDataParallel

    distributed.init_process_group("gloo", timeout=MINUTES)
    training = Training(distributed.get_rank())
    if PROCESSES > 1:
        inside, _ = distributed.new_subgroups(PROCESSES)
        training.model = DistributedDataParallel(training.model, process_group=inside)
    # The warm-up has it average after the last of `sync_every` steps instead of after the first.
    averager = PeriodicModelAverager(period=sync_every, warmup_steps=sync_every - 1)
    training.loop(lambda _: averager.average_parameters(training.model.parameters()))
    distributed.destroy_process_group()


def with_torchft(sync_every: int) -> None:
    from torch.distributed import TCPStore
    from torchft import Manager, ProcessGroupGloo
    from torchft.local_sgd import DiLoCo

    training, address = Training(int(os.environ["RANK"])), os.environ["BENCH_ADDRESS"]
    store = TCPStore(address, 0, is_master=True, wait_for_workers=False)
    # Plain means are what a record can be held against.
    settings: dict[str, Any] = {"lr": 1.0} if RECORDS else {"lr": 0.4, "momentum": 0.9, "nesterov": True}
    outer = torch.optim.SGD(training.model.parameters(), **settings)
    patience = timedelta(seconds=10) if KILLED else MINUTES
    manager = Manager(
        pg=ProcessGroupGloo(timeout=patience),
        load_state_dict=training.model.load_state_dict,
        state_dict=training.model.state_dict,
        min_replica_size=REGIONS - KILLED,
        use_async_quorum=False,
        timeout=patience,
        quorum_timeout=MINUTES,
        rank=0,
        world_size=1,
        store_addr=address,
        store_port=store.port,
        replica_id=f"region_{os.environ['RANK']}",
        hostname=address,
        init_sync=False,
    )
    with DiLoCo(manager, [training.model], training.optimizer, outer, sync_every=sync_every):
        training.loop()
    manager.shutdown(wait=False)


def with_hivemind(sync_every: int) -> None:
    """Means of the parameters in half precision. Steps of milliseconds are too short for ``hivemind.Optimizer``."""
    import hivemind
    from hivemind.averaging import DecentralizedAverager

    rank, address, welcome = int(os.environ["RANK"]), os.environ["BENCH_ADDRESS"], Path("welcome.txt")
    training = Training(rank)
    while rank > 0 and not welcome.exists():
        time.sleep(0.1)
    peers = welcome.read_text().split() if rank > 0 else []
    dht = hivemind.DHT(initial_peers=peers, host_maddrs=[f"/ip4/{address}/tcp/29800"], start=True)
    if rank == 0:
        partly = Path("welcome.part")
        partly.write_text("\n".join(str(one) for one in dht.get_visible_maddrs()))
        partly.rename(welcome)
    parameters = [one.detach() for one in training.model.parameters()]
    averager = DecentralizedAverager(
        [one.clone() for one in parameters],
        dht,
        start=True,
        prefix="bench",
        target_group_size=REGIONS,
        min_group_size=max(2, REGIONS - KILLED),
        min_matchmaking_time=3.0,
        request_timeout=1.0,
        compression=hivemind.compression.Float16Compression(),
    )

    def average(step: int) -> None:
        if step % sync_every:
            return
        with averager.get_tensors() as averaged:
            for tensor, own in zip(averaged, parameters, strict=True):
                tensor.copy_(own)
        averager.step(timeout=60)
        with averager.get_tensors() as averaged:
            for tensor, own in zip(averaged, parameters, strict=True):
                own.copy_(tensor)

    training.loop(average)
    averager.shutdown()
    dht.shutdown()


def alone() -> None:
    """Never synchronised: what the region's own examples can do."""
    Training(int(os.environ["RANK"])).loop()


SYSTEMS: dict[str, Callable[[], None]] = {
    "gaia": with_gaia,
    "ddp": with_ddp,
    "ddp-fp16": lambda: with_ddp(half_precision),
    "powersgd-2": lambda: with_power_sgd(2),
    "powersgd-4": lambda: with_power_sgd(4),
    "powersgd-4-gather": lambda: with_power_sgd(4, gathers=True),
    "post-local-sgd-8": lambda: with_post_local_sgd(8),
    "torchft-diloco-8": lambda: with_torchft(8),
    "torchft-diloco-20": lambda: with_torchft(20),
    "hivemind-8": lambda: with_hivemind(8),
    "alone": alone,
}

torch.set_num_threads(1)
SYSTEMS[SYSTEM]()
