from collections.abc import Callable, Sequence
from os import PathLike

from typing_extensions import Buffer, final

__all__ = [
    "VERSION",
    "Exchange",
    "Interrupt",
    "log_from",
    "log_take",
    "log_wait",
    "place",
    "run",
    "try_run",
    "write_initial_rows",
    "write_tensors",
]

VERSION: str

@final
class Exchange:
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    def declare(
        self,
        tensors: Sequence[tuple[str, Sequence[int]]],
        statistics: int,
        values: Buffer,
        rounded: Buffer | None,
        metric: str,
        higher_is_better: bool,
        momentum: float,
        average: bool,
        sharded: bool = False,
        share: tuple[Sequence[tuple[int, int]], bool, Buffer] | None = None,
        sparse: Sequence[tuple[str, tuple[int, int], tuple[int, float, float], Buffer, Buffer]] | None = None,
    ) -> None: ...
    def left(self, is_whole: bool) -> None: ...
    def wait(self, only: str | None = None, stop: bool = False) -> tuple[str, int, bool, bool]: ...
    def iterated(
        self,
        examples: int,
        rows: Sequence[tuple[int, Buffer, Buffer | None]] | None = None,
        learning_rate_factor: float | None = None,
        may_keep: bool = False,
        is_stored: bool = True,
    ) -> None: ...
    def evaluated(self, loss: float, metric: float, weight: float) -> None: ...
    def stored(self) -> None: ...
    def taken(self) -> None: ...
    def end(self) -> None: ...
    def fail(self, reason: str) -> None: ...

@final
class Interrupt:
    def __new__(cls) -> Interrupt: ...
    def set(self) -> None: ...

_Start = Callable[[Exchange, list[str], int], None]

def run(arguments: Sequence[str], start: _Start, program: Sequence[str]) -> int: ...
def try_run(
    arguments: Sequence[str], start: _Start, program: Sequence[str], interrupt: Interrupt | None = None
) -> tuple[int, str | None]: ...
def log_from(level: int) -> None: ...
def log_wait(seconds: float) -> None: ...
def log_take() -> list[tuple[int, str, str]]: ...
def place(run_file: str | PathLike[str], data_center: str, index: int) -> tuple[int, int, bool, int]: ...
def write_initial_rows(values: Buffer, width: int, seed: int, mean: float, std: float) -> None: ...
def write_tensors(
    path: str | PathLike[str], tensors: Sequence[tuple[str, Sequence[int]]], values: Buffer
) -> None: ...
