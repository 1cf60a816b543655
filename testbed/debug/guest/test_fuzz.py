"""Right and wrong netlink messages about the qdisc: each is refused, or leaves a sane configuration."""

from __future__ import annotations

import ctypes
import os
import random
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path

import netlink
from kernel import SCHED_CLS, SOCKET_FILTER, check, program
from net import Child, run, tc
from netlink import Netlink, attribute, onramp, u32

#: How long, for root and in a user namespace.
SECONDS, SECONDS_USER = 100, 20
COUNTS = Path("/run/fuzzed")
#: Numbers at the edges.
EDGES = (0, 1, 2, 255, 256, 257, 1 << 16, 1 << 20, (1 << 31) - 1, 1 << 31, 0xFFFFFFFE, 0xFFFFFFFF)
OTHERS = ("pfifo", "prio", "htb", "tbf", "drr", "hfsc", "mq", "multiq", "netem", "fq", "nothing")
#: The least that each option may be, and the most.
SANE = {
    netlink.LIMIT: (1, 0xFFFFFFFF),
    netlink.BYTES: (1, 0xFFFFFFFF),
    netlink.FLOW_LIMIT: (1, 0xFFFFFFFF),
    netlink.FLOWS: (1, 0xFFFFFFFF),
    netlink.QUANTUM: (256, 1 << 20),
    netlink.PACING: (0, 1),
}


def number(dice: random.Random) -> int:
    return dice.choice(EDGES) if dice.random() < 0.5 else dice.getrandbits(dice.randint(1, 32))


def option(dice: random.Random, files: list[int]) -> bytes:
    """One attribute of the qdisc's: most often a right one."""
    kind = dice.randint(0, 14)
    match dice.randint(0, 9):
        case 0:
            return attribute(kind, dice.randbytes(dice.randint(0, 40)))
        case 1:
            return attribute(kind | netlink.NESTED, u32(dice.randint(0, 14), number(dice)))
        case 2:
            return attribute(kind, dice.randbytes(4), length=dice.choice((0, 3, 4, 5, 9, 12, 200, 65535)))
        case 3:
            return attribute(netlink.PROG_FD, struct.pack("=i", dice.choice((*files, -1, -2, 1 << 30))))
        case 4:
            time_ns = dice.choice((0, 1, number(dice), 1 << 63, (1 << 64) - 1))
            return attribute(netlink.MAX_HOLD, struct.pack("=Q", time_ns))
        case 5:
            return attribute(netlink.FLOWS, struct.pack("=I", dice.choice((1, 2, 1000, 0xFFFFFFFF))))
        case _:
            return u32(dice.choice((*SANE, kind)), number(dice))


def message(dice: random.Random, files: list[int]) -> tuple[int, int, int, int, bytes]:
    """Type, flags, handle, parent, attributes."""
    kind = dice.choice((netlink.NEW,) * 8 + (netlink.DELETE, netlink.GET))
    create, replace = netlink.CREATE, netlink.REPLACE
    flags = dice.choice((create | netlink.EXCL, create | replace, create, 0, replace))
    handle = dice.choice((0, 0x10000, 0x20000, 0x100000, 0x10001, 0xFFFF0000, dice.getrandbits(32)))
    parent = dice.choice(
        (netlink.ROOT,) * 4 + (0x10001, 0x10002, 0x20001, 0x100001, 0, netlink.INGRESS, dice.getrandbits(32))
    )
    options = [option(dice, files) for _ in range(dice.choice((0, 1, 1, 2, 3, 8)))]
    attributes = onramp(*options)
    match dice.randint(0, 19):
        case 0:
            attributes = attribute(netlink.KIND, dice.choice(OTHERS).encode() + b"\0")
        case 1:
            attributes = b"".join(options)
        case 2:
            attributes = attribute(netlink.KIND, b"onramp\0")
        case 3:
            attributes = attribute(netlink.KIND, b"onramp\0")
            attributes += attribute(netlink.OPTIONS, dice.randbytes(dice.randint(0, 60)))
        case 4:
            attributes += attribute(dice.randint(0, 18), dice.randbytes(dice.randint(0, 16)))
        case 5:
            # An estimator of the rate: every quarter of a second, over 2^n.
            attributes += attribute(5, struct.pack("=bB", dice.randint(-3, 4), dice.randint(0, 20)))
    return kind, flags, handle, parent, attributes


def sane(link: Netlink, device: int) -> int:
    """Every gate on the device has a configuration that it may have."""
    gates = [options for kind, _, _, options in link.qdiscs(device) if kind == "onramp"]
    for options in gates:
        for key, (least, most) in SANE.items():
            value = struct.unpack("=I", options[key])[0]
            if not least <= value <= most:
                raise AssertionError(f"option {key} is {value}")
    return len(gates)


def programs() -> list[int]:
    """Files that are no program, that are closed, programs of another type, and of the right one."""
    file = os.open("/dev/null", os.O_RDONLY)
    closed = os.dup(file)
    os.close(closed)
    return [file, closed, program(SOCKET_FILTER), program(SCHED_CLS)]


def fuzz(seconds: float, seed: int, allowed: bool) -> None:
    dice = random.Random(seed)
    run("ip link add fuzz numtxqueues 4 type dummy")
    run("ip link set fuzz up")
    device = socket.if_nametoindex("fuzz")
    link, files = Netlink(), programs() if allowed else []
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    frames.bind(("fuzz", 0x800))
    end = time.monotonic() + seconds
    sent = taken = gates = 0
    while time.monotonic() < end:
        kind, flags, handle, parent, attributes = message(dice, files)
        error = link.ask(kind, flags, device, handle, parent, attributes)
        sent += 1
        taken += not error and kind == netlink.NEW
        if dice.random() < 0.3:
            for _ in range(3):
                with suppress(OSError):
                    frames.send(bytes(12) + b"\x08\x00" + dice.randbytes(dice.randint(20, 1400)))
        if sent % 20 == 0:
            gates += sane(link, device)
        if sent % 50 == 0:
            link.ask(netlink.DELETE, 0, device, 0, netlink.ROOT)
            if dice.random() < 0.5:
                tc(f"qdisc add dev fuzz root handle 1: {dice.choice(('prio', 'mq', 'multiq', 'drr'))}", None)
    if allowed and not (taken and gates):
        raise AssertionError(f"none of {sent} messages was taken")
    if not allowed and gates:
        raise AssertionError(f"a user namespace has {gates} gates")
    run("ip link del fuzz")
    with COUNTS.open("a") as file:
        file.write(f"{sent} {taken} {gates}\n")


def in_user_namespace() -> None:
    """As root of a user namespace with a network of its own."""
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000 | 0x40000000):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1")):
        Path(f"/proc/self/{name}").write_text(text)
    fuzz(SECONDS_USER, 3, False)


def test(kind: str) -> str:
    run("ip netns add a")
    run("ip netns add b")
    seconds = SECONDS if kind == "kasan" else SECONDS / 4
    both = [Child(host, fuzz, seconds, ord(host), True) for host in "ab"]
    for one in both:
        one.wait()
    check()
    Child("a", in_user_namespace).wait()
    for host in "ab":
        run(f"ip netns del {host}")
    rows = [list(map(int, line.split())) for line in COUNTS.read_text().splitlines()]
    return (
        f"{sum(row[0] for row in rows[:2])} messages, {sum(row[1] for row in rows[:2])} taken, "
        f"{rows[2][0]} in a user namespace, where {rows[2][1]} that are not about the gate were"
    )
