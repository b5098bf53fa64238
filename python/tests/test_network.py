"""The emulated network of `bench/regions.py`: its delay lines, and what it leaves behind."""

import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest


@pytest.fixture
def line(bench_module, monkeypatch):
    """A direction of a line of 15 ms, with a clock of its own, and the sockets at its two ends."""
    delay_line, clock = bench_module("delay_line"), SimpleNamespace(now=100.0)
    monkeypatch.setattr(delay_line, "time", SimpleNamespace(monotonic=lambda: clock.now))
    (outside, source), (target, far) = (socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    with outside, source, target, far:
        source.setblocking(False)
        far.setblocking(False)
        yield SimpleNamespace(clock=clock, near=outside, far=far, one_way=delay_line.Direction(source, target, 0.015))


def test_a_frame_leaves_a_line_after_the_delay_and_in_order(line):
    line.near.send(b"first")
    line.one_way.take()
    line.clock.now += 0.010
    line.near.send(b"second")
    line.one_way.take()
    assert line.one_way.send_due() == pytest.approx(100.015)
    with pytest.raises(BlockingIOError):
        line.far.recv(100)
    line.clock.now += 0.006
    assert line.one_way.send_due() == pytest.approx(100.025)
    assert line.far.recv(100) == b"first"
    line.clock.now += 1.0
    assert line.one_way.send_due() is None
    assert line.far.recv(100) == b"second"


def test_a_line_that_is_full_drops_what_enters(line, bench_module, monkeypatch):
    monkeypatch.setattr(bench_module("delay_line"), "ON_THEIR_WAY_BYTES_MAX", 8)
    for frame in (b"12345678", b"9"):
        line.near.send(frame)
    line.one_way.take()
    line.clock.now += 1.0
    assert line.one_way.send_due() is None
    assert line.far.recv(100) == b"12345678"
    with pytest.raises(BlockingIOError):
        line.far.recv(100)
    line.near.send(b"9")
    line.one_way.take()
    line.clock.now += 1.0
    line.one_way.send_due()
    assert line.far.recv(100) == b"9"


@pytest.mark.skipif(sys.platform != "linux", reason="skipped: network namespaces are of Linux")
def test_regions_reach_each_other_over_delay_lines_and_leave_nothing_behind(bench_module, tmp_path):
    network = bench_module("network")
    try:
        with network.Network(("a", "b", "c"), "50mbit", tmp_path, 8.0) as made:
            assert len(made.round_trips_ms(3)) == 3
            made.check()
            spaces = {region.enter[-1] for region in made.regions}
            lines = [process for _, process in made._lines._started]
            assert len(lines) == 3
    except network.NotAllowed as error:
        pytest.skip(f"skipped: {error}")
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert not spaces & set(listed.split())
    assert all(process.poll() is not None for process in lines)


def test_an_echo_has_the_checksum_of_its_bytes(bench_module):
    ping = bench_module("ping")
    # The example of RFC 1071: the sum is ddf2.
    assert ping.checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2
