"""A long cable in user space: carries every frame between two network interfaces, in both directions, after a delay.

    delay_line.py FIRST SECOND MS

For kernels without ``tc netem``. Frames are taken and sent with the header that says what is left to the network card
(``PACKET_VNET_HDR``), so that segments of 64 KB that TCP and QUIC hand down, and checksums that nobody has computed, pass as
they are. The line has no rate of its own: ``tc tbf`` shapes what enters it.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import time
from collections import deque

_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING, _ETH_P_ALL, _SO_RCVBUFFORCE = 263, 15, 23, 3, 33

#: More than the header and the largest frame before segmentation.
FRAME_BYTES_MAX = 1 << 17
#: What may be on its way in one direction: a second of 500 Mbit/s. More is dropped.
ON_THEIR_WAY_BYTES_MAX = 64 << 20


class Direction:
    """Frames that have entered at one end, and when each of them leaves at the other."""

    def __init__(self, source: socket.socket, target: socket.socket, delay_s: float) -> None:
        self._source, self._target, self._delay_s = source, target, delay_s
        self._frames: deque[tuple[float, bytes]] = deque()
        self._bytes = 0

    def take(self) -> None:
        """Takes the frames that wait at the source."""
        with contextlib.suppress(BlockingIOError):
            while True:
                frame = self._source.recv(FRAME_BYTES_MAX)
                if self._bytes + len(frame) <= ON_THEIR_WAY_BYTES_MAX:
                    self._frames.append((time.monotonic() + self._delay_s, frame))
                    self._bytes += len(frame)

    def send_due(self) -> float | None:
        """Sends the frames that are due, and returns when the next one is, if there is one."""
        while self._frames and self._frames[0][0] <= time.monotonic():
            frame = self._frames.popleft()[1]
            self._bytes -= len(frame)
            # As a cable, the line tells nobody of a frame that it loses.
            with contextlib.suppress(OSError):
                self._target.send(frame)
        return self._frames[0][0] if self._frames else None


def main() -> None:
    first, second, delay_s = end_of(sys.argv[1]), end_of(sys.argv[2]), float(sys.argv[3]) / 1e3
    directions = {first: Direction(first, second, delay_s), second: Direction(second, first, delay_s)}
    # Training keeps all cores busy, and a delay must not depend on it.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    while True:
        due = [at for direction in directions.values() if (at := direction.send_due()) is not None]
        wait_s = max(0.0, min(due) - time.monotonic()) if due else None
        for ready in select.select([first, second], [], [], wait_s)[0]:
            directions[ready].take()


def end_of(interface: str) -> socket.socket:
    """A socket that has the frames that arrive at an interface, and not those that this program sends there."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    end.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, ON_THEIR_WAY_BYTES_MAX)
    end.bind((interface, _ETH_P_ALL))
    end.setblocking(False)
    return end


if __name__ == "__main__":
    main()
