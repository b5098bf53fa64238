"""Round trips of ICMP echoes, as ``ping`` measures them: ``ping.py ADDRESS COUNT`` prints milliseconds as JSON. It needs root."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time

_ECHO_REQUEST, _ECHO_REPLY = 8, 0
INTERVAL_S, LOST_AFTER_S = 0.02, 5.0


def main() -> None:
    address, count = sys.argv[1], int(sys.argv[2])
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as icmp:
        icmp.settimeout(LOST_AFTER_S)
        # The first one also finds the neighbour's hardware address.
        trips = [echo(icmp, address, number) for number in range(count + 1)]
    print(json.dumps(trips[1:]))


def echo(icmp: socket.socket, address: str, number: int) -> float:
    """The round trip of one echo, in milliseconds.

    Raises:
        TimeoutError: It has not come back.
    """
    time.sleep(INTERVAL_S)
    identity = struct.pack("!HH", os.getpid() & 0xFFFF, number)
    began = time.perf_counter()
    icmp.sendto(struct.pack("!BBH", _ECHO_REQUEST, 0, checksum(bytes([_ECHO_REQUEST, 0]) + identity)) + identity, (address, 0))
    while True:
        reply = icmp.recv(1024)
        # After an IP header of 20 bytes.
        if reply[20] == _ECHO_REPLY and reply[24:28] == identity:
            return (time.perf_counter() - began) * 1e3


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of an even number of bytes, the field of the checksum left out."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


if __name__ == "__main__":
    main()
