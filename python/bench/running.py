"""Processes of a measurement: started together, waited for, and never left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Failed(Exception):
    """A process of a measurement has failed. The message has the end of what it wrote."""


class Processes:
    """A context: all processes that were started in it have ended after it, also where this program is told to end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._commands: dict[str, tuple[Sequence[object], dict[str, object]]] = {}
        self._on_terminate: Any = signal.SIG_DFL

    def __enter__(self) -> Processes:
        # By default the signal ends this program without any clean-up.
        self._on_terminate = signal.signal(signal.SIGTERM, _terminate)
        return self

    def __exit__(self, *_exception: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._end_all()
        signal.signal(signal.SIGTERM, self._on_terminate)

    def _end_all(self) -> None:
        for _name, process in self._started:
            _kill(process)

    def start(self, name: str, command: Sequence[object], **variables: object) -> subprocess.Popen[bytes]:
        """Starts a command whose environment has these variables as well. What it writes is added to a file of its name."""
        self._commands[name] = (command, variables)
        environment = {**os.environ, **{key: str(value) for key, value in variables.items()}}
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )
        self._started.append((name, process))
        return process

    def kill(self, name: str) -> None:
        """Kills a process and those that it has started, as a machine that loses its power."""
        for other, process in [one for one in self._started if one[0] == name]:
            _kill(process)
            self._started.remove((other, process))

    def start_again(self, name: str) -> subprocess.Popen[bytes]:
        """Starts a process that was killed by the same command."""
        command, variables = self._commands[name]
        return self.start(name, command, **variables)

    def wait(self, seconds: float, names: Sequence[str] | None = None) -> None:
        """Waits until these processes have ended, by default all.

        Raises:
            Failed: One has ended with an error, or they take longer than this.
        """
        until = time.monotonic() + seconds
        while waiting := self.running(names):
            if time.monotonic() > until:
                raise Failed(f"{waiting[0]} has not ended in {seconds:.0f} s:\n{self.said(waiting[0])}")
            time.sleep(0.02)

    def running(self, names: Sequence[str] | None = None) -> list[str]:
        """Which of these processes have not ended, by default of all.

        Raises:
            Failed: One has ended with an error.
        """
        running = []
        for name, process in self._started:
            if names is not None and name not in names:
                continue
            code = process.poll()
            if code is None:
                running.append(name)
            elif code != 0:
                raise Failed(f"{name} has ended with code {code}:\n{self.said(name)}")
        return running

    def said(self, name: str) -> str:
        """The end of what a process has written."""
        text = (self.folder / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-12:])


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and those that it has started, also in sessions of their own, as torchrun starts its workers."""
    descendants = _descendants(process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for descendant in descendants:
        with contextlib.suppress(ProcessLookupError):
            os.kill(descendant, signal.SIGKILL)
    process.wait()


def _descendants(of: int) -> list[int]:
    """The processes that one has started, and those that these have, where the kernel says so."""
    family = [of]
    for parent in family:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                family += map(int, children.read_text().split())
    return family[1:]


def _terminate(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _end_with_parent() -> None:
    """Has the kernel kill this process once its parent has ended, which may have been killed itself."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
