"""Three hosts in a row, a - r - b, the agent, traffic; what the qdiscs say."""

from __future__ import annotations

import ctypes
import json
import os
import random
import selectors
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
#: r's interface towards b, with the gate; its channels.
OUT = "right"
QUEUES = 4
ADDRESSES = {"a": "10.0.1.1", "r": "10.0.2.1", "b": "10.0.2.2"}


def run(command: str, host: str | None = None, *, check: bool = True) -> str:
    words = command.split()
    if host:
        words = ["ip", "netns", "exec", host, *words]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if check and done.returncode:
        raise AssertionError(f"{command}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def tc(command: str, host: str | None = "r", *, check: bool = True) -> str:
    return run(f"tc -n {host} {command}" if host else f"tc {command}", check=check)


def hosts() -> None:
    for host in "arb":
        run(f"ip netns add {host}")
        run(f"ip -n {host} link set lo up")
    link("a", "eth0", "10.0.1.1/24", "r", "left", "10.0.1.2/24")
    link("r", OUT, "10.0.2.1/24", "b", "eth0", "10.0.2.2/24")
    route()
    Child("r", Path("/proc/sys/net/ipv4/ip_forward").write_text, "1").wait()


def route() -> None:
    run("ip -n a route replace 10.0.2.0/24 via 10.0.1.2")
    run("ip -n b route replace 10.0.1.0/24 via 10.0.2.1")


def link(one: str, name: str, address: str, other: str, peer: str, peers: str) -> None:
    queues = f"numtxqueues {QUEUES} numrxqueues {QUEUES}"
    run(f"ip link add {name} netns {one} {queues} type veth peer {peer} netns {other} {queues}")
    for host, device, ip in ((one, name, address), (other, peer, peers)):
        run(f"ip -n {host} addr add {ip} dev {device}")
        run(f"ip -n {host} link set {device} up")


def gone() -> None:
    for host in "arb":
        run(f"ip netns del {host}", check=False)


def end(sink: Child, agents: Iterable[Agent] = ()) -> None:
    """Ends agents, the receiver and the hosts."""
    for agent in agents:
        agent.end()
    sink.stop()
    gone()


def enter(host: str) -> None:
    """Goes over to the host, with this thread."""
    with Path(f"/run/netns/{host}").open() as file:
        if _libc.setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), f"setns {host}")


class Child:
    """A function in a process of its own, on a host."""

    def __init__(self, host: str, function: Callable[..., object], *arguments: Any) -> None:
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                enter(host)
                function(*arguments)
                status = 0
            except BaseException as problem:
                print(f"{function.__name__}: {type(problem).__name__}: {problem}", flush=True)
            finally:
                os._exit(status)

    def wait(self) -> None:
        if os.waitpid(self.pid, 0)[1]:
            raise AssertionError("a process on a host failed")

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


#: Seconds; on a machine with much else to do, a minute was not enough.
PATIENCE = 300


class Agent:
    """onrampd on a host. A peer's clock that is behind makes delays look long."""

    def __init__(self, host: str, peer: str, device: str, offset: str = "0ns", parent: str = "auto"):
        key = Path("/run/key")
        if not key.exists():
            key.write_text("000102030405060708090a0b0c0d0e0f\n")
            key.chmod(0o600)
        self.config = Path(f"/run/{host}.toml")
        self.config.write_text(f"""
mode = "enforce"
interface = "{device}"
parent = "{parent}"
threshold = "500us"
max_pause = "2ms"
key_file = "{key}"
clock = "static"
clock_uncertainty = "1s"
max_share = 1
socket = "/run/{host}.sock"
state_dir = "/run/onrampd-{host}"
[[peer]]
address = "{peer}"
clock_offset = "{offset}"
""")
        self.host = host
        self.log = Path(f"/run/{host}.log")
        self.start()

    def start(self) -> None:
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                f"ip netns exec {self.host} {os.environ['ONRAMPD']} run --config {self.config}".split(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _came_up(self) -> bool:
        for _ in range(10 * PATIENCE):
            if any(line.startswith("ready") for line in self.log.read_text().splitlines()):
                return True
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        return False

    def ready(self) -> Agent:
        if not self._came_up():
            raise AssertionError(f"the agent on {self.host} did not get ready: {self.log.read_text()}")
        return self

    def refused(self) -> bool:
        """Whether it ended since somebody else's queueing discipline is where its gate was to be."""
        return not self._came_up() and ": set parent to a class of it" in self.log.read_text()

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(PATIENCE)


def agents(*, offset: str = "-100ms", parent: str = "auto") -> list[Agent]:
    """On r with the gate, and on b, which acknowledges."""
    both = [
        Agent("r", ADDRESSES["b"], OUT, offset=offset, parent=parent),
        Agent("b", ADDRESSES["r"], "eth0"),
    ]
    return [agent.ready() for agent in both]


# Traffic. Everything ends by itself.


def sink(port: int = 7000) -> None:
    """Takes TCP connections and datagrams, and throws away what they bring."""
    listener = socket.create_server(("0.0.0.0", port), backlog=100)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("0.0.0.0", port))
    some = selectors.DefaultSelector()
    some.register(listener, selectors.EVENT_READ)
    some.register(udp, selectors.EVENT_READ)
    while True:
        for key, _ in some.select():
            if key.fileobj is listener:
                some.register(listener.accept()[0], selectors.EVENT_READ)
                continue
            assert isinstance(key.fileobj, socket.socket)
            data = b""
            with suppress(OSError):
                data = key.fileobj.recv(1 << 18)
            if not data and key.fileobj is not udp:
                some.unregister(key.fileobj)
                key.fileobj.close()


