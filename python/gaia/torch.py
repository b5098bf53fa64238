"""Modules of torch that Gaia adds: tables of embeddings that are larger than a worker."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gaia import _gaia
from gaia._errors import GaiaError
from gaia._optimizers import after_each_step
from gaia._place import named, worker

__all__ = ["Embedding"]


class Embedding(torch.nn.Module):  # type: ignore[misc]
    """A table of embeddings of which a worker of a run holds the rows in hand alone.

    In a run the servers have the table, and ``weight`` the rows that the clock has named with ``run(loader, rows=...)``. While
    ``evaluate`` is called and after the run it has those of ``gaia.join(..., evaluate_rows=...)``. A script that trains alone
    holds the whole table, with the same initial values.

    Initial values are drawn row by row wherever they are needed, from a seed that comes from torch's stream of random numbers
    when the module is built. They are nearly normal, and none is farther from the mean than six times ``std``. Do not
    initialise ``weight`` yourself: a worker has no rows of it at first.

    The rows in hand change with each clock, so an optimizer must not keep anything for each row. ``torch.optim.SGD`` without
    momentum does not; take an optimizer of its own for the other parameters.

    Args:
        num_embeddings: The number of rows.
        embedding_dim: The number of values of a row.
        mean: The mean of the initial values.
        std: Their standard deviation.
        sparse: Whether gradients are sparse, as of ``torch.nn.Embedding``. It saves time where a script trains alone.

    Raises:
        GaiaError: There is a number that cannot be.
    """

    weight: torch.nn.Parameter

    def __init__(
        self, num_embeddings: int, embedding_dim: int, *, mean: float = 0.0, std: float = 1.0, sparse: bool = False
    ) -> None:
        super().__init__()
        if num_embeddings < 1 or embedding_dim < 1 or not 0 <= std < float("inf") or not abs(mean) < float("inf"):
            raise GaiaError(
                f"gaia.torch.Embedding({num_embeddings}, {embedding_dim}, mean={mean}, std={std}), expected rows, values and finite "
                "numbers",
                2,
            )
        self.num_embeddings, self.embedding_dim, self.sparse = num_embeddings, embedding_dim, sparse
        seed = int(torch.randint(2**63 - 1, (), device="cpu"))
        #: The seed, the mean and the standard deviation of the initial values.
        self.initial: tuple[int, float, float] = (seed, float(mean), float(std))
        #: The rows in hand, ascending. ``None``: all.
        self._ids: torch.Tensor | None = None
        self._name = "weight"
        if worker() is None and named() is None:
            whole = torch.empty(num_embeddings, embedding_dim, dtype=torch.float32, device="cpu")
            values: Any = whole.numpy()
            _gaia.write_initial_rows(values, embedding_dim, *self.initial)
            self.weight = torch.nn.Parameter(whole)
        else:
            self._ids = torch.empty(0, dtype=torch.int64, device="cpu")
            self.weight = torch.nn.Parameter(torch.empty(0, embedding_dim, dtype=torch.float32, device="cpu"))
            self.weight._gaia_rows_in_hand = self  # type: ignore[attr-defined]
            # The tables may have an optimizer of their own, which has joined no run.
            after_each_step(check_row_state)

    @property
    def holds_rows_in_hand(self) -> bool:
        """Whether this process holds the rows in hand alone, since it is part of a run."""
        return self._ids is not None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The rows of these numbers: a tensor of the shape of ``input`` with one more dimension, of ``embedding_dim`` values.

        Raises:
            GaiaError: A row is not in hand.
        """
        if self._ids is None:
            return functional.embedding(input, self.weight, sparse=self.sparse)
        places = torch.searchsorted(self._ids, input.contiguous().long())
        in_hand = places < len(self._ids)
        if len(self._ids) > 0:
            places = places.clamp(max=len(self._ids) - 1)
            in_hand &= self._ids[places] == input
        if not bool(in_hand.all()):
            row = int(input[~in_hand].reshape(-1)[0])
            raise GaiaError(
                f'row {row} of {self._name} is not in hand, expected run(loader, rows={{"{self._name}": ...}}) to name the rows of a '
                f'batch, and gaia.join(..., evaluate_rows={{"{self._name}": ...}}) those that evaluate(model) reads'
            )
        return functional.embedding(places, self.weight, sparse=self.sparse)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"

    def _take_name(self, name: str) -> None:
        """Takes the name that the table has in its model."""
        self._name = name

    def _hold(self, ids: Any, values: Any) -> None:
        """Takes other rows in hand: arrays of NumPy, of which a weight on a CPU becomes a view."""
        device = self.weight.device
        self._ids = torch.from_numpy(ids).to(device)
        self.weight.grad = None
        # An earlier step's graph may live, and torch gives the gradient of its shape to the next one, unless the type changes.
        self.weight.data = torch.empty(0, dtype=torch.float64, device=device)
        self.weight.data = torch.from_numpy(values).to(device)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        # The rows in hand are the servers', and others after each clock.
        if self._ids is None:
            super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *arguments: Any) -> None:
        if self._ids is None:
            super()._load_from_state_dict(state_dict, prefix, *arguments)
        elif prefix + "weight" in state_dict:
            raise GaiaError(
                f"{prefix}weight: this worker holds the rows in hand of the table, expected no values of it: load them before "
                "gaia.join",
                2,
            )


def check_row_state(optimizer: torch.optim.Optimizer) -> None:
    """Checks that an optimizer keeps nothing for each row of a table of which rows are in hand.

    Raises:
        GaiaError: It does.
    """
    for parameter, state in optimizer.state.items():
        table = getattr(parameter, "_gaia_rows_in_hand", None)
        if table is None:
            continue
        kept = [key for key, value in state.items() if isinstance(value, torch.Tensor) and value.ndim > 0]
        if kept:
            raise GaiaError(
                f"{type(optimizer).__name__} keeps {kept[0]} for each row of {table._name}, of which this worker holds the rows in "
                "hand, expected an optimizer that keeps nothing: torch.optim.SGD without momentum for this table, and another optimizer "
                "for the other parameters",
                2,
            )
