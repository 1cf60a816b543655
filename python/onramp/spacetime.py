"""Packets of traced flows as a page of space and time: each one's way from host to host."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onramp.capture import Packets, read
from onramp.folders import replacing
from onramp.pages import page
from onramp.result import Result
from onramp.scenario import SUBSTRATES

#: Packets of captures on a page at most; the simulator has a limit of its own.
MOST = 50_000


def write(
    path: Path,
    result: Result,
    on: str,
    ways: dict[str, Any],
    captures: dict[int, dict[str, Path]],
    numbered: Container[int],
) -> None:
    """Write the page of a run.

    Parameters
    ----------
    ways : dict
        What the simulator tells of packets' ways; empty on Linux, where both ends are known alone.
    captures : dict
        By flow and end ("sender", "receiver") pcap files, which are read without `ways`.
    numbered : collection of int
        Flows of which packets are counted, not bytes: RDMA's.
    """
    document = result.scenario.document
    ends_only = not ways
    ways = ways or _of_captures(result, captures)
    onramp = document["onramp"]
    data = {
        "scenario": document["name"],
        "seed": document["seed"],
        "about": f"{SUBSTRATES[on]} · {document['network']['kind']} · {document['transport']['kind']}",
        "onramp": onramp["threshold"] if onramp["enabled"] else None,
        "ends_only": ends_only,
        "flows": _flows(result, ways["flows"], numbered),
        "ports": ways["ports"],
        "packets": [_packed(way) for way in ways["packets"]],
        "left_out": ways["left_out"],
    }
    with replacing(path) as part:
        part.write_text(page("space-time", json.dumps(data, separators=(",", ":"))), encoding="utf-8")


def _flows(result: Result, begun: list[Any], numbered: Container[int]) -> list[dict[str, Any]]:
    """The flows table's rows of these flows."""
    numbers = pa.array([flow for flow, _, _ in begun], pa.uint64())
    table = result.flows.filter(pc.is_in(result.flows["id"], numbers))
    rows = {row["id"]: row for row in table.to_pylist()}
    flows = []
    for flow, src, dst in begun:
        row = rows[flow]
        fct_ns = None if row["fct_ps"] is None else row["fct_ps"] / 1e3
        start = {"start_ns": row["start_ps"] / 1e3, "fct_ns": fct_ns}
        unit = "packet" if flow in numbered else "byte"
        flows.append({"id": flow, "src": src, "dst": dst, "bytes": row["bytes"], "unit": unit, **start})
    return flows


def _packed(way: dict[str, Any]) -> list[Any]:
    """A way as the page's script reads it."""
    links = [value for link in way["links"] for value in link]
    fields = ("flow", "kind", "number", "size", "again", "held", "marked", "dropped")
    return [*(int(way[f]) if f == "again" else way[f] for f in fields), *links]


def _of_captures(result: Result, captures: dict[int, dict[str, Path]]) -> dict[str, Any]:
    """Ways of one link each, from the captures of both hosts."""
    hosts = result.scenario.loaded.hosts
    table = result.flows.filter(pc.is_in(result.flows["id"], pa.array(list(captures), pa.uint64())))
    ends = {row["id"]: (hosts[row["src"]], hosts[row["dst"]]) for row in table.to_pylist()}
    ports: list[Any] = []
    packets: list[dict[str, Any]] = []
    left_out = 0
    for n, (flow, files) in enumerate(captures.items()):
        src, dst = ends[flow]
        ports += [[src, dst, 0, 0], [dst, src, 0, 0]]
        sender, receiver = (read(files[end]) for end in ("sender", "receiver"))
        for forward, (leaves, comes) in ((True, (sender, receiver)), (False, (receiver, sender))):
            port = 2 * n if forward else 2 * n + 1
            packets += _matched(n, port, leaves, comes, forward)
    packets.sort(key=lambda way: way["begin"])
    if len(packets) > MOST:
        left_out = len(packets) - MOST
        packets = packets[:MOST]
    return {
        "ports": ports,
        "flows": [(flow, *ends[flow]) for flow in captures],
        "packets": packets,
        "left_out": left_out,
    }


def _matched(flow: int, port: int, leaves: Packets, comes: Packets, forward: bool) -> list[dict[str, Any]]:
    """Packets that leave one host, and when each comes to the other: one that does not is lost."""
    arrivals: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
    for i in map(int, np.flatnonzero(comes.forward == forward)):
        arrivals[_identity(comes, i)].append(i)
    again = leaves.retransmitted
    found = []
    for i in map(int, np.flatnonzero(leaves.forward == forward)):
        if not (leaves.data[i] or leaves.acks[i] or leaves.or_acks[i]):
            continue  # The connection's opening.
        at = int(leaves.time_ns[i])
        there = arrivals[_identity(leaves, i)]
        came = there.popleft() if there else None
        kind = "data" if leaves.data[i] else "or-ack" if leaves.or_acks[i] else "ack"
        found.append(
            {
                "flow": flow,
                "kind": kind,
                "number": int(leaves.start[i] if leaves.data[i] else leaves.ack[i]),
                "size": int(leaves.length[i]),
                "again": bool(again[i]),
                "held": 0,
                "marked": 0 if came is not None and leaves.data[i] and comes.ecn[came] == 3 else None,
                "dropped": (port, at) if came is None else None,
                "links": [] if came is None else [(port, at, int(comes.time_ns[came]))],
                "begin": at,
            }
        )
    return found


def _identity(packets: Packets, i: int) -> tuple[int, ...]:
    """Fields that are the same at both hosts, IPv4's identification among them."""
    return tuple(int(field[i]) for field in (packets.ident, packets.start, packets.payload, packets.ack))
