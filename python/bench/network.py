"""Regions as network namespaces around a bridge, each behind a link that ``tc tbf`` shapes both ways. They need root on Linux.

A round trip between two regions crosses the link of each twice. With a round-trip time each link has a delay line for a quarter
of it each way; without one a round trip takes what the queues of the links take.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from gaia_nodes import Region
from running import Failed, Processes

_HERE = Path(__file__).resolve().parent

#: The longest that a frame waits at the beginning of a link, as in Gaia's topologies by default.
QUEUE_MS = 100


class NotAllowed(Exception):
    """Namespaces, virtual links or shaping are not allowed here."""


class Network:
    """A context: the namespaces and the delay lines are gone after it. ``folder`` is for what delay lines write."""

    def __init__(self, names: tuple[str, ...], rate: str, folder: Path, rtt_ms: float = 0.0) -> None:
        self._prefix = f"gaiab{os.getpid()}"
        self._rate, self._rtt_ms = rate, rtt_ms
        self._lines = Processes(folder)
        self._spaces = [f"{self._prefix}d{number}" for number in range(len(names))]
        self.regions = tuple(
            Region(name, f"10.78.0.{number + 1}", ("ip", "netns", "exec", space))
            for number, (name, space) in enumerate(zip(names, self._spaces, strict=True))
        )

    def __enter__(self) -> Network:
        self._lines.__enter__()
        try:
            self._make()
        except BaseException as error:
            self.__exit__()
            if isinstance(error, (OSError, subprocess.CalledProcessError)):
                reason = getattr(error, "stderr", None) or error
                raise NotAllowed(f"network namespaces are not allowed here: {reason}") from None
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.__exit__()
        for space in [*self._spaces, self._hub]:
            # One that was not made cannot be removed.
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)

    def check(self) -> None:
        """Looks whether the network is whole.

        Raises:
            Failed: A delay line has ended.
        """
        self._lines.running()

    def round_trips_ms(self, count: int = 20) -> list[float]:
        """Round trips of ICMP echoes from the first region to the second, in ascending order, while nothing else is sent.

        Raises:
            Failed: An echo has not come back.
        """
        command = [*self.regions[0].enter, sys.executable, str(_HERE / "ping.py"), self.regions[1].address, str(count)]
        try:
            return sorted(json.loads(run(*command)))
        except subprocess.CalledProcessError as error:
            raise Failed(f"no echo from {self.regions[1].address}: {error.stderr}") from None

    def _make(self) -> None:
        hub = self._hub
        run("ip", "netns", "add", hub)
        run("ip", "-n", hub, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "br0", "up")
        for number, (space, region) in enumerate(zip(self._spaces, self.regions, strict=True)):
            port, near = f"p{number}", f"n{number}"
            run("ip", "netns", "add", space)
            if self._rtt_ms > 0:
                # The cable of the region ends at `near`, that of the bridge at `far`, and the line is between them.
                far = f"f{number}"
                run("ip", "-n", hub, "link", "add", near, "type", "veth", "peer", "eth0", "netns", space)
                run("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", far)
                run("ip", "-n", hub, "link", "set", near, "up")
                run("ip", "-n", hub, "link", "set", far, "up")
                line = ["ip", "netns", "exec", hub, sys.executable, "-I", _HERE / "delay_line.py"]
                self._lines.start(f"line-{region.name}", [*line, near, far, self._rtt_ms / 4])
            else:
                run("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "eth0", "netns", space)
            run("ip", "-n", hub, "link", "set", port, "master", "br0", "up")
            run("ip", "-n", space, "addr", "add", f"{region.address}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            run("ip", "-n", space, "link", "set", "lo", "up")
            for inside, device in ((hub, port), (space, "eth0")):
                shape = ["root", "tbf", "rate", self._rate, "burst", "64kb", "latency", f"{QUEUE_MS}ms"]
                run("tc", "-n", inside, "qdisc", "add", "dev", device, *shape)

    @property
    def _hub(self) -> str:
        return f"{self._prefix}h"


def run(*command: str) -> str:
    """Runs a command, and returns what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
