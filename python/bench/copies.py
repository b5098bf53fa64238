#!/usr/bin/env python3
"""What the copies between a device of CUDA and the host take that a clock makes, beside plain ones of as many bytes.

    python/bench/copies.py [--parameters 1e6,1e7,1e8] [--types float32,bfloat16] [--repeats 30] [--json]

Out are the tensors of a module on their way to the buffer of the host, and in is the way back, each until the copy is done. Those
of fewer bits are copied out again after the way in, as they have rounded what they were given. Plain is a copy of one tensor of
single precision with as many numbers, from and to memory that is pinned as well. All take turns. Processor time is that of
the call: the way out waits for its copies, and the way in does not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from gaia._staging import Staging, host_buffer, rounded_buffer
from sync import counts

#: A tensor has as many parameters, or all where there are fewer.
TENSOR = 1_000_000


def main() -> int:
    arguments = parsed()
    device = torch.device(arguments.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    print(f"{name}, torch {torch.__version__}, medians of {arguments.repeats}")
    print(f"{'':22} {'way':>4} {'ms':>9} {'plain ms':>9} {'ratio':>6} {'GB/s':>6} {'cpu ms':>8} {'bytes/par. on device':>21}")
    for count in arguments.parameters:
        for dtype in arguments.types:
            for line in measured(count, dtype, device, arguments.repeats):
                show(line)
                if arguments.json:
                    print(json.dumps(line))
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the copies between a device and the host take.")
    sizes = [1_000_000, 10_000_000, 100_000_000]
    parser.add_argument("--parameters", type=counts, default=sizes, help="numbers of parameters [default: 1e6,1e7,1e8]")
    parser.add_argument("--types", type=types, default=[torch.float32, torch.bfloat16], help="[default: float32,bfloat16]")
    parser.add_argument("--repeats", type=int, default=30, help="copies of each kind [default: 30]")
    parser.add_argument("--device", default="cuda", help="the device [default: cuda]")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each figure, too")
    arguments = parser.parse_args()
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("torch finds no device of CUDA")
    return arguments


def types(text: str) -> list[torch.dtype]:
    return [getattr(torch, one) for one in text.split(",")]


def measured(parameters: int, dtype: torch.dtype, device: torch.device, repeats: int) -> list[dict[str, Any]]:
    """A line for each way: the time of Gaia's copy and of a plain one."""
    sizes = [min(TENSOR, parameters - at) for at in range(0, parameters, TENSOR)]
    tensors = [torch.randn(size, device=device).to(dtype) for size in sizes]
    (staging,) = Staging.of(tensors, host_buffer(tensors), rounded_buffer(tensors))
    on_host, on_device = host_buffer(tensors), torch.zeros(parameters, device=device)
    ways = {
        "out": (staging.store, lambda: on_host.copy_(on_device, non_blocking=True)),
        "in": (staging.load, lambda: on_device.copy_(on_host, non_blocking=True)),
    }

    memory = dict.fromkeys(ways, 0)
    times: dict[str, list[tuple[Timed, Timed]]] = {way: [] for way in ways}
    for at in range(WARM_UP + repeats):
        for way, (own, plain) in ways.items():
            before = memory_of(device)
            pair = timed(own, device), timed(plain, device)
            memory[way] = max(memory[way], peak_of(device) - before)
            if at >= WARM_UP:
                times[way].append(pair)

    lines = []
    for way, pairs in times.items():
        own_ms, plain_ms = (statistics.median(pair[which].wall_ms for pair in pairs) for which in (0, 1))
        name = f"copies/{way}/{parameters / 1e6:g}M/{str(dtype).removeprefix('torch.')}"
        found = {"name": name, "value": round(own_ms, 4), "unit": "ms", "reference": round(plain_ms, 4)}
        found |= {"ratio": round(own_ms / plain_ms, 3), "plain_gb_per_s": round(4 * parameters / plain_ms / 1e6, 2)}
        found |= {"cpu_ms": round(statistics.median(pair[0].cpu_ms for pair in pairs), 4)}
        lines.append(found | {"device_bytes_per_parameter": round(memory[way] / parameters, 3)})
    return lines


class Timed(NamedTuple):
    """The time until the device has done a call, and the processor time until the call has returned."""

    wall_ms: float
    cpu_ms: float


def timed(call: Callable[[], object], device: torch.device) -> Timed:
    synchronize(device)
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    cpu_ms = (time.process_time() - cpu) * 1e3
    synchronize(device)
    return Timed((time.perf_counter() - wall) * 1e3, cpu_ms)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def memory_of(device: torch.device) -> int:
    """The memory of the device that is in use, of which the peak is counted from now on."""
    if device.type != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def peak_of(device: torch.device) -> int:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


def show(line: dict[str, Any]) -> None:
    _, way, size, dtype = line["name"].split("/")
    plain = f"{line['reference']:9.3f} {line['ratio']:6.2f} {line['plain_gb_per_s']:6.1f}"
    own = f"{line['value']:9.3f} {plain} {line['cpu_ms']:8.3f}"
    print(f"{size + ' ' + dtype:22} {way:>4} {own} {line['device_bytes_per_parameter']:21.2f}")


#: Copies that are not counted: pages and streams are made in the first ones.
WARM_UP = 3


if __name__ == "__main__":
    raise SystemExit(main())
