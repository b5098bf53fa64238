"""Scripts as threads of one process: one for each worker."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import sysconfig
import threading
import time
import traceback
import types
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING

from gaia._errors import GaiaError, RunStopped
from gaia._place import Turn, Worker, enter, note_scripts
from gaia._run import leave

if TYPE_CHECKING:
    from gaia._gaia import Exchange


class Scripts:
    """The scripts that a run has started.

    ``main`` is what each of them does. ``None``: the file that the run names.
    """

    def __init__(self, main: Callable[[], object] | None = None) -> None:
        self._main = main
        self._threads: list[tuple[threading.Thread, Worker]] = []
        self.failures: list[BaseException] = []

    def start(self, exchange: Exchange, command: list[str], seed: int) -> None:
        """Starts the script of a worker, and returns at once. ``command`` is its path and its arguments; empty if the run has
        none."""
        main, module = self._main, None
        if main is None:
            if not command:
                exchange.fail("the run file names no script, expected --script or app.script, or app.model where no worker runs")
                return
            path = command[0]
            if not os.path.isfile(path):
                exchange.fail(f"app.script is {path}, expected a Python script")
                return
            _import_generators(path)
            module = script_module(path)
            main = lambda: run_script(module, command)  # noqa: E731
        worker = Worker(exchange, Turn(seed, module))
        name = f"gaia-script-{exchange.rank}"
        thread = threading.Thread(target=self._run, args=(worker, main), name=name, daemon=True)
        self._forget_ended()
        self._threads.append((thread, worker))
        note_scripts(len(self._threads))
        thread.start()

    def _forget_ended(self) -> None:
        """Lets go of scripts that have ended, and of their data: a process may run hundreds, one simulation after the other."""
        running = [one for one in self._threads if one[0].is_alive()]
        if len(running) < len(self._threads):
            self._threads = running
            # The functions of a script hold its module, which holds them.
            gc.collect()

    def join(self, *, failed: bool) -> None:
        """Waits until all scripts have ended. A run that has failed has not told all of them, and a script in its own code
        hears of it at its next step, which may never come. So they are given a moment."""
        until = time.monotonic() + STEP_MAX_S
        for thread, worker in self._threads:
            was_told = worker.run is not None and worker.run.over
            thread.join(None if was_told or not failed else max(0.0, until - time.monotonic()))
        note_scripts(0)

    def leave(self) -> None:
        """Notes that nobody waits any more for these scripts and their run."""
        for _, worker in self._threads:
            assert worker.turn is not None
            worker.turn.is_left = True

    def _run(self, worker: Worker, main: Callable[[], object]) -> None:
        exchange, turn = worker.exchange, worker.turn
        assert turn is not None
        enter(worker)
        turn.take()
        try:
            try:
                main()
            except SystemExit as error:
                if error.code not in (None, 0):
                    raise
            # The last evaluation may fail here, also after an exit.
            leave(worker)
        except RunStopped:
            pass
        except BaseException as error:  # noqa: BLE001
            self._fail(exchange, error)
        finally:
            worker.has_left = True
            turn.give()

    def _fail(self, exchange: Exchange, error: BaseException) -> None:
        self.failures.append(error)
        exchange.fail(described(exchange.rank, error))


def check_turn() -> None:
    """Checks that scripts can run: that none of an earlier run of this process keeps the turn.

    Raises:
        GaiaError: One does.
    """
    if Turn.is_kept(within_s=STEP_MAX_S):
        raise GaiaError(
            "a script of an earlier run in this process has not ended, and no other can run before it makes a step or ends, "
            "expected its loop to end on run.over: restart the interpreter, which is the kernel of a notebook"
        )


def described(rank: int, error: BaseException) -> str:
    """The exception that has ended the script of a rank, in one line, with the line of the user's code that has led to it."""
    own = os.path.dirname(__file__) + os.sep
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(own)]
    of_user = [one for one in frames if not _is_of_library(one.filename)] or frames
    where = f" ({os.path.basename(of_user[-1].filename)}:{of_user[-1].lineno})" if of_user else ""

    text = _text_of(error)
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    # A run takes no halves of a character, which names of files may have.
    return f"rank {rank}: {said}{where}".encode(errors="backslashreplace").decode()


def _text_of(error: BaseException) -> str:
    """What an exception says, in one line."""
    try:
        return " ".join(str(error).split())
    except Exception:  # noqa: BLE001
        return "<its text cannot be made>"


def _is_of_library(path: str) -> bool:
    """Whether a file is one of Python's own or of an installed package."""
    if path.startswith("<frozen ") or not {"site-packages", "dist-packages"}.isdisjoint(PurePath(path).parts):
        return True
    return path.startswith(sysconfig.get_path("stdlib") + os.sep)


def _import_generators(path: str) -> None:
    """Imports what has global generators of random numbers, so that those of the first script are seeded as all others."""
    with open(path, encoding="utf-8", errors="replace") as file:
        names = ["numpy", "torch"] if "torch" in file.read() else ["numpy"]
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def script_module(path: str) -> types.ModuleType:
    """The module ``__main__`` of a script, before it has run."""
    module = types.ModuleType("__main__")
    # Processes that the script starts import the script from here.
    module.__file__ = path
    return module


def run_script(module: types.ModuleType, command: list[str]) -> None:
    """Runs a script as ``python FILE ARGUMENTS`` does, in its module. Its folder comes first on the path of imports."""
    path = module.__file__
    assert path is not None
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.argv = list(command)
    with open(path, "rb") as file:
        # By default the imports from `__future__` of this file would hold in the script.
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102


#: How long the scripts of a run that has failed may take to their next step.
STEP_MAX_S = 5.0
