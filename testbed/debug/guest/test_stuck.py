"""A program that always holds: packets leave all the same, none later than after max_hold and a little."""

from __future__ import annotations

import socket
import struct
import time

import net
import netlink
from kernel import SCHED_CLS, program
from net import ADDRESSES, OUT, Child
from netlink import Netlink, attribute, onramp

#: What the program asks for, and what the gate grants. A loaded machine's timers are late.
ASKED_NS, MAX_HOLD_NS, LATE_NS = 2_000_000_000, 50_000_000, 500_000_000
SECONDS = 15


def gate() -> None:
    options = (
        attribute(netlink.MAX_HOLD, struct.pack("=Q", MAX_HOLD_NS)),
        attribute(netlink.PROG_FD, struct.pack("=i", program(SCHED_CLS, ASKED_NS))),
    )
    flags = netlink.CREATE | netlink.REPLACE
    device = socket.if_nametoindex(OUT)
    error = Netlink().ask(netlink.NEW, flags, device, 0x10000, netlink.ROOT, onramp(*options))
    assert not error, f"error {error}"


def alone() -> None:
    """A packet that nothing else comes after."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", (ADDRESSES["b"], 7000))


def test(kind: str) -> str:
    net.hosts()
    sink = Child("b", net.sink)
    Child("r", gate).wait()
    for one in [Child("r", net.tcp, ADDRESSES["b"], SECONDS), Child("a", net.udp, ADDRESSES["b"], SECONDS)]:
        one.wait()
    net.drain()
    time.sleep(1)
    # Only the gate's own timer lets it go.
    Child("r", alone).wait()
    found = next(one for one in net.drain(seconds=3) if one["kind"] == "onramp")
    held, times, overruled = found["held_ns"], found["held"], found["max_hold_reached"]
    net.end(sink)
    if not times or not overruled:
        raise AssertionError(f"held {times} times, overruled {overruled} times")
    if held / times > MAX_HOLD_NS + LATE_NS:
        raise AssertionError(f"held for {held / times / 1e6:.0f} ms each of {times} times")
    # Half of the time a flow is free: 17 flows that sent a packet a hold would send some 5000.
    if found["packets"] < 2 * times:
        raise AssertionError(f"{found['packets']} packets left, held {times} times")
    return f"{found['packets']} packets left; held {times} times, for {held / times / 1e6:.0f} ms each"
