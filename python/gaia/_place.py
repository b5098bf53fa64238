"""Which worker a script is: the one of its thread, where several scripts share a process, or the one of the process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from gaia import _gaia
from gaia._errors import GaiaError
from gaia._inside import inside
from gaia._random import Streams

if TYPE_CHECKING:
    from gaia._gaia import Exchange
    from gaia._run import Run


class Turn:
    """The turn of one of the scripts of a process. One script runs at a time, with its own streams of random numbers and its
    own module ``__main__``, in which classes and functions are looked up that are sent to other processes."""

    _lock = threading.Lock()
    #: The one whose turn it is.
    _holder: ClassVar[Turn | None] = None

    def __init__(self, seed: int, main: ModuleType | None = None) -> None:
        self._seed = seed
        self._streams: Streams | None = None
        self._main = main
        #: Whether nobody waits any more for the run of the script.
        self.is_left = False

    @classmethod
    def is_kept(cls, within_s: float) -> bool:
        """Whether a script keeps the turn whose run has been left, and does not give it within this time."""
        if not cls._is_of_left_run():
            return False
        if cls._lock.acquire(timeout=within_s):
            cls._lock.release()
            return False
        return cls._is_of_left_run()

    @classmethod
    def _is_of_left_run(cls) -> bool:
        return (holder := cls._holder) is not None and holder.is_left

    def take(self) -> None:
        """Waits for the turn."""
        self._lock.acquire()
        Turn._holder = self
        # Generators belong to the process: seeded before its turn, a script would disturb what another one draws.
        if self._streams is None:
            self._streams = Streams.seeded(self._seed)
        self._streams.resume()
        self._before = sys.modules["__main__"]
        sys.modules["__main__"] = self._main or self._before

    def give(self) -> None:
        """Lets another script run."""
        self._streams = Streams.current()
        sys.modules["__main__"] = self._before
        Turn._holder = None
        self._lock.release()


@dataclass
class Worker:
    """A worker of a run, as its script sees it."""

    exchange: Exchange
    #: The turn of the script, where others share the process.
    turn: Turn | None = None
    #: The script's part in the run, once it has joined.
    run: Run | None = None
    #: Whether the processes of torch.distributed inside the data center are this one worker.
    is_group: bool = False
    #: Why the node beside the script has ended, if it knows.
    reason: Callable[[], str | None] = lambda: None
    #: Whether the script has ended, in order or not, where its process goes on.
    has_left: bool = False


_of_thread = threading.local()
_of_process: Worker | None = None
#: How many scripts of a run this process runs in threads.
_scripts = 0


def enter(worker: Worker) -> None:
    """Makes this the worker of the running thread."""
    _of_thread.worker = worker


def enter_process(worker: Worker) -> None:
    """Makes this the worker of the process."""
    global _of_process
    _of_process = worker


def note_scripts(count: int) -> None:
    """Notes how many scripts of a run this process runs in threads, also for processes that they start."""
    global _scripts
    _scripts = count
    if count > 0:
        os.environ[SCRIPTS] = str(count)
    else:
        os.environ.pop(SCRIPTS, None)


def worker() -> Worker | None:
    """The worker of the running script. ``None`` where the script runs alone, or has not joined yet."""
    return getattr(_of_thread, "worker", None) or _of_process


@dataclass(frozen=True)
class NamedPlace:
    """The place that the environment names."""

    run_file: str
    data_center: str
    index: int
    rank: int
    size: int
    has_server: bool
    #: Whether the processes of torch.distributed inside the data center are this one worker. If not, each is a worker.
    is_group: bool


def named() -> NamedPlace | None:
    """The place that ``GAIA_RUN``, ``GAIA_DC`` and ``GAIA_INDEX`` name. ``None`` without ``GAIA_RUN``."""
    run_file = os.environ.get("GAIA_RUN")
    if not run_file:
        return None
    data_center, index = os.environ.get("GAIA_DC"), os.environ.get("GAIA_INDEX")
    if not data_center:
        raise GaiaError("GAIA_RUN is set without GAIA_DC, expected the name of a data center in GAIA_DC", 2)
    if index is not None and not index.isdecimal():
        raise GaiaError(f"GAIA_INDEX is `{index}`, expected the number of a worker, from 0", 2)

    (process, processes), own = inside(), int(index or 0)
    number, size, is_server, workers = _place(run_file, data_center, own)
    is_group = processes > 1
    if is_group and index is None and workers > 1:
        if workers != processes:
            raise GaiaError(
                f"{data_center} has {workers} workers in {run_file} and {processes} processes of torch.distributed, expected "
                "1 worker (DDP) or one for each process (FSDP2)",
                2,
            )
        is_group, own = False, process
        number, size, is_server, _ = _place(run_file, data_center, own)
    if (role := os.environ.get("GAIA_ROLE")) not in (None, "", "worker"):
        raise GaiaError(f"GAIA_ROLE is `{role}`, expected worker or nothing", 2)
    has_server = is_server and role != "worker"
    return NamedPlace(run_file, data_center, own, number, size, has_server, is_group)


def _place(run_file: str, data_center: str, index: int) -> tuple[int, int, bool, int]:
    try:
        return _gaia.place(run_file, data_center, index)
    except ValueError as error:
        raise GaiaError(str(error), 2) from None


def rank() -> int:
    """The number of this script in the whole run, from 0. 0 for a script that runs alone.

    The processes of ``torch.distributed`` inside a data center count one by one, the same number in each data center.
    """
    (number, _, is_group), (process, processes) = _worker_number(), inside()
    return number * processes + process if is_group else number


def size() -> int:
    """The number of scripts of the whole run. 1 for a script that runs alone."""
    (_, workers, is_group), (_, processes) = _worker_number(), inside()
    return workers * processes if is_group else workers


def _worker_number() -> tuple[int, int, bool]:
    """The number of this worker in the whole run, the number of all workers, and whether several processes are this one."""
    if (current := worker()) is not None:
        return current.exchange.rank, current.exchange.size, current.is_group
    place = named()
    if place is None and SCRIPTS in os.environ and _parent_process() is not None:
        raise GaiaError(f"gaia.rank() or gaia.size() {IN_ANOTHER_PROCESS}, and be handed to that process", 2)
    if place is None:
        check_thread("gaia.rank() or gaia.size()", "be handed to that thread")
    # Processes that train without Gaia count one by one as well.
    return (0, 1, True) if place is None else (place.rank, place.size, place.is_group)


def check_thread(called: str, otherwise: str) -> None:
    """Checks that a call in a thread without a worker is not made while this process runs scripts in threads: it would be taken
    for a script that runs alone.

    Args:
        called: What is called.
        otherwise: What is to be done with it in a script, for the thread.

    Raises:
        GaiaError: It is.
    """
    if _scripts > 0:
        raise GaiaError(
            f"{called} was called in a thread that is none of the scripts of the run, such as one that a script has started, "
            f"expected it to be called in the script's own thread, and {otherwise}",
            2,
        )


def imports_script() -> bool:
    """Whether this process was started by ``multiprocessing``, and imports the script before it does its work."""
    multiprocessing = sys.modules.get("multiprocessing")
    return multiprocessing is not None and getattr(multiprocessing.current_process(), "_inheriting", False)


def _parent_process() -> object | None:
    """The process that has started this one by ``multiprocessing``, if one has."""
    multiprocessing = sys.modules.get("multiprocessing")
    return None if multiprocessing is None else multiprocessing.parent_process()


#: Set in the environment of processes that scripts start, where several workers share a process. Such a process cannot tell
#: which of them has started it.
SCRIPTS = "GAIA_SCRIPTS"

IN_ANOTHER_PROCESS = (
    "was called in a process that the script has started, such as one of a data loader, expected it to be called in the script "
    'only, below `if __name__ == "__main__":`'
)
