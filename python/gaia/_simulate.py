"""``gaia.simulate``: a run in this process, such as a notebook."""

from __future__ import annotations

import contextlib
import html
import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from gaia import _gaia
from gaia._errors import GaiaError
from gaia._log import flush, follow
from gaia._place import worker
from gaia._program import PROGRAM
from gaia._scripts import Scripts, check_turn
from gaia._shown import NotebookLine, in_notebook
from gaia._toml import flag_values

#: What is run where no run file is named: ASP over three regions of EC2.
DEFAULT_RUN = """
name = "script"
driver = "simulated"
app.kind = "external"
topology.file = "three-regions"
sync.remote.model = "asp"
stop.clocks = 100
"""


class Result(dict[str, Any]):
    """The summary of a run, as ``summary.json`` has it. A notebook shows its report.

    A name whose figure has a unit ends in it: ``time_s`` are seconds of the driver from the start to the end of training, which
    are virtual in simulation, ``wan_bytes`` are bytes that have entered links between data centers, and ``wan_cost_usd`` US
    dollars for them. ``clocks`` is the number of clocks that every data center has finished. ``objective`` is the loss and
    ``metric["value"]`` the metric called ``metric["name"]``, of the final model and in the units of ``evaluate``; ``None`` is a
    number that is not finite. ``copies_equal`` is whether all data centers have ended with the same values.
    """

    def __init__(self, summary: Mapping[str, Any], directory: Path) -> None:
        super().__init__(summary)
        #: The directory of the run: ``run.toml``, ``progress.jsonl``, ``model.safetensors``, ``report.html``.
        self.directory = directory

    @property
    def progress(self) -> list[dict[str, Any]]:
        """All evaluations, in order, as the lines of ``progress.jsonl`` have them.

        Each has ``time_s``, seconds of the driver since the start; ``clock``, that of the slowest data center; ``objective``,
        the loss, and ``metric``, both in the units of ``evaluate``, where ``None`` is a number that is not finite; and
        ``wan_bytes``, the bytes that have entered links between data centers so far. ``data_centers`` has for each of them its
        ``name``, ``clock``, ``objective`` and ``metric``, the bytes that it has sent to others so far, in all
        (``wan_sent_bytes``) and by the data center at the other end (``sent_bytes``), and ``blocked_s``, the seconds that its
        workers were held back so far, added up.
        """
        return [json.loads(line) for line in (self.directory / "progress.jsonl").read_text().splitlines()]

    def _repr_html_(self) -> str:
        page = html.escape((self.directory / "report.html").read_text(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'


def simulate(
    main: Callable[[], object],
    run: str | PathLike[str] | None = None,
    *,
    set: Mapping[str, object] | None = None,
    out: str | PathLike[str] | None = None,
    driver: str = "simulated",
    quiet: bool = True,
) -> Result:
    """Trains a script that is a function, with a thread for each worker of a run.

    Args:
        main: What a script does: it builds a model, calls :func:`gaia.join` and trains.
        run: The run file. By default ASP over three regions, 100 clocks.
        set: Settings that replace those of the run file, such as ``{"stop.clocks": 20, "sync.remote.model": "bsp"}``. Values are
            text, as after ``--set`` on the command line, numbers, booleans, paths, and lists and dicts of such: a dict takes the
            place of a whole table. Relative paths are relative to the working directory.
        out: The directory of the run. By default a new temporary one, which is kept.
        driver: ``simulated``: in virtual time, and the same run gives the same figures. ``emulated``: over QUIC, in real time.
        quiet: Whether no progress is shown. A notebook shows one line that changes in place. Elsewhere progress goes to standard
            error: what ``gaia train`` shows in a terminal, or a plain line a second.

    Raises:
        GaiaError: An argument or the run file is wrong, this is the script of a run, a script of an earlier run has not ended, or
            the run has failed. The first exception of ``main`` is raised as it is.
        KeyboardInterrupt: The run was interrupted, and has ended in order: its directory has the model so far. A second
            interrupt does not wait for it.
    """
    if not callable(main):
        raise GaiaError(f"main is {main!r}, expected a function: gaia.simulate(main), and not gaia.simulate(main())", 2)
    if driver not in DRIVERS:
        raise GaiaError(f"driver is {driver!r}, expected one that runs a function in this process: {' or '.join(DRIVERS)}", 2)
    # The scripts of the inner run would wait for the turn that the one of the outer run has.
    if (outer := worker()) is not None and outer.turn is not None:
        raise GaiaError("gaia.simulate(...) was called in a script of a run, expected it outside of all runs", 2)
    check_turn()
    settings = {"app.kind": "external", **flag_values(set or {})}
    # A script may change the working directory.
    directory = Path(out).absolute() if out is not None else Path(tempfile.mkdtemp(prefix="gaia-")) / "run"
    flags = ["--driver", driver, "--out", str(directory)]
    for key, value in settings.items():
        flags += ["--set", f"{key}={value}"]
    line = NotebookLine(directory) if not quiet and in_notebook() else None
    if quiet or line is not None:
        flags.append("--quiet")
    scripts = Scripts(main)
    try:
        follow()
    except ValueError as error:
        raise GaiaError(str(error), 2) from None

    summary = None
    try:
        with _run_file(run) as file:
            arguments = ["gaia", "train", str(file), *flags]
            code, text, interruption = _Running(arguments, scripts).wait(line)
        for failure in scripts.failures[:1]:
            raise failure
        if interruption is not None:
            raise interruption
        if text is not None:
            raise GaiaError(text, code)
        summary = json.loads((directory / "summary.json").read_text())
    finally:
        scripts.leave()
        if line is not None:
            line.end(summary)
    return Result(summary, directory)


@contextlib.contextmanager
def _run_file(named: str | PathLike[str] | None) -> Iterator[str | PathLike[str]]:
    """The run file that is named, or that of the default run for as long as a run takes."""
    if named is not None:
        yield named
        return
    with tempfile.TemporaryDirectory(prefix="gaia-") as folder:
        path = Path(folder) / "script.toml"
        path.write_text(DEFAULT_RUN.lstrip())
        yield path


class _Running:
    """A run in a thread of its own. The thread that waits for it hands on what it logs, shows how it goes, and hears Ctrl-C."""

    def __init__(self, arguments: Sequence[str], scripts: Scripts) -> None:
        self._interrupt = _gaia.Interrupt()
        self._result: tuple[int, str | None] = (1, "the run has ended without a result")
        # A thread itself is no good to wait for: an interrupted `join` takes it for one that has ended (bpo-45274).
        self._ended = threading.Event()
        threading.Thread(target=self._run, args=(arguments, scripts), name="gaia-run", daemon=True).start()

    def _run(self, arguments: Sequence[str], scripts: Scripts) -> None:
        try:
            code, text = _gaia.try_run(arguments, scripts.start, PROGRAM, self._interrupt)
            scripts.join(failed=text is not None)
            self._result = code, text
        finally:
            self._ended.set()

    def wait(self, line: NotebookLine | None) -> tuple[int, str | None, KeyboardInterrupt | None]:
        """Waits for the end of the run: its exit code, what went wrong, and the interrupt that has ended it in order.

        Raises:
            KeyboardInterrupt: The run was interrupted a second time.
        """
        interruption = None
        while True:
            try:
                if self._ended.wait(LOOK_EVERY_S):
                    break
                flush()
                if line is not None:
                    line.update()
            except KeyboardInterrupt as first:
                if interruption is not None:
                    raise
                interruption = first
                self._interrupt.set()
        flush()
        return *self._result, interruption


#: The drivers that run functions.
DRIVERS = ("simulated", "emulated")

#: How often the waiting thread looks what is new.
LOOK_EVERY_S = 0.1
