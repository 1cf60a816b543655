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
_TCP, _UDP = 6, 17
#: UDP port of RoCEv2, opcode of its replies, and their syndrome from which on they are negative.
_ROCE, _REPLY, _NAK = 4791, 17, 0x60
_BECN = 0x40
_ECE = 0x40


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
        TCP's,
    rdma : array of bool
        or RDMA's, as RoCEv2. Others are OR-ACKs, of which the numbers below are 0.
    flags : array
        TCP's; of RDMA the opcode.
    psn : array
        Packet sequence number (RDMA).
    nak : array of bool
        Negative acknowledgements (RDMA).
    echo : array of bool
        The receiver tells of a mark: ECE, of RDMA BECN.
    start : array
        First byte, counted from the flow's; of the other end its own (TCP).
    payload : array
        Bytes; 0 of an RDMA packet that a switch has trimmed.
    ack : array
        Bytes of the flow that are acknowledged in order; 0 of the end that sends data, and of a NAK.
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
    rdma: Mask
    flags: Ints
    psn: Ints
    nak: Mask
    echo: Mask
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
        """Acknowledgements; neither the opening's nor NAKs."""
        of_tcp = self.tcp & (self.flags & SYN == 0)
        return np.asarray((of_tcp | self.rdma & ~self.nak) & ~self.forward, np.bool_)

    @cached_property
    def or_acks(self) -> Mask:
        """OR-ACKs that are packets of their own."""
        return np.asarray(~self.tcp & ~self.rdma, np.bool_)

    @cached_property
    def marked(self) -> Mask:
        """Data with an ECN mark: at the receiver, as switches mark it."""
        return np.asarray(self.data & (self.ecn == 3), np.bool_)

    @cached_property
    def retransmitted(self) -> Mask:
        """Data that begin before what was seen earlier: it was sent again, unless paths are sprayed.

        At the sender that is always so.
        """
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
        # What lies behind a packet that is shorter than others is masked out below.
        places = np.minimum(at[:, None] + np.arange(size), last)
        digits = content[places].astype(np.int64)
        weights = 256 ** np.arange(size) if little else 256 ** np.arange(size)[::-1]
        return np.asarray(digits @ weights, np.int64)

    time_ns = number(records, 4, little=True) * 1_000_000_000 + number(records + 4, 4, little=True)
    ip = records + _RECORD + _ETHERNET
    ip_header = (number(ip, 1) & 15) * 4
    protocol = number(ip + 9, 1)
    tcp = protocol == _TCP
    head = ip + ip_header
    rdma = (protocol == _UDP) & (number(head + 2, 2) == _ROCE)
    length = number(records + 12, 4, little=True)
    ident, ecn = number(ip + 4, 2), number(ip + 1, 1) & 3
    nothing = np.zeros(len(records), np.int64)
    if rdma.any() or not len(records):
        bth = head + 8
        opcode = np.where(rdma, number(bth, 1), -1)
        forward = rdma & (opcode != _REPLY)
        reply = rdma & ~forward
        # Between IP's header and the payload 20 B, behind it padding and the checksum.
        payload = number(ip + 2, 2) - ip_header - 24 - (number(bth + 1, 1) >> 4 & 3)
        payload = np.where(forward, payload, 0)
        # A flow is one message from number 0 on, whose packets are full but for the last one.
        full = int(payload.max(initial=0))
        psn = np.where(rdma, number(bth + 9, 3), 0)
        start, ack = nothing.copy(), nothing.copy()
        start[forward] = _unwrapped(psn[forward], 0, 24) * full
        nak = reply & (number(bth + 12, 1) >= _NAK)
        acks = reply & ~nak
        end = int((start + payload).max(initial=0))
        ack[acks] = np.minimum((_unwrapped(psn[acks], 0, 24) + 1) * full, end)
        echo = reply & (number(bth + 4, 1) & _BECN != 0)
        return Packets(
            time_ns, forward, tcp, rdma, opcode, psn, nak, echo, start, payload, ack, length, ident, ecn
        )
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
    echo = back & (flags & (_ECE | SYN) == _ECE)
    return Packets(
        time_ns, forward, tcp, rdma, flags, nothing, rdma, echo, start, payload, ack, length, ident, ecn
    )


def _unwrapped(numbers: Ints, origin: int, bits: int = 32) -> Ints:
    """Numbers of so many bits as their distances from `origin`, each less than half of all from the last."""
    steps = np.diff(numbers, prepend=origin)
    half = 1 << bits - 1
    return np.cumsum((steps + half) % (2 * half) - half)
