"""The processes of one worker: those of ``torch.distributed`` inside a data center."""

from __future__ import annotations

import sys


def inside() -> tuple[int, int]:
    """The rank of this process inside its data center, and the number of processes there. ``(0, 1)`` without
    ``torch.distributed``."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()
