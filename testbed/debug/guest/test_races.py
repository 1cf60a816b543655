"""What the gate is asked and told without a pause, under traffic: counters, configuration, program."""

from __future__ import annotations

import random
import socket
import struct
import time

import net
import netlink
from kernel import SCHED_CLS, program
from net import ADDRESSES, OUT, Child
from netlink import Netlink, attribute, onramp, u32

SECONDS = 40
HANDLE = 0x10000


def tell(flags: int, *options: bytes) -> None:
    device = socket.if_nametoindex(OUT)
    error = Netlink().ask(netlink.NEW, flags, device, HANDLE, netlink.ROOT, onramp(*options))
    assert not error, f"error {error}"


def changes() -> None:
    """Every setting to another value; the program, which holds for 100 µs, away and back."""
    dice = random.Random(1)
    files = (program(SCHED_CLS, 100_000), program(SCHED_CLS), -1)
    link, device = Netlink(), socket.if_nametoindex(OUT)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        options = (
            u32(netlink.LIMIT, dice.randint(1000, 2000)),
            u32(netlink.BYTES, dice.randint(1 << 20, 1 << 21)),
            u32(netlink.FLOW_LIMIT, dice.randint(100, 200)),
            u32(netlink.FLOWS, dice.randint(10, 20)),
            u32(netlink.QUANTUM, dice.randint(1000, 2000)),
            u32(netlink.PACING, dice.randint(0, 1)),
            attribute(netlink.MAX_HOLD, struct.pack("=Q", dice.randint(1_000_000, 2_000_000))),
            attribute(netlink.PROG_FD, struct.pack("=i", dice.choice(files))),
        )
        error = link.ask(netlink.NEW, 0, device, HANDLE, netlink.ROOT, onramp(*options))
        assert not error, f"error {error}"


def questions() -> None:
    link, device = Netlink(), socket.if_nametoindex(OUT)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        link.qdiscs(device)


def test(kind: str) -> str:
    net.hosts()
    sink = Child("b", net.sink)
    Child("r", tell, netlink.CREATE | netlink.REPLACE, u32(netlink.FLOWS, 100)).wait()
    b = ADDRESSES["b"]
    children = [
        Child("r", changes),
        Child("r", questions),
        Child("r", net.tcp, b, SECONDS),
        Child("r", net.udp, b, SECONDS),
        Child("a", net.udp, b, SECONDS),
    ]
    for one in children:
        one.wait()
    found = next(one for one in net.drain() if one["kind"] == "onramp")
    net.end(sink)
    return f"{found['packets']} packets, held {found['held']} times"
