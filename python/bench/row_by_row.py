"""What programs have in common that measure one system after the other, and print a table with a row for each."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from network import NotAllowed
from pages import between
from running import Failed
from systems import SYSTEMS

Found = TypeVar("Found")


def parser(description: str, systems: Sequence[str], regions: int, regions_max: int) -> argparse.ArgumentParser:
    """A parser of the options that all have. ``systems`` and ``regions`` are what is measured unless others are named."""
    found = argparse.ArgumentParser(description=description, allow_abbrev=False)
    every = ",".join(systems)
    found.add_argument("--systems", type=lambda text: text.split(","), default=list(systems), help=f"[default: {every}]")
    counts = range(2, regions_max + 1)
    found.add_argument("--regions", type=int, choices=counts, default=regions, help=f"data centers [default: {regions}]")
    found.add_argument("--page", type=Path, help="a page whose table is written")
    found.add_argument("--json", action="store_true", help="a line of JSON for each system, after the table")
    return found


def parsed(options: argparse.ArgumentParser) -> argparse.Namespace:
    arguments = options.parse_args()
    if unknown := set(arguments.systems) - set(SYSTEMS):
        options.error(f"unknown systems {sorted(unknown)}, expected some of {list(SYSTEMS)}")
    return arguments


def measure(
    arguments: argparse.Namespace, place: str, measured: Callable[[str], Found], table: Callable[[dict[str, Found]], str]
) -> None:
    """Measures each system, and prints the table of what was found, which is also written to its place in a page."""
    found: dict[str, Found] = {}
    for system in arguments.systems:
        try:
            found[system] = measured(system)
        except NotAllowed as error:
            print(f"skipped: {error}", file=sys.stderr)
            return
        except Failed as failure:
            print(f"{system}: left out, {failure}", file=sys.stderr)
    print(table(found))
    for system, one in found.items() if arguments.json else ():
        print(json.dumps({"system": system, "regions": arguments.regions, **vars(one)}))
    if arguments.page is not None:
        arguments.page.write_text(between(arguments.page.read_text(), place, table(found) + "\n"))
