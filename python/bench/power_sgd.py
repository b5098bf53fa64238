"""PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS 2019, algorithms 1 and 2) as a communication hook of DDP.

A gradient of ``n`` × ``m`` is sent as two matrices of ``n`` × rank and ``m`` × rank, from one power iteration that begins where
the one of the step before has ended. What they leave out is added to the next gradient (error feedback). Torch's own hook,
which chains collectives in callbacks, waits without end over gloo (torch 2.15). Here collectives block: one for the left factors
together with the gradients that are not compressed, and one for the right factors.
"""

# Annotations stay objects: DDP compares those of a hook.
import torch
from torch import distributed


class PowerSgd:
    """The state of the hook on one process. All processes have the same seed.

    With ``gathers`` each process gets the factors of all others and adds them up itself, instead of an all-reduce. Over a ring of
    ``p`` processes that takes ``p`` - 1 messages one after the other instead of twice as many, with ``p`` / 2 times the bytes.
    """

    def __init__(self, rank: int, seed: int, *, gathers: bool = False) -> None:
        self._rank, self._gathers = rank, gathers
        self._draws = torch.Generator().manual_seed(seed)
        #: By parameter, since DDP orders those of a bucket anew after the first step.
        self._right: dict[torch.Tensor, torch.Tensor] = {}
        self._errors: dict[torch.Tensor, torch.Tensor] = {}

    def hook(self, _: object, bucket: distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Replaces the gradients of a bucket by the mean over all processes of what is sent of them."""
        compressed: dict[torch.Tensor, torch.Tensor] = {}
        exact: list[torch.Tensor] = []
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            if self._pays(gradient):
                compressed[parameter] = gradient.view(len(gradient), -1)
            else:
                exact.append(gradient)

        left = []
        for parameter, gradient in compressed.items():
            if parameter in self._errors:
                gradient += self._errors[parameter]
            left.append(gradient @ self._right_of(parameter, gradient))
        mean([*left, *exact], gathers=self._gathers)
        left = [torch.linalg.qr(one).Q for one in left]

        right = [gradient.T @ one for gradient, one in zip(compressed.values(), left, strict=True)]
        mean(right, gathers=self._gathers)

        for (parameter, gradient), one, other in zip(compressed.items(), left, right, strict=True):
            sent = one @ other.T
            self._errors[parameter] = gradient - sent
            self._right[parameter] = other
            gradient.copy_(sent)
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    def _pays(self, gradient: torch.Tensor) -> bool:
        """Whether the factors are smaller than the gradient."""
        rows, columns = len(gradient), gradient.numel() // len(gradient)
        return gradient.dim() > 1 and self._rank * (rows + columns) < gradient.numel()

    def _right_of(self, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """The right factor of the step before, or else a drawn one."""
        if parameter not in self._right:
            self._right[parameter] = torch.randn(gradient.shape[1], self._rank, generator=self._draws)
        return self._right[parameter]


def mean(tensors: list[torch.Tensor], *, gathers: bool) -> None:
    """Replaces tensors by their means over all processes, with one collective."""
    if not tensors:
        return
    flat, processes = torch.cat([one.reshape(-1) for one in tensors]), distributed.get_world_size()
    if gathers:
        parts = [torch.empty_like(flat) for _ in range(processes)]
        distributed.all_gather(parts, flat)
        flat = torch.stack(parts).sum(0)
    else:
        distributed.all_reduce(flat)
    flat /= processes
    for one, part in zip(tensors, flat.split([one.numel() for one in tensors]), strict=True):
        one.copy_(part.view_as(one))
