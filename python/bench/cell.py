"""What the runs that are compared with each other have in common: a task, data centers and the links between them."""

from __future__ import annotations

from typing import NamedTuple

NAMES = ("virginia", "ireland", "tokyo", "sydney")


class Cell(NamedTuple):
    """A task, the data centers that train it, and the links between them."""

    task: str
    regions: int
    #: Of each link, as ``tc`` says it: a number with kbit, mbit or gbit.
    rate: str
    rtt_ms: float
    #: How many times as long as the others the last data center takes for a step.
    slow: float = 1.0
    #: That train in each data center.
    processes: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[: self.regions]

    def link(self) -> dict[str, str]:
        """The links as a run file says them: a data center sends to all others at the same time, over one network card."""
        mbit = self.bits_per_second() / 1e6 / (self.regions - 1)
        return {"bandwidth": f"{mbit:g} Mbit/s", "rtt": f"{max(self.rtt_ms, 1.0):g} ms"}

    def bits_per_second(self) -> float:
        return float(self.rate[:-4]) * {"k": 1e3, "m": 1e6, "g": 1e9}[self.rate[-4]]

    def place(self) -> tuple[str, int, float, int, float, float]:
        """What cells are ordered by."""
        return self.task, self.regions, self.slow, self.processes, self.bits_per_second(), self.rtt_ms

    def __str__(self) -> str:
        link = f"{self.rate[:-4]} {self.rate[-4].upper().replace('K', 'k')}bit/s"
        several = f" of {self.processes} processes" if self.processes > 1 else ""
        slower = f", one {self.slow:g} times as slow" if self.slow > 1.0 else ""
        return f"{self.task.capitalize()}: {self.regions} data centers{several}{slower}, {link}, round trip {self.rtt_ms:g} ms"

    def picture(self) -> str:
        """The name of its picture."""
        several = f"x{self.processes}" if self.processes > 1 else ""
        slower = f"-slow{self.slow:g}" if self.slow > 1.0 else ""
        return f"peers-{self.task}-{self.regions}{several}-{self.rate}-{self.rtt_ms:g}ms{slower}.svg"
