"""Messages about qdiscs as they are on the wire, right or wrong."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

NEW, DELETE, GET = 36, 37, 38
REQUEST, ACK, REPLACE, EXCL, CREATE, DUMP = 0x1, 0x4, 0x100, 0x200, 0x400, 0x300
ROOT, INGRESS = 0xFFFFFFFF, 0xFFFFFFF1
NESTED = 0x8000
KIND, OPTIONS = 1, 2
#: onramp's own attributes, as in pkt_sched_onramp.h.
LIMIT, BYTES, FLOW_LIMIT, FLOWS, QUANTUM, MAX_HOLD, PROG_FD, PROG_ID, PROG_NAME, PACING = range(2, 12)


def attribute(kind: int, payload: bytes, length: int | None = None) -> bytes:
    """One that may say a wrong length."""
    head = struct.pack("=HH", len(payload) + 4 if length is None else length, kind)
    return head + payload + bytes(-len(payload) % 4)


def u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value & 0xFFFFFFFF))


def onramp(*options: bytes) -> bytes:
    return attribute(KIND, b"onramp\0") + attribute(OPTIONS | NESTED, b"".join(options))


class Netlink:
    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind((0, 0))
        self.socket.settimeout(60)

    def send(self, kind: int, flags: int, device: int, handle: int, parent: int, attributes: bytes) -> None:
        message = struct.pack("=BxxxiIII", 0, device, handle, parent, 0) + attributes
        self.socket.send(struct.pack("=IHHII", len(message) + 16, kind, flags | REQUEST, 1, 0) + message)

    def answers(self) -> Iterator[tuple[int, bytes]]:
        while True:
            data = self.socket.recv(1 << 18)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                yield kind, data[16:length]
                data = data[(length + 3) & ~3 :]

    def ask(
        self, kind: int, flags: int, device: int, handle: int, parent: int, attributes: bytes = b""
    ) -> int:
        """The error number of the answer; 0 is none."""
        self.send(kind, flags | ACK, device, handle, parent, attributes)
        for answer, body in self.answers():
            # An error, or the end of a dump: for a question, "replace" asks for one.
            if answer in (2, 3):
                return -int(struct.unpack_from("=i", body)[0])
        raise AssertionError("no answer")

    def qdiscs(self, device: int) -> list[tuple[str, int, int, dict[int, bytes]]]:
        """Kind, handle, parent and options of each."""
        found: list[tuple[str, int, int, dict[int, bytes]]] = []
        self.send(GET, DUMP, device, 0, 0, b"")
        for answer, body in self.answers():
            if answer == 3:
                return found
            index, handle, parent = struct.unpack_from("=4xiII", body)
            if index == device:
                top = parse(body[20:])
                found.append((top[KIND].rstrip(b"\0").decode(), handle, parent, parse(top.get(OPTIONS, b""))))
        raise AssertionError("no end")


def parse(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & ~NESTED] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found
