"""The processes of one worker: those of ``torch.distributed`` inside a data center."""

from __future__ import annotations

import os
import sys

from gaia._errors import GaiaError


def inside() -> tuple[int, int]:
    """The rank of this process inside its data center, and the number of processes there. ``(0, 1)`` without
    ``torch.distributed``.

    Raises:
        GaiaError: torchrun has started several processes, which do not know one another yet.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        processes = os.environ.get("WORLD_SIZE", "1")
        if "LOCAL_RANK" in os.environ and processes != "1":
            raise GaiaError(
                f"torchrun has started {processes} processes, and there is no process group, expected "
                "torch.distributed.init_process_group(...) before gaia.join(...), gaia.rank() and gaia.size()",
                2,
            )
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()
