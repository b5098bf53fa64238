"""How long bytes take to another process of this machine and back, over one connection of TCP on loopback.

Run as a program it is the other end.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time

from running import free_port

#: What a send or a receive has at once.
CHUNK = 1 << 18


def seconds_there_and_back(count: int, warm_up: int, rounds: int) -> float:
    """The time in which this many bytes go to another process and as many come back, as a mean over rounds after those of a
    warm-up."""
    port = free_port()
    other = subprocess.Popen([sys.executable, __file__, *(str(one) for one in (port, count, warm_up + rounds))])
    try:
        here = _connected(port)
        sent, buffer = bytes(count), bytearray(count)
        began = 0.0
        for number in range(warm_up + rounds):
            if number == warm_up:
                began = time.perf_counter()
            here.sendall(sent)
            _receive(here, buffer)
        return (time.perf_counter() - began) / rounds
    finally:
        other.kill()
        other.wait()


def _connected(port: int) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.02)


def _receive(connection: socket.socket, into: bytearray) -> None:
    view = memoryview(into)
    while view:
        view = view[connection.recv_into(view, min(len(view), CHUNK)) :]


def _answer(port: int, count: int, rounds: int) -> None:
    connection, _ = socket.create_server(("127.0.0.1", port)).accept()
    buffer = bytearray(count)
    for _ in range(rounds):
        _receive(connection, buffer)
        connection.sendall(buffer)


if __name__ == "__main__":
    _answer(*(int(one) for one in sys.argv[1:]))
