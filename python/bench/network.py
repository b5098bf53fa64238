"""Regions as network namespaces around a bridge, each behind a link that ``tc tbf`` shapes both ways. They need root on Linux.

Nothing adds a delay, so a round trip takes what the queues of the links take.
"""

from __future__ import annotations

import os
import subprocess

from gaia_nodes import Region


class NotAllowed(Exception):
    """Namespaces, virtual links or shaping are not allowed here."""


class Network:
    """A context: the namespaces are gone after it."""

    def __init__(self, names: tuple[str, ...], rate: str) -> None:
        self._prefix = f"gaiab{os.getpid()}"
        self._rate = rate
        self._spaces = [f"{self._prefix}d{number}" for number in range(len(names))]
        self.regions = tuple(
            Region(name, f"10.78.0.{number + 1}", ("ip", "netns", "exec", space))
            for number, (name, space) in enumerate(zip(names, self._spaces, strict=True))
        )

    def __enter__(self) -> Network:
        try:
            self._make()
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            raise NotAllowed(f"network namespaces are not allowed here: {getattr(error, 'stderr', error)}") from None
        return self

    def __exit__(self, *_: object) -> None:
        for space in [*self._spaces, self._hub]:
            # One that was not made cannot be removed.
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)

    def _make(self) -> None:
        hub = self._hub
        run("ip", "netns", "add", hub)
        run("ip", "-n", hub, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "br0", "up")
        for number, (space, region) in enumerate(zip(self._spaces, self.regions, strict=True)):
            port = f"p{number}"
            run("ip", "netns", "add", space)
            run("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "eth0", "netns", space)
            run("ip", "-n", hub, "link", "set", port, "master", "br0", "up")
            run("ip", "-n", space, "addr", "add", f"{region.address}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            run("ip", "-n", space, "link", "set", "lo", "up")
            for inside, device in ((hub, port), (space, "eth0")):
                shape = ["root", "tbf", "rate", self._rate, "burst", "64kb", "limit", "256kb"]
                run("tc", "-n", inside, "qdisc", "add", "dev", device, *shape)

    @property
    def _hub(self) -> str:
        return f"{self._prefix}h"


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
