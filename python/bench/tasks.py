"""What is trained over regions: digits of MNIST, by two networks, and text. Each region has examples that the others lack."""

from __future__ import annotations

import gzip
import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Place:
    """Which of the processes of which region one is."""

    region: int
    regions: int
    process: int = 0
    #: The processes of each region.
    processes: int = 1

    @classmethod
    def of(cls, rank: int, regions: int, processes: int) -> Place:
        """Those of a region count one by one."""
        return cls(rank // processes, regions, rank % processes, processes)

    @property
    def rank(self) -> int:
        return self.region * self.processes + self.process

    def share(self, batch: int) -> int:
        """What is this process's of a batch of all regions together."""
        return batch // self.regions // self.processes


class Digits:
    """Handwritten digits, of which each region has its own, and a perceptron 784-1024-512-10: 1.33 million parameters."""

    #: Examples of a step of all regions together.
    batch = 256
    metric, higher_is_better, targets = "accuracy", True, (0.95, 0.97)

    def __init__(self, place: Place, seed: int, learning_rate: float) -> None:
        images, labels = idx("train-images-idx3-ubyte"), idx("train-labels-idx1-ubyte")
        own = torch.isin(labels, torch.tensor(list(shares(10, place.regions)[place.region])))
        self._images, self._labels = images[own], labels[own].long()
        self._batch = place.share(self.batch)
        held_out = held_out_part(place.region, place.regions)
        self._held_out = self._pixels(idx("t10k-images-idx3-ubyte")[held_out]), idx("t10k-labels-idx1-ubyte")[held_out].long()
        self._draws = torch.Generator().manual_seed(1000 * seed + place.rank)
        torch.manual_seed(seed)
        self.model = self._network()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=learning_rate, momentum=0.9)

    @staticmethod
    def _network() -> nn.Module:
        return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10))

    @staticmethod
    def _pixels(images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1).float() / 255.0

    def batches(self) -> Iterator[Batch]:
        """Batches without end, each of the region's own digits."""
        while True:
            at = torch.randint(len(self._labels), (self._batch,), generator=self._draws)
            yield self._pixels(self._images[at]), self._labels[at]

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        return cross_entropy(model(batch[0]), batch[1])

    @torch.no_grad()
    def judge(self, model: nn.Module) -> tuple[float, float, int]:
        """The loss and the accuracy on a part of the held-out images, of all digits. No two regions have the same part."""
        answers = model(self._held_out[0])
        right = (answers.argmax(1) == self._held_out[1]).float().mean()
        return cross_entropy(answers, self._held_out[1]).item(), right.item(), len(self._held_out[1])


class Images(Digits):
    """The same digits, and a network of two convolutions: 80,202 parameters."""

    @staticmethod
    def _network() -> nn.Module:
        convolutions = [nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10))

    @staticmethod
    def _pixels(images: torch.Tensor) -> torch.Tensor:
        return images[:, None].float() / 255.0


class Text:
    """Sums such as `17+25=42`, and a transformer of two layers that continues them. The first number tells the region."""

    batch = 48
    metric, higher_is_better, targets = "loss", False, (1.3, 1.2)
    letters, length, width = "0123456789+=;", 32, 64

    def __init__(self, place: Place, seed: int, learning_rate: float) -> None:
        own = range(place.region, 21, place.regions)
        self._windows = self._text(1000 + place.region, 40_000, own).unfold(0, self.length + 1, 4)
        self._held_out = self._text(7 + place.region, 6_000, range(21)).unfold(0, self.length + 1, self.length)
        self._batch = place.share(self.batch)
        self._draws = torch.Generator().manual_seed(1000 * seed + place.rank)
        torch.manual_seed(seed)
        self.model = Transformer(len(self.letters), self.length, self.width)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=learning_rate)

    def _text(self, seed: int, characters: int, first_numbers: range) -> torch.Tensor:
        draws, found = random.Random(seed), ""
        while len(found) < characters:
            a, b = draws.choice(first_numbers), draws.randrange(20)
            found += f"{a}+{b}={a + b};"
        return torch.tensor([self.letters.index(letter) for letter in found[:characters]])

    def batches(self) -> Iterator[Batch]:
        while True:
            rows = self._windows[torch.randint(len(self._windows), (self._batch,), generator=self._draws)]
            yield rows[:, :-1], rows[:, 1:]

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        return cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    @torch.no_grad()
    def judge(self, model: nn.Module) -> tuple[float, float, int]:
        loss = self.loss(model, (self._held_out[:, :-1], self._held_out[:, 1:])).item()
        return loss, loss, self._held_out[:, 1:].numel()


class Transformer(nn.Module):
    def __init__(self, letters: int, length: int, width: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.answer = nn.Linear(width, letters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.letters(x) + self.places.weight
        answers: torch.Tensor = self.answer(self.layers(x, mask=self.mask, is_causal=True))
        return answers


TASKS: dict[str, type[Digits] | type[Text]] = {"digits": Digits, "images": Images, "text": Text}

#: How many of the held-out images are judged, in all regions together.
JUDGED = 1500


def shares(labels: int, regions: int) -> list[range]:
    """The labels of each region: ranges one after the other, nearly equal, the longer ones first."""
    each, more = divmod(labels, regions)
    begins = [rank * each + min(rank, more) for rank in range(regions + 1)]
    return [range(begin, end) for begin, end in pairwise(begins)]


def held_out_part(rank: int, regions: int) -> slice:
    """Which of the held-out images a region judges."""
    return slice(rank, JUDGED, regions)


def idx(name: str) -> torch.Tensor:
    """The numbers of an IDX file of bytes, plain or gzip."""
    if "GAIA_DATA_DIR" not in os.environ:
        raise ValueError("GAIA_DATA_DIR is not set, expected the folder that has mnist/")
    folder = Path(os.environ["GAIA_DATA_DIR"]) / "mnist"
    plain = folder / name
    data = plain.read_bytes() if plain.exists() else gzip.decompress((folder / f"{name}.gz").read_bytes())
    kind, dimensions = data[2], data[3]
    if data[:2] != b"\0\0" or kind != 8:
        raise ValueError(f"{plain} begins with {data[:4]!r}, expected an IDX file of bytes")
    shape = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    return torch.frombuffer(bytearray(data[4 + 4 * dimensions :]), dtype=torch.uint8).reshape(shape)


def write_digits(folder: Path, rank: int, regions: int) -> None:
    """Writes IDX files of the digits that a region trains on, and of those that it judges."""
    images, labels = idx("train-images-idx3-ubyte"), idx("train-labels-idx1-ubyte")
    own, part = torch.isin(labels, torch.tensor(list(shares(10, regions)[rank]))), held_out_part(rank, regions)
    folder.mkdir(parents=True)
    write_idx(folder / "train-images-idx3-ubyte", images[own])
    write_idx(folder / "train-labels-idx1-ubyte", labels[own])
    for name in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        write_idx(folder / name, idx(name)[part])


def write_idx(path: Path, values: torch.Tensor) -> None:
    header = struct.pack(f">BBBB{values.dim()}I", 0, 0, 8, values.dim(), *values.shape)
    path.write_bytes(header + values.contiguous().numpy().tobytes())
