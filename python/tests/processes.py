"""Runs over processes, each of which is started by itself."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

from conftest import environment, gaia, write


def port():
    """A free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Cluster:
    """Two data centers, east and west, on this machine. `workers` are those of each, or of east and of west. `keys` are more lines
    of the run file."""

    def __init__(self, folder, clocks=15, workers=1, servers=1, remote="bsp", keys=""):
        self.folder = folder
        east, west = workers if isinstance(workers, tuple) else (workers, workers)
        centers = "\n".join(
            f'[[topology.data_center]]\nname = "{name}"\nservers = {servers}\nworkers = {count}\n'
            f"server_addresses = {[f'127.0.0.1:{port()}' for _ in range(servers)]}"
            for name, count in (("east", east), ("west", west))
        )
        self.run = write(
            folder / "run.toml",
            f'name = "two"\ndriver = "real"\napp.kind = "external"\nsync.remote = {{ model = "{remote}" }}\nstop.clocks = {clocks}\n'
            f"{keys}\n"
            f'[topology]\nname = "two"\ncoordinator_address = "127.0.0.1:{port()}"\n'
            'wan = { bandwidth = "100 Mbit/s", rtt = "10 ms" }\n' + centers,
        )
        issued = gaia("certs", "init", self.run, "--out", "certs", cwd=folder)
        assert issued.returncode == 0, issued.stderr

    def start(self, *arguments, **variables):
        """Starts Python with these arguments."""
        command = [sys.executable, *map(str, arguments)]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=environment(**variables), **output)

    def node(self, program, *arguments):
        """Starts nodes without a script. `program` is the command up to the verb."""
        command = [*program, "node", self.run, *arguments]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([str(part) for part in command], cwd=self.folder, env=environment(), **output)

    def coordinator(self, script):
        return self.start("-m", "gaia", "node", self.run, "--script", script, "--coordinator", "--out", "out")

    def server(self, script, dc):
        """A server by itself, which keeps its state."""
        arguments = ["--script", script, "--dc", dc, "--server", "0", "--state", f"state-{dc}", "--quiet"]
        return self.start("-m", "gaia", "node", self.run, *arguments)

    def worker(self, script, dc, **variables):
        return self.start(script, GAIA_RUN=str(self.run), GAIA_DC=dc, **variables)

    def torchrun(self, script, dc, processes=2, **variables):
        """What a torchrun in a data center starts: processes of torch.distributed. They see no device of CUDA, of which a machine
        may have fewer than there are processes."""
        variables = {"CUDA_VISIBLE_DEVICES": "", **variables}
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port()), "WORLD_SIZE": str(processes)}
        ranks = map(str, range(processes))
        return [self.worker(script, dc, RANK=rank, LOCAL_RANK=rank, **address, **variables) for rank in ranks]


def appears(path, *nodes):
    """Waits until a file is there, as long as these processes run."""
    for _ in range(6000):
        if path.exists():
            return
        for node in nodes:
            assert node.poll() is None, node.communicate()
        time.sleep(0.01)
    raise AssertionError(f"{path} does not appear")


@contextlib.contextmanager
def ended(*nodes):
    """Ends processes with their block, also where it fails."""
    try:
        yield
    finally:
        for node in nodes:
            node.kill()
            node.communicate()


def interrupt(node):
    """Ctrl-C, and what the process has written by its end."""
    node.send_signal(signal.SIGINT)
    # Far longer than it takes, and far shorter than any wait of a run.
    return node.communicate(timeout=20)


def have_ended(pids):
    """Waits for processes that are no children of this one. Returns whether none is left."""
    for _ in range(1000):
        if not any(map(is_running, pids)):
            return True
        time.sleep(0.01)
    return False


def is_running(pid):
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def said(nodes):
    """What nodes have written once all have ended: standard output and standard error of each."""
    try:
        return [node.communicate(timeout=240) for node in nodes]
    finally:
        for node in nodes:
            node.kill()
