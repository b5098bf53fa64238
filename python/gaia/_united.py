"""What the processes of a data center exchange: the rows that all of them together need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import distributed

from gaia._errors import GaiaError
from gaia._rows import Rows


def device_of_group(parameters: Iterable[torch.Tensor]) -> torch.device:
    """Where the processes of a data center exchange tensors: on the device of the model with NCCL, otherwise on the host."""
    if distributed.get_backend() != "nccl":
        return torch.device("cpu")
    return next((one.device for one in parameters if one.device.type == "cuda"), torch.device("cuda"))


def united(needed: Rows | None, device: torch.device) -> Rows | None:
    """The rows that one of the processes needs. All processes call this together, with rows of the same tensors.

    Raises:
        GaiaError: Some of them name rows, and others do not.
    """
    counts = _gathered(torch.tensor([-1 if needed is None else len(needed)], device=device))
    if len(set(counts.tolist())) > 1:
        raise GaiaError(
            "some processes of the data center name rows for a clock and others do not, expected loaders with equally many batches, "
            "and the same rows={...}",
            2,
        )
    return None if needed is None else [(number, _union(ids, device)) for number, ids in needed]


def _union(ids: Any, device: torch.device) -> Any:
    """Whole numbers of all processes, of which each may have a different number."""
    own = torch.from_numpy(ids).to(device)
    counts = _gathered(torch.tensor([own.numel()], device=device)).tolist()
    padded = torch.zeros(max(counts), dtype=torch.int64, device=device)
    padded[: own.numel()] = own
    gathered = _gathered(padded).reshape(len(counts), -1)
    rows = torch.cat([some[:count] for some, count in zip(gathered, counts, strict=True)])
    return torch.unique(rows).cpu().numpy()


def _gathered(own: torch.Tensor) -> torch.Tensor:
    """What each process has, one after the other."""
    found = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(found, own)
    return torch.cat(found)
