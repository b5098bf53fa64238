#!/usr/bin/env python3
"""What a script has to change for each system, and what has to be started: counted over the digits example.

    python/bench/lines.py [--json]

A line counts that the plain script lacks, and one that it has and the other script lacks. A statement is one line, however it is
broken; the head of a block is one. Blank lines, comments, docstrings and indentation do not count. Of what is started, processes
are those that stay for three regions with one worker each; words are flags, arguments and environment variables.
"""

from __future__ import annotations

import ast
import difflib
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).parent
EXAMPLES = BENCH.parent / "examples"
PLAIN = EXAMPLES / "digits_plain.py"


@dataclass(frozen=True)
class System:
    """A system's script of the digits, and the commands that train it over three regions."""

    name: str
    script: Path
    #: Run once, beforehand.
    prepared: tuple[str, ...]
    #: One for all regions, and one for each. They stay until training ends.
    shared: tuple[str, ...]
    of_each_region: str
    #: A file that the processes share, in lines of those of the example.
    file: Path | None = None


TORCHRUN = "torchrun --nnodes=3 --node_rank=1 --nproc_per_node=1 --master_addr=virginia.example.com --master_port=29500 digits.py"
SYSTEMS = (
    System("PyTorch DDP", BENCH / "peers" / "digits_ddp.py", (), (), TORCHRUN),
    System(
        "torchft DiLoCo",
        BENCH / "peers" / "digits_torchft.py",
        (),
        ("torchft_lighthouse --min_replicas 3 --join_timeout_ms 10000",),
        "TORCHFT_LIGHTHOUSE=http://virginia.example.com:29510 REPLICA_GROUP_ID=1 NUM_REPLICA_GROUPS=3 "
        "torchrun --nnodes=1 --nproc_per_node=1 digits.py",
    ),
    System(
        "hivemind",
        BENCH / "peers" / "digits_hivemind.py",
        (),
        ("hivemind-dht --host_maddrs /ip4/0.0.0.0/tcp/31337 --identity_path identity",),
        "INITIAL_PEERS=/ip4/203.0.113.1/tcp/31337/p2p/PEER REGION=1 REGIONS=3 python digits.py",
    ),
    System(
        "Gaia, in regions",
        EXAMPLES / "digits.py",
        ("gaia certs init run.toml --out certs",),
        ("GAIA_CERTS=certs gaia node run.toml --script digits.py --coordinator",),
        "GAIA_CERTS=certs GAIA_RUN=run.toml GAIA_DC=ireland python digits.py",
        EXAMPLES / "hosts.toml",
    ),
    System(
        "Gaia, simulated",
        EXAMPLES / "digits.py",
        (),
        ("gaia train run.toml --script digits.py",),
        "",
        EXAMPLES / "regions.toml",
    ),
)


def main() -> int:
    rows = [row(system) for system in SYSTEMS]
    print(f"{'':18} {'added':>6} {'removed':>8} {'commands':>9} {'processes':>10} {'words each':>11} {'file lines':>11}")
    for one in rows:
        script = f"{one['added']:6} {one['removed']:8}"
        started = f"{one['commands']:9} {one['processes']:10} {one['words']:11} {one['file']:11}"
        print(f"{one['system']:18} {script} {started}")
    for one in rows if "--json" in sys.argv[1:] else ():
        print(json.dumps(one))
    return 0


def row(system: System) -> dict[str, object]:
    added, removed = changed(PLAIN, system.script)
    regions = 3 if system.of_each_region else 0
    # torchrun stays beside the script that it starts.
    each = 2 if "torchrun" in system.of_each_region else 1
    return {
        "system": system.name,
        "added": added,
        "removed": removed,
        "commands": len(system.prepared) + len(system.shared) + regions,
        "processes": len(system.shared) + each * regions,
        "words": words(system.of_each_region or system.shared[0]),
        "file": len(code(system.file)) if system.file else 0,
    }


def changed(plain: Path, script: Path) -> tuple[int, int]:
    """How many lines a script has that the plain one lacks, and the reverse."""
    lines = list(difflib.ndiff(code(plain), code(script)))
    return sum(line.startswith("+ ") for line in lines), sum(line.startswith("- ") for line in lines)


def code(path: Path) -> list[str]:
    """The lines of a file that are code, without their indentation."""
    text = path.read_text()
    if path.suffix == ".py":
        text = ast.unparse(without_docstring(ast.parse(text)))
    lines = (line.split(" #")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def without_docstring(module: ast.Module) -> ast.Module:
    if ast.get_docstring(module) is not None:
        module.body = module.body[1:]
    return module


def words(command: str) -> int:
    """The flags, arguments and variables of a command: all its words but the programs and the script."""
    programs = ("torchrun", "python", "gaia", "digits.py")
    return sum(word not in programs for word in shlex.split(command))


if __name__ == "__main__":
    raise SystemExit(main())
