"""The stub of the extension module against what is built."""

import os
import subprocess
import sys

import pytest
from conftest import environment


def test_the_stub_says_what_the_extension_module_has(tmp_path):
    pytest.importorskip("mypy.stubtest", reason="skipped: mypy is not installed")
    command = [sys.executable, "-m", "mypy.stubtest", "gaia._gaia"]
    # Type checkers look for packages in MYPYPATH, and the interpreter in PYTHONPATH.
    import gaia

    folder = os.path.dirname(os.path.dirname(gaia.__file__))
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment(MYPYPATH=folder), capture_output=True, text=True, timeout=240
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
