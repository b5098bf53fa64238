"""Copies between the tensors of a module and the flat buffer that a run reads and writes.

The buffer is on the host, and pinned where CUDA is there. Tensors of an accelerator are copied on a stream of their own, beside
the one that computes. Events order both: nothing is read before it is computed, and nothing computes with what is not there.
What a change is compared with is on the host, so that no copy of the model is added to the accelerator's memory. Tensors of
another type than single precision are converted there, for which PyTorch takes the memory of one tensor at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def host_buffer(values: int, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A flat buffer for the values of these tensors, in single precision. Pinned if one of them is in the memory of CUDA."""
    pinned = any(one.device.type == "cuda" for one in tensors)
    return torch.empty(values, dtype=torch.float32, pin_memory=pinned)


class Staging:
    """The tensors of one device, and their places in the buffer of the host.

    Args:
        pairs: Each tensor with its part of the buffer, of the same shape and in single precision.
        streams: The module with the streams of the device, such as ``torch.cuda``. ``None`` for a device without streams, on
            which copies are done when they return.
    """

    def __init__(self, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], streams: Any = None) -> None:
        self._tensors = [tensor for tensor, _ in pairs]
        self._parts = [part for _, part in pairs]
        #: Those that round what they are given.
        self._rounding = [(part, tensor.dtype) for tensor, part in pairs if torch.finfo(tensor.dtype).bits < 32]
        self._streams = streams
        self._device = self._tensors[0].device
        self._side = None if streams is None else streams.Stream(device=self._device)

    @classmethod
    def of(cls, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> list[Staging]:
        """One for each device of these tensors."""
        devices: dict[torch.device, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for tensor, part in pairs:
            devices.setdefault(tensor.device, []).append((tensor, part))
        return [cls(found, _streams_of(device)) for device, found in devices.items()]

    @property
    def rounds(self) -> bool:
        """Whether a tensor has fewer bits than the buffer, and rounds its values."""
        return bool(self._rounding)

    def store(self) -> None:
        """Copies the tensors into the buffer, and waits until they are there."""
        with torch.no_grad():
            self._copy(self._parts, self._tensors)
        if self._side is not None:
            self._side.record_event().synchronize()

    def load(self) -> None:
        """Copies the buffer into the tensors. What the device computes next waits for them, and the host does not.

        The buffer then holds the values as the tensors have rounded them. It may be written at once: a copy that is under way
        then takes other values, and those are copied again before anything is trained on them.
        """
        with torch.no_grad():
            for part, dtype in self._rounding:
                part.copy_(part.to(dtype))
            self._copy(self._tensors, self._parts)
        if self._side is not None:
            self._streams.current_stream(self._device).wait_event(self._side.record_event())

    def _copy(self, into: list[torch.Tensor], source: list[torch.Tensor]) -> None:
        """Copies on the side stream, after all that the device has been told to compute."""
        if self._side is None:
            torch._foreach_copy_(into, source)
            return
        self._side.wait_event(self._streams.current_stream(self._device).record_event())
        with self._streams.stream(self._side):
            torch._foreach_copy_(into, source, non_blocking=True)


def _streams_of(device: torch.device) -> Any:
    """The module of torch with the streams of a device. ``None`` if it has none."""
    module = getattr(torch, device.type, None)
    has_streams = all(hasattr(module, name) for name in ("Stream", "current_stream", "stream"))
    return module if has_streams and device.type != "cpu" else None
