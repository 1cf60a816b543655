"""A flow's packets at one of its hosts, as arrays."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onramp.errors import OnRampError, of_os
from onramp.summary import Floats

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Nanoseconds, little-endian.
MAGIC = 0xA1B23C4D
SYN = 0x02

_ETHERNET = 14
_RECORD = 16
_TCP = 6


@dataclass(frozen=True)
class Packets:
    """Packets in their order, one entry each: all arrays have shape (n,).

    Attributes
    ----------
    time_ns : array
        Since time 0 of the scenario.
    forward : array of bool
        Of the end that sends data.
    tcp : array of bool
        Others are OR-ACKs, of which the numbers below are 0.
    flags : array
        TCP's.
    start : array
        First byte, counted from the flow's; of the other end its own.
    payload : array
        Bytes.
    ack : array
        Bytes of the flow that are acknowledged; 0 of the end that sends data.
    length : array
        Bytes of the frame, headers included.
    ident : array
        IPv4's identification: the same at both hosts.
    ecn : array
        IPv4's ECN field: 2 can be marked, 3 is.
    """

    time_ns: Ints
    forward: Mask
    tcp: Mask
    flags: Ints
    start: Ints
    payload: Ints
    ack: Ints
    length: Ints
    ident: Ints
    ecn: Ints

    def __len__(self) -> int:
        return len(self.time_ns)

    @cached_property
    def data(self) -> Mask:
        """Packets with bytes of the flow."""
        return self.forward & (self.payload > 0)

    @cached_property
    def acks(self) -> Mask:
        """Acknowledgements, the opening's not."""
        return np.asarray(self.tcp & ~self.forward & (self.flags & SYN == 0), np.bool_)

    @cached_property
    def retransmitted(self) -> Mask:
        """Data that begin before what was seen earlier: a flow has one way, so it was sent again."""
        before = np.concatenate([[0], self.sent[:-1]])
        return np.asarray(self.data & (self.start < before), np.bool_)

    @cached_property
    def sent(self) -> Ints:
        """Bytes of the flow sent so far, without repetitions."""
        return np.maximum.accumulate(np.where(self.data, self.start + self.payload, 0))

    @cached_property
    def acked(self) -> Ints:
        """Bytes of the flow acknowledged so far."""
        return np.maximum.accumulate(np.where(self.acks, self.ack, 0))

    def in_flight(self) -> tuple[Floats, Ints]:
        """Times in seconds, and bytes sent and not acknowledged from then on.

        As the sender's capture has it. What was sent again counts once, and what is lost counts until
        it is acknowledged.
        """
        return self.time_ns / 1e9, self.sent - self.acked


def read(path: str | Path) -> Packets:
    """Read a capture that `onramp trace` has written.

    Raises
    ------
    OnRampError
        If it is none.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as e:
        raise OnRampError(of_os(path, e)) from e
    if len(content) < 24 or struct.unpack_from("<I", content)[0] != MAGIC:
        raise OnRampError(f"{path}: is no capture of onramp trace")
    records, at = [], 24
    while at + _RECORD <= len(content):
        records.append(at)
        at += _RECORD + int.from_bytes(content[at + 8 : at + 12], "little")
    if at != len(content):
        raise OnRampError(f"{path}: ends within a packet")
    return _packets(np.frombuffer(content, np.uint8), np.array(records, np.int64))


def _packets(content: NDArray[np.uint8], records: Ints) -> Packets:
    last = len(content) - 1

    def number(at: Ints, size: int, *, little: bool = False) -> Ints:
        # Of an OR-ACK, which is shorter than a TCP packet, what lies behind is masked out below.
        places = np.minimum(at[:, None] + np.arange(size), last)
        digits = content[places].astype(np.int64)
        weights = 256 ** np.arange(size) if little else 256 ** np.arange(size)[::-1]
        return np.asarray(digits @ weights, np.int64)

    time_ns = number(records, 4, little=True) * 1_000_000_000 + number(records + 4, 4, little=True)
    ip = records + _RECORD + _ETHERNET
    ip_header = (number(ip, 1) & 15) * 4
    tcp = number(ip + 9, 1) == _TCP
    head = ip + ip_header
    flags = np.where(tcp, number(head + 13, 1), 0)
    source = number(ip + 12, 4)
    opening = np.flatnonzero(flags & SYN)
    if not len(opening):
        raise OnRampError("a capture begins with its connection's opening; this one does not")
    first = opening[0]
    forward = tcp & (source == source[first])
    payload = np.where(tcp, number(ip + 2, 2) - ip_header - (number(head + 12, 1) >> 4) * 4, 0)
    origin = number(head + 4, 4)[first] + 1
    start = np.zeros(len(records), np.int64)
    ack = np.zeros(len(records), np.int64)
    data = forward & (flags & SYN == 0)
    start[data] = _unwrapped(number(head + 4, 4)[data], origin)
    back = tcp & ~forward
    ack[back] = _unwrapped(number(head + 8, 4)[back], origin)
    length = number(records + 12, 4, little=True)
    ident, ecn = number(ip + 4, 2), number(ip + 1, 1) & 3
    return Packets(time_ns, forward, tcp, flags, start, payload, ack, length, ident, ecn)


def _unwrapped(numbers: Ints, origin: int) -> Ints:
    """Numbers of 32 bits as their distances from `origin`, each less than 2^31 from the one before."""
    steps = np.diff(numbers, prepend=origin)
    return np.cumsum((steps + 2**31) % 2**32 - 2**31)
