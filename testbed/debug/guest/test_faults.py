"""Memory that is not there: at each allocation of a change in turn, and for flows under traffic."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import net
import netlink
from kernel import SCHED_CLS, program
from net import OUT, Child, run, tc
from netlink import Netlink, attribute, onramp, u32
from test_model import Count, compare

DEBUG = Path("/sys/kernel/debug")
FAIL_NTH = "/proc/thread-self/fail-nth"
#: A table of one page at most, so that there is no second way to get it.
OPTIONS = (u32(netlink.LIMIT, 100), u32(netlink.FLOWS, 100), u32(netlink.PACING, 0))
LARGE = u32(netlink.FLOWS, 1 << 20)


def settle() -> None:
    """Everything may fail, and nothing is printed about it."""
    for kind in ("failslab", "fail_page_alloc"):
        for name, value in (("ignore-gfp-wait", "N"), ("verbose", "0"), ("times", "-1")):
            (DEBUG / kind / name).write_text(value)
    (DEBUG / "fail_page_alloc" / "min-order").write_text("0")
    (DEBUG / "fail_page_alloc" / "ignore-gfp-highmem").write_text("N")


def each(act: Callable[[], None], prepare: Callable[[], None], undo: Callable[[], None]) -> int:
    """Fails the act's first allocation, its second, and so on until it has no more."""
    for n in range(1, 10_000):
        prepare()
        file = os.open(FAIL_NTH, os.O_RDWR)
        os.write(file, str(n).encode())
        with suppress(OSError):
            act()
        left = int(os.pread(file, 20, 0).split(b"\0")[0])
        os.write(file, b"0")
        os.close(file)
        undo()
        if left:
            return n - 1
    raise AssertionError("there is no end to it")


def nth(done: list[str]) -> None:
    run("ip link add fault numtxqueues 4 type dummy")
    run("ip link set fault up")
    device = socket.if_nametoindex("fault")
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    frames.bind(("fault", 0x800))
    calm = Netlink()
    file = program(SCHED_CLS)
    options = (*OPTIONS, attribute(netlink.PROG_FD, struct.pack("=i", file)))
    new, replace = netlink.CREATE | netlink.EXCL, netlink.CREATE | netlink.REPLACE

    def message(kind: int, flags: int, handle: int, parent: int, attributes: bytes) -> Callable[[], None]:
        def act() -> None:
            nervous.send(kind, flags | netlink.ACK, device, handle, parent, attributes)

        nervous = Netlink()
        return act

    def add(handle: int, parent: int, *attributes: bytes) -> None:
        error = calm.ask(netlink.NEW, replace, device, handle, parent, onramp(*attributes))
        assert not error, os.strerror(error)

    def mq() -> None:
        calm.ask(netlink.NEW, new, device, 0x10000, netlink.ROOT, attribute(netlink.KIND, b"mq\0"))

    def clear() -> None:
        # Whatever is there now works.
        with suppress(OSError):
            packet()
        calm.ask(netlink.DELETE, 0, device, 0, netlink.ROOT)
        if any(kind == "onramp" for kind, *_ in calm.qdiscs(device)):
            raise AssertionError("a gate is left")

    def packet() -> None:
        frames.send(bytes(12) + b"\x08\x00" + b"\x45\0\0\x40" + bytes(5) + b"\x11\0\0" + os.urandom(52))

    root = netlink.ROOT
    other = onramp(*options)
    for name, prepare, act in (
        ("add", lambda: None, message(netlink.NEW, new, 0x10000, root, other)),
        ("add with a large table", lambda: None, message(netlink.NEW, new, 0x10000, root, onramp(LARGE))),
        ("add below mq", mq, message(netlink.NEW, new, 0x20000, 0x10001, other)),
        ("replace", lambda: add(0x10000, root), message(netlink.NEW, replace, 0x20000, root, other)),
        ("change", lambda: add(0x10000, root, *options), message(netlink.NEW, 0, 0x10000, root, other)),
        ("show", lambda: add(0x10000, root, *options), message(netlink.GET, 0, 0x10000, root, b"")),
        ("delete", lambda: add(0x10000, root, *options), message(netlink.DELETE, 0, 0x10000, root, b"")),
        ("send", lambda: add(0x10000, root, *options), packet),
    ):
        done.append(f"{name} {each(act, prepare, clear)}")
    run("ip link del fault")
    os.close(file)


def shared() -> str:
    """Every second flow gets no memory under traffic: it shares one with others, and nothing is lost."""
    net.hosts()
    sink = Child("b", net.sink)
    agents = net.agents(parent="root")
    tc(f"qdisc add dev {OUT} clsact")
    tc(f"filter add dev {OUT} egress matchall action pass")
    before = Count()
    Path("/sys/kernel/slab/onramp_queue/failslab").write_text("1")
    (DEBUG / "failslab" / "cache-filter").write_text("Y")
    (DEBUG / "failslab" / "probability").write_text("50")
    traffic = net.everything(8)
    for one in traffic:
        one.wait()
    (DEBUG / "failslab" / "probability").write_text("0")
    (DEBUG / "failslab" / "cache-filter").write_text("N")
    said = compare(before, segments=True)
    gate = next(one for one in net.qdiscs() if one["kind"] == "onramp")
    if not gate["no_flow"]:
        raise AssertionError(f"every flow got memory: {gate}")
    net.reaches()
    net.end(sink, agents)
    return f"{said}, {gate['no_flow']} without a flow of their own"


def test(kind: str) -> str:
    if kind != "kasan":
        return "this kernel has no failures on demand"
    settle()
    done: list[str] = []
    nth(done)
    time.sleep(1)
    return f"allocations failed, each in turn: {', '.join(done)}\nflows without memory: {shared()}"
