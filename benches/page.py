#!/usr/bin/env python3
"""Puts the rows of `scripts/bench --json` into a page as tables.

    scripts/bench --quick --json | python3 benches/page.py docs/src/performance.md

In the page, `<!-- rows BENCH -->` and `<!-- end -->` enclose the table of a bench, and what says when and where its rows were
measured. What is between them is replaced. Benches without rows keep theirs, and benches without a place in the page are named
and left out.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    page = Path(sys.argv[1])
    rows = [json.loads(line) for line in sys.stdin if line.startswith("{")]
    page.write_text(with_rows(page.read_text(), rows, machine()))


def with_rows(page: str, rows: list[dict], machine: str) -> str:
    """The page with other rows. Ends the program where the page has a place for none of them."""
    benches = list(dict.fromkeys(row["bench"] for row in rows))
    placed = [bench for bench in benches if f"<!-- rows {bench} -->" in page] or benches
    for bench in benches:
        if bench not in placed:
            print(f"left out: {bench}, since the page has no `<!-- rows {bench} -->`", file=sys.stderr)
    for bench in placed:
        # Rows of another bench may be of another day and machine.
        page = between(page, f"rows {bench}", f"{table(row for row in rows if row['bench'] == bench)}\n{machine}")
    return page


def between(page: str, name: str, text: str) -> str:
    """The page with another text between the marker of this name and the next end."""
    place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not place.search(page):
        sys.exit(f"error: the page has no `<!-- {name} -->` with an `<!-- end -->`")
    return place.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", page, count=1)


def table(rows: Iterable[dict]) -> str:
    lines = ["| | median and range | unit | ratio | of | runs |", "|---|---|---|---|---|---|"]
    for row in rows:
        value, ratio, of = with_range(row["value"], row["range"]), "–", row["reference"]
        if row["ratio"] is not None:
            ratio = with_range(row["ratio"], row["ratio_range"])
            of = f"{of}, {digits(row['reference_value'])}"
        lines.append(f"| {row['name']} | {value} | {row['unit']} | {ratio} | {of} | {row['runs']} |")
    return "\n".join([*lines, ""])


def with_range(median: float, ends: list[float]) -> str:
    low, high = map(digits, ends)
    return digits(median) if low == high else f"{digits(median)} ({low} to {high})"


def digits(value: float) -> str:
    """Three digits of a number that is neither very small nor very large."""
    size = abs(value)
    return f"{value:.{3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0}f}"


def machine() -> str:
    """When and where rows were measured, in a sentence."""
    version = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    compiler = version.stdout.split(" (")[0]
    return (
        f"Measured on {datetime.date.today()} with {compiler}, on {os.cpu_count()} cores of {processor()}.\n"
        f"At the end {os.getloadavg()[0]:.1f} processes of the machine ran or waited for a core.\n"
    )


def processor() -> str:
    """The model of the processor."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else "a processor of unknown model"


if __name__ == "__main__":
    main()
