"""The progress of a run in a notebook: one line that changes in place."""

from __future__ import annotations

import html
import importlib
import json
import sys
import tomllib
from pathlib import Path
from typing import Any


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


class NotebookLine:
    """The latest evaluation of a run, as its directory has it: a bar of tqdm where that is installed, or a line of text."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read = 0
        self._line: _TqdmBar | _Line | None = None

    def update(self) -> None:
        """Shows the latest evaluation, if it is new."""
        if (latest := self._latest()) is not None:
            if self._line is None:
                self._line = _line(self._plan())
            self._line.show(latest["clock"], _figures(latest, "metric", latest["metric"]))

    def end(self, summary: dict[str, Any] | None) -> None:
        """Shows the summary of the run in its place. ``None`` where the run has failed: the latest evaluation stays."""
        self.update()
        if self._line is None:
            return
        if summary is not None:
            metric = summary["metric"]
            self._line.show(summary["clocks"], _figures(summary, metric["name"], metric["value"]))
        self._line.close()

    def _plan(self) -> dict[str, Any]:
        return tomllib.loads((self._directory / "run.toml").read_text())

    def _latest(self) -> dict[str, Any] | None:
        """The last line of ``progress.jsonl``. ``None`` where nothing was added to it since the last call."""
        path = self._directory / "progress.jsonl"
        if not path.exists():
            return None
        with path.open("rb") as file:
            file.seek(self._read)
            # The last line may not be whole yet.
            lines, end, _ = file.read().rpartition(b"\n")
        self._read += len(lines) + len(end)
        return json.loads(lines.splitlines()[-1]) if lines else None


class _TqdmBar:
    """A bar of tqdm, which knows consoles and notebooks."""

    def __init__(self, tqdm: Any, name: str, clocks: int | None) -> None:
        self._bar = tqdm(total=clocks, desc=name, unit="clock")

    def show(self, clock: int, figures: str) -> None:
        self._bar.n = clock
        self._bar.set_postfix_str(figures)

    def close(self) -> None:
        self._bar.close()


class _Line:
    """A line that IPython displays again under the same name."""

    def __init__(self, name: str, clocks: int | None) -> None:
        self._name, self._clocks = name, clocks
        self._handle: Any = None

    def show(self, clock: int, figures: str) -> None:
        of = "" if self._clocks is None else f" of {self._clocks}"
        text = f"{self._name}: clock {clock}{of}, {figures}"
        share = "" if self._clocks is None else f'<progress value="{clock}" max="{self._clocks}"></progress> '
        data = {"text/plain": text, "text/html": share + html.escape(text)}
        if self._handle is None:
            # Its annotations differ from version to version.
            display: Any = importlib.import_module("IPython.display").display
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def close(self) -> None:
        """Nothing: what was displayed stays."""


def _line(plan: dict[str, Any]) -> _TqdmBar | _Line:
    name, clocks = plan["name"], plan.get("stop", {}).get("clocks")
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Line(name, clocks)
    return _TqdmBar(tqdm, name, clocks)


def _figures(record: dict[str, Any], metric: str, value: float | None) -> str:
    """``objective 0.1234, accuracy 0.9876, 12.3 s, 4.50 MB over the WAN``."""
    found = [f"{name} {'not finite' if one is None else f'{one:.4g}'}" for name, one in [("objective", record["objective"]), (metric, value)]]
    return ", ".join([*found, f"{record['time_s']:.1f} s", f"{record['wan_bytes'] / 1e6:.2f} MB over the WAN"])
