"""What nodes log, in Python's `logging`."""

import subprocess
import sys

from conftest import EXAMPLES, environment, gaia as command, write
from processes import Cluster, said

from gaia import _log

#: A script that simulates a run which logs, and shows what arrives.
SIMULATED = """
import logging, sys, threading
import gaia, numpy
CONFIGURE

def main():
    run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 1.0)
    while not run.over:
        run.step()

gaia.simulate(main, "RUN", set={"stop.clocks": CLOCKS}, driver="emulated")
print("done", flush=True)
"""

HANDLER = """
class Handler(logging.Handler):
    def emit(self, record):
        print(record.levelname, record.name, record.getMessage(), threading.current_thread().name)
logging.getLogger("gaia").addHandler(Handler())
"""


def simulated(folder, run, configure, clocks=5, **variables):
    path = write(folder / "logs.py", SIMULATED.replace("CONFIGURE", configure).replace("RUN", str(run)).replace("CLOCKS", str(clocks)))
    ended = subprocess.run([sys.executable, path], env=environment(**variables), capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_levels_of_loggers_select_what_nodes_log(three, tmp_path):
    told = simulated(tmp_path, three, HANDLER + 'logging.getLogger("gaia").setLevel(logging.DEBUG)\n')
    lines = told.stdout.splitlines()
    assert lines[-1] == "done" and len(lines) > 1, told.stdout
    levels, names = {line.split()[0] for line in lines[:-1]}, {line.split()[1] for line in lines[:-1]}
    assert "DEBUG" in levels and any(name.startswith("gaia.driver") for name in names), told.stdout
    # The thread that has called `simulate` hands them on.
    assert all(line.endswith(" MainThread") for line in lines[:-1]), told.stdout
    assert told.stderr == ""

    silent = simulated(tmp_path, three, "")
    assert (silent.stdout, silent.stderr) == ("done\n", "")


def test_a_logger_below_selects_what_is_below(three, tmp_path):
    below = HANDLER + 'logging.getLogger("gaia.driver").setLevel(logging.DEBUG)\n'
    names = {line.split()[1] for line in simulated(tmp_path, three, below).stdout.splitlines()[:-1]}
    assert names and all(name.startswith("gaia.driver") for name in names), names


def test_gaia_log_selects_what_nodes_log(three, tmp_path):
    everything = HANDLER + "logging.getLogger().setLevel(logging.DEBUG)\n"
    found = simulated(tmp_path, three, everything, GAIA_LOG="gaia_driver=trace")
    assert len(found.stdout.splitlines()) > 1, found.stdout
    none = simulated(tmp_path, three, everything, GAIA_LOG="off")
    assert none.stdout == "done\n"


def test_a_filter_that_is_none_is_refused(tmp_path):
    run = write(tmp_path / "wrong.py", "import gaia\ngaia.simulate(lambda: None)\n")
    ended = subprocess.run([sys.executable, run], env=environment(GAIA_LOG="gaia=loud"), capture_output=True, text=True)
    assert ended.returncode == 1 and "GAIA_LOG is `gaia=loud`" in ended.stderr, ended.stderr


def test_names_of_loggers():
    names = {
        "gaia_driver::real": "gaia.driver.real",
        "gaia::told": "gaia.told",
        "gaia": "gaia",
        "quinn::connection": "gaia.quinn.connection",
    }
    for target, name in names.items():
        assert _log._name(target) == name


def test_a_handler_that_hangs_delays_no_node_and_what_is_dropped_is_counted(three, tmp_path):
    hangs = (
        "class Hanging(logging.Handler):\n"
        "    def emit(self, record):\n"
        "        while any(thread.name == 'gaia-run' and thread.is_alive() for thread in threading.enumerate()):\n"
        "            threading.Event().wait(0.01)\n"
        "logging.getLogger('gaia').addHandler(Hanging())\n"
        "logging.getLogger('gaia').setLevel(1)\n"
    )
    found = simulated(tmp_path, three, HANDLER + hangs, clocks=100, GAIA_LOG="trace")
    lines = found.stdout.splitlines()
    assert "later records were dropped" in lines[-2] and lines[-2].startswith("WARNING gaia "), lines[-3:]


def test_a_script_that_is_a_node_logs_to_logging(tmp_path):
    """Warnings are shown where nobody configures logging: by Python's last resort, without level and name."""
    text = (
        "import gaia, numpy, logging, os\n"
        "if os.environ.get('GAIA_DC') == 'east':\n"
        "    logging.basicConfig(level=logging.INFO, format='%(levelname)s %(name)s %(message)s')\n"
        "run = gaia.join({'w': numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 1.0)\n"
        "while not run.over:\n"
        "    run.step()\n"
    )
    cluster, path = Cluster(tmp_path), write(tmp_path / "script.py", text)
    nodes = [cluster.worker(path, dc) for dc in ("east", "west")]
    nodes.append(cluster.coordinator(path))
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0, 0, 0], texts
    assert "INFO gaia.driver.real" in texts[0][1], texts
    assert "INFO" not in texts[1][1], texts


def test_the_command_line_logs_to_standard_error(tmp_path):
    arguments = ["--script", EXAMPLES / "least_squares.py", "--driver", "emulated", "--set", "stop.clocks=5", "--quiet"]
    ended = command("train", EXAMPLES / "regions.toml", *arguments, "--set", "compute.examples_per_second=20000", cwd=tmp_path, GAIA_LOG="gaia=debug")
    assert ended.returncode == 0 and "INFO gaia_driver: run starts" in ended.stderr, ended.stderr