def tcp(to: str, seconds: float, port: int = 7000, size: int = 1 << 16) -> None:
    """Bytes on a connection; on another if it breaks."""
    end = time.monotonic() + seconds
    data = bytes(size)
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection((to, port), timeout=2) as connection:
            # What is not sent at the end is thrown away.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.settimeout(max(0.1, end - time.monotonic()))
            while time.monotonic() < end:
                connection.sendall(data)


def udp(to: str, seconds: float, *, ports: int = 16, gso: bool = False, pause: float = 0.002) -> None:
    """Datagrams from some ports, or segments that stand for ten of them."""
    end = time.monotonic() + seconds
    sockets = []
    for _ in range(ports):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if gso:
            one.setsockopt(socket.SOL_UDP, 103, 1200)  # UDP_SEGMENT
        sockets.append(one)
    while time.monotonic() < end:
        for one in sockets:
            with suppress(OSError):
                one.sendto(random.randbytes(12000 if gso else random.randint(1, 1400)), (to, 7000))
        time.sleep(pause)


def raw(device: str, seconds: float, *, pause: float = 0.005) -> None:
    """Frames past the stack: whole ones, odd ones, of no protocol."""
    end = time.monotonic() + seconds
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    frames.bind((device, 0))
    while time.monotonic() < end:
        protocol = random.choice((0x800, 0x86DD, 0x806, 0x1234))
        ethernet = b"\2\0\0\0\0\2\2\0\0\0\0\1" + struct.pack("!H", protocol)
        with suppress(OSError):
            frames.send(ethernet + random.randbytes(random.randint(1, 1400)))
        time.sleep(pause)


def everything(seconds: float, *, gso: bool = True) -> list[Child]:
    """TCP, datagrams, segments of datagrams, frames; from r itself and forwarded."""
    b = ADDRESSES["b"]
    return [
        *[Child("r", tcp, b, seconds) for _ in range(2)],
        Child("a", tcp, b, seconds),
        Child("r", udp, b, seconds),
        Child("a", udp, b, seconds),
        *([Child("r", lambda: udp(b, seconds, gso=True, ports=4))] if gso else []),
        Child("r", raw, OUT, seconds),
    ]


# What the qdiscs say.


def qdiscs(host: str | None = "r", device: str = OUT) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(tc(f"-s -j qdisc show dev {device}", host=host))
    return [one for one in found if one["kind"] not in ("clsact", "ingress")]


def drain(host: str | None = "r", device: str = OUT, seconds: float = 15) -> list[dict[str, Any]]:
    """The qdiscs once nothing is left in them, which must come."""
    end = time.monotonic() + seconds
    while True:
        found = qdiscs(host, device)
        if not any(one["backlog"] or one["qlen"] for one in found):
            return found
        if time.monotonic() > end:
            raise AssertionError(f"packets stay: {[(q['kind'], q['backlog'], q['qlen']) for q in found]}")
        time.sleep(0.2)


def reaches() -> None:
    """A connection from a to b, where a sink is, comes about."""

    def connect() -> None:
        for _ in range(10):
            with suppress(OSError), socket.create_connection((ADDRESSES["b"], 7000), timeout=3) as connection:
                connection.sendall(b"x")
                return
        raise AssertionError("nothing gets from a to b any more")

    Child("a", connect).wait()
