"""Failures in the processes of a worker that take no part in the run: they tell the first one, which tells the run.

Without this the first process notices at its next collective (with NCCL after minutes), and does not learn the reason. What they
tell goes through the store of ``torch.distributed``, at which the processes have met. Where there is none, nobody tells.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from torch import distributed

from gaia._errors import RunStopped
from gaia._exit import unhandled
from gaia._place import Worker, rank
from gaia._scripts import described


class Listening:
    """Hears in the first process that another one has failed, and fails its worker with the same words."""

    def __init__(self, worker: Worker, is_over: Callable[[], bool]) -> None:
        self._worker, self._is_over = worker, is_over
        #: Whether another process has failed: then it takes part in no further collective.
        self.has_heard = False
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        store = _store()
        if store is None:
            return
        # A wait holds the store's lock, also a wait for a process that has failed; so this thread has a connection of its own.
        store = store.clone() if hasattr(store, "clone") else store
        self._thread = threading.Thread(target=self._listen, args=(store,), name="gaia-failures", daemon=True)
        self._thread.start()
        atexit.register(self._stop_after_failure)

    def stop(self) -> None:
        """Listens no more: the run is over, and the script may destroy the process group."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            # One that has heard of a failure is telling it.
            self._thread.join(timeout=HEARD_MAX_S if self.has_heard else STOP_MAX_S)

    def _stop_after_failure(self) -> None:
        """Where this script has failed, stops before Python ends threads: one in a call of torch would abort the process.
        Otherwise the run ends with the script, and until then another process may fail."""
        if unhandled() is not None:
            self.stop()

    def _listen(self, store: Any) -> None:
        # A store that is gone has nothing to say.
        with contextlib.suppress(RuntimeError):
            while not self._stopped.wait(LOOK_EVERY_S) and not self._is_over():
                if store.check([FAILURE]):
                    self.has_heard = True
                    self._worker.exchange.fail(store.get(FAILURE).decode())
                    self._wait_for_nodes()
                    store.set(HEARD, b"1")
                    return

    def _wait_for_nodes(self) -> None:
        """Waits until the run knows: who has started these processes may end all of them once one has ended."""
        with contextlib.suppress(SystemExit):
            self._worker.reason()


def tell_failures(is_over: Callable[[], bool]) -> None:
    """Tells the first process from now on which exception has ended this one, unless the run is over."""
    own, store, show = rank(), _store(), sys.excepthook
    if store is None:
        return
    failures: list[BaseException] = []

    def tell(error: BaseException) -> None:
        failures.append(error)
        if is_over() or isinstance(error, (KeyboardInterrupt, RunStopped)):
            return
        # Where the first process has ended, nobody hears.
        with contextlib.suppress(RuntimeError):
            store.set(FAILURE, described(own, error).encode(errors="replace"))
            until = time.monotonic() + HEARD_MAX_S
            while not store.check([HEARD]) and time.monotonic() < until:
                time.sleep(LOOK_EVERY_S)

    def failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        show(kind, error, trace)
        tell(error)

    def ended() -> None:
        if not failures and (error := unhandled()) is not None:
            tell(error)

    sys.excepthook = failed
    atexit.register(ended)


def _store() -> Any:
    """The store at which the processes have met. ``None`` where they have met without one."""
    return distributed.distributed_c10d._get_default_store()  # type: ignore[attr-defined]


#: Where the store has the failure of a process, and that the first one has heard of it.
FAILURE, HEARD = "gaia/failure", "gaia/failure/heard"

#: How often a process looks into the store.
LOOK_EVERY_S = 0.2

#: How long a process that has failed waits until the first one has told the run.
HEARD_MAX_S = 10.0

#: How long the end of listening may take. A look into the store is short.
STOP_MAX_S = 1.0
