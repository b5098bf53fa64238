"""The node beside a script that was started by itself: ``GAIA_RUN=run.toml GAIA_DC=tokyo python train.py``."""

from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
from types import TracebackType
from typing import Any

from gaia import _gaia
from gaia._errors import GaiaError
from gaia._exit import exit_at_once, unhandled
from gaia._log import flush, follow
from gaia._place import NamedPlace, Worker, enter_process, rank
from gaia._program import INTERRUPTED, PROGRAM
from gaia._run import leave
from gaia._scripts import described


class Node:
    """The nodes of this process, in a thread: a worker, and where it shares its machine with one, a server."""

    def __init__(self, place: NamedPlace) -> None:
        self._exchanges: queue.SimpleQueue[_gaia.Exchange | None] = queue.SimpleQueue()
        self._code, self._failure = 0, None  # type: tuple[int, str | None]
        self._is_group = place.is_group
        self._arguments = ["gaia", "node", place.run_file, "--set", "app.kind=external"]
        self._arguments += ["--dc", place.data_center, "--worker", str(place.index), "--quiet"]
        if place.has_server:
            self._arguments += ["--server", str(place.index)]
        self._thread = threading.Thread(target=self._run, name="gaia-node", daemon=True)
        self._log = threading.Thread(target=self._hand_on, name="gaia-log", daemon=True)

    def start(self) -> Worker:
        """Starts the nodes, and returns this script's worker."""
        try:
            follow()
        except ValueError as error:
            raise GaiaError(str(error), 2) from None
        # Inside a data center these are the addresses of torch.distributed, and not of the coordinator.
        hidden = {name: os.environ.pop(name) for name in TORCHRUN if name in os.environ}
        self._thread.start()
        self._log.start()
        try:
            exchange = self._exchange()
        finally:
            os.environ.update(hidden)
        worker = Worker(exchange, is_group=self._is_group, reason=self._reason)
        enter_process(worker)
        self._watch(worker)
        return worker

    def _exchange(self) -> _gaia.Exchange:
        """Waits until the node has read its run file and wants a script."""
        while True:
            try:
                # Ctrl-C is heard between two waits.
                exchange = self._exchanges.get(timeout=0.1)
            except queue.Empty:
                continue
            if exchange is None:
                raise GaiaError(self._failure or "the node has ended before the run began")
            return exchange

    def _run(self) -> None:
        start = lambda exchange, *_: self._exchanges.put(exchange)  # noqa: E731
        self._code, self._failure = _gaia.try_run(self._arguments, start, PROGRAM)
        self._exchanges.put(None)

    def _hand_on(self) -> None:
        """Hands on what the nodes log, whatever the script does."""
        while self._thread.is_alive():
            # A script may set levels at any time.
            follow()
            flush(wait=LOOK_EVERY_S)
        flush()

    def _reason(self) -> str | None:
        """Why the nodes have ended.

        Raises:
            SystemExit: They were interrupted, and have written their state.
        """
        self._thread.join(timeout=5)
        if not self._thread.is_alive() and self._code == INTERRUPTED:
            raise SystemExit(INTERRUPTED)
        return self._failure

    def _watch(self, worker: Worker) -> None:
        """Ends the worker's part with the script: in order at its end, with its exception where it fails.

        After Ctrl-C the run goes on without this process, as after a signal to ``gaia node``.
        """
        show, failures = sys.excepthook, []
        # Later the process group may be gone, by which it is known.
        own = rank()

        def note(error: BaseException) -> None:
            failures.append(error)
            if not isinstance(error, KeyboardInterrupt):
                worker.exchange.fail(described(own, error))

        def failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            note(error)
            show(kind, error, trace)

        def ended() -> None:
            code: Any = 0
            if not failures and (error := unhandled()) is not None:
                note(error)
            if not failures:
                try:
                    leave(worker)
                except SystemExit as stop:
                    code = stop.code
                except BaseException as last:  # noqa: BLE001
                    failed(type(last), last, last.__traceback__)
                    code = 1
            if not (failures and isinstance(failures[0], KeyboardInterrupt)):
                self._thread.join(timeout=30)
            elif os.environ.get("GAIA_STATE"):
                # The signal has reached the nodes, too, and they write their state.
                self._thread.join(timeout=5)
            flush()
            if code:
                exit_at_once(code)

        sys.excepthook = failed
        atexit.register(ended)


#: What torchrun sets, and ``gaia node`` would take for its own.
TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "RANK")

#: How often levels of loggers are looked up.
LOOK_EVERY_S = 0.5
