"""Runs over processes, each of which is started by itself."""

import socket
import subprocess
import sys

from conftest import environment, gaia, write


def port():
    """A free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Cluster:
    """Two data centers, east and west, with one worker and one server each, on this machine."""

    def __init__(self, folder, clocks=15):
        self.folder = folder
        centers = "\n".join(
            f'[[topology.data_center]]\nname = "{name}"\nservers = 1\nworkers = 1\n'
            f'server_addresses = ["127.0.0.1:{port()}"]'
            for name in ("east", "west")
        )
        self.run = write(
            folder / "run.toml",
            f'name = "two"\ndriver = "real"\napp.kind = "external"\nsync.remote = {{ model = "bsp" }}\nstop.clocks = {clocks}\n'
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

    def coordinator(self, script):
        return self.start("-m", "gaia", "node", self.run, "--script", script, "--coordinator", "--out", "out")

    def worker(self, script, dc, **variables):
        return self.start(script, GAIA_RUN=str(self.run), GAIA_DC=dc, **variables)


def said(nodes):
    """What nodes have written once all have ended: standard output and standard error of each."""
    try:
        return [node.communicate(timeout=60) for node in nodes]
    finally:
        for node in nodes:
            node.kill()
