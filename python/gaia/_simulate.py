"""``gaia.simulate``: a run in this process, such as a notebook."""

from __future__ import annotations

import html
import json
import tempfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from gaia import _gaia
from gaia._errors import GaiaError
from gaia._program import PROGRAM
from gaia._scripts import Scripts

#: What is run where no run file is named: ASP over three regions of EC2.
DEFAULT_RUN = """
name = "script"
driver = "simulated"
app.kind = "external"
topology.file = "three-regions"
sync.remote = { model = "asp", function = "progress", threshold = 0.1 }
stop.clocks = 100
"""


class Result(dict[str, Any]):
    """The summary of a run, as ``summary.json`` has it. A notebook shows its report."""

    def __init__(self, summary: Mapping[str, Any], directory: Path) -> None:
        super().__init__(summary)
        #: The directory of the run: ``run.toml``, ``progress.jsonl``, ``model.safetensors``, ``report.html``.
        self.directory = directory

    @property
    def progress(self) -> list[dict[str, Any]]:
        """All evaluations, in order."""
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
        set: Settings that replace those of the run file, such as ``{"stop.clocks": 20, "sync.remote.model": "bsp"}``.
        out: The directory of the run. By default a new temporary one, which is kept.
        driver: ``simulated``: in virtual time, and the same run gives the same figures. ``emulated``: over QUIC, in real time.
        quiet: Whether nothing is shown on standard error.

    Raises:
        GaiaError: The run file is wrong, or the run has failed. The first exception of ``main`` is raised as it is.
    """
    directory = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="gaia-")) / "run"
    if run is None:
        directory.parent.mkdir(parents=True, exist_ok=True)
        run = directory.parent / f"{directory.name}.toml"
        run.write_text(DEFAULT_RUN.lstrip())
    settings = {"app.kind": "external", **(set or {})}
    arguments = ["gaia", "train", str(run), "--driver", driver, "--out", str(directory)]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    scripts = Scripts(main)
    code, text = _gaia.try_run(arguments + (["--quiet"] if quiet else []), scripts.start, PROGRAM)
    scripts.join()
    for failure in scripts.failures[:1]:
        raise failure
    if text is not None:
        raise GaiaError(text, code)
    return Result(json.loads((directory / "summary.json").read_text()), directory)
