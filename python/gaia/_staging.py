"""Copies between the tensors of a module and the flat buffer that a run reads and writes.

The buffer is on the host, and pinned where CUDA is there. Tensors of an accelerator are copied on a stream of their own, beside
the one that computes. Events order both: nothing is read before it is computed, and nothing computes with what is not there.
What a change is compared with is on the host, so that no copy of the model is added to the accelerator's memory. Tensors of
another type than single precision are converted there, for which PyTorch takes the memory of one tensor at a time. Those of
fewer bits round what they are given, so their values are copied back to a second buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def host_buffer(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A flat buffer for the values of these tensors, in single precision. Pinned if one of them is in the memory of CUDA."""
    pinned = any(one.device.type == "cuda" for one in tensors)
    return torch.empty(sum(one.numel() for one in tensors), dtype=torch.float32, device="cpu", pin_memory=pinned)


def parts_of(buffer: torch.Tensor, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The part of a flat buffer that each of these tensors has, in its shape."""
    parts = torch.split(buffer, [one.numel() for one in tensors])
    return [part.view(one.shape) for part, one in zip(parts, tensors, strict=True)]


def rounded_buffer(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """A second flat buffer, for the values as tensors of fewer bits have rounded them. ``None`` if none has fewer."""
    has_fewer = any(torch.finfo(one.dtype).bits < 32 for one in tensors)
    return host_buffer(tensors) if has_fewer else None


def storage_of(one: torch.Tensor) -> int:
    """Where the memory of a tensor begins. 0 where it has none, or none of its own, as a tensor that wraps others."""
    try:
        return int(one.untyped_storage().data_ptr())
    except (RuntimeError, ValueError):
        return 0


class Staging:
    """The tensors of one device, and their places in the buffers of the host.

    Args:
        tensors: The tensors.
        parts: Their parts of the buffer, of the same shapes and in single precision.
        rounded: Their parts of another buffer, which get what the tensors hold after each load. ``None`` where none rounds.
        streams: The module with the streams of the device, such as ``torch.cuda``. ``None`` for a device without streams, on
            which copies are done when they return.
    """

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        parts: Sequence[torch.Tensor],
        rounded: Sequence[torch.Tensor] | None = None,
        streams: Any = None,
    ) -> None:
        self._tensors, self._parts = list(tensors), list(parts)
        self._rounded = None if rounded is None else list(rounded)
        self._streams = streams
        self._device = self._tensors[0].device
        self._side = None if streams is None else streams.Stream(device=self._device)

    @classmethod
    def of(
        cls,
        tensors: Sequence[torch.Tensor],
        flat: torch.Tensor,
        rounded: torch.Tensor | None = None,
        places: Sequence[int] | None = None,
    ) -> list[Staging]:
        """One for each device of the tensors that the two buffers are for, or of those at some places."""
        devices: dict[torch.device, list[int]] = {}
        for at in range(len(tensors)) if places is None else places:
            devices.setdefault(tensors[at].device, []).append(at)

        parts, rounded_parts = parts_of(flat, tensors), None if rounded is None else parts_of(rounded, tensors)
        return [
            cls(
                [tensors[at] for at in found],
                [parts[at] for at in found],
                None if rounded_parts is None else [rounded_parts[at] for at in found],
                _streams_of(device),
            )
            for device, found in devices.items()
        ]

    def store(self) -> None:
        """Copies the tensors into the buffer, and waits until they are there. So are the rounded values of the latest load."""
        self._copy((self._parts, self._tensors))
        if self._side is not None:
            self._side.record_event(self._event_to_wait_for()).synchronize()

    def load(self) -> None:
        """Copies the buffer into the tensors. What the device computes next waits for them, and the host does not.

        The buffer may be written at once: a copy that is under way then takes other values, and those are copied again before
        anything is trained on them.
        """
        ways = [(self._tensors, self._parts)]
        if self._rounded is not None:
            ways.append((self._rounded, self._tensors))
        self._copy(*ways)
        if self._side is not None:
            self._streams.current_stream(self._device).wait_event(self._side.record_event())

    def _copy(self, *ways: tuple[list[torch.Tensor], list[torch.Tensor]]) -> None:
        """Copies into the first tensors of each pair, on the side stream, after all that the device has been told to compute."""
        with torch.no_grad():
            if self._side is None:
                for into, source in ways:
                    torch._foreach_copy_(into, source)
                return
            self._side.wait_event(self._streams.current_stream(self._device).record_event())
            with self._streams.stream(self._side):
                for into, source in ways:
                    torch._foreach_copy_(into, source, non_blocking=True)

    def _event_to_wait_for(self) -> Any:
        """An event that the host waits for. By default a thread that waits for one of CUDA takes all of a core."""
        return self._streams.Event(blocking=True) if self._device.type == "cuda" else self._streams.Event()


def _streams_of(device: torch.device) -> Any:
    """The module of torch with the streams of a device. ``None`` if it has none."""
    module = getattr(torch, device.type, None)
    has_streams = all(hasattr(module, name) for name in ("Stream", "Event", "current_stream", "stream"))
    return module if has_streams and device.type != "cpu" else None
