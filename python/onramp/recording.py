"""Recordings of hosts' flows, as `onrampctl record` writes them."""

from __future__ import annotations

import bisect
import io
import ipaddress
import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from onramp.errors import OnRampError, of_os

FIRST = "# onramp recording 1"
COLUMNS = {
    "source": pa.string(),
    "destination": pa.string(),
    "source_port": pa.uint16(),
    "destination_port": pa.uint16(),
    "began_ns": pa.int64(),
    "ended_ns": pa.int64(),
    "bytes": pa.int64(),
    "again": pa.int64(),
    "packets": pa.int64(),
    "next": pa.int64(),
    "ended": pa.string(),
}
#: Numbers at a recording's end, of what is missing from its flows.
TOTALS = ("lost", "udp_packets", "udp_bytes", "unparsed_packets", "clock_unknown_s")
#: In the place of a time or a request that is not there.
NONE = -1

#: No answer of a request is so many times as large as the middle one.
ALIKE = 8
#: Bunches of so many flows are requests if there are more of them than this many times what chance brings.
CHANCE = 3
#: An answer may leave so many gaps after the others of its request, if its connection was stuck.
LATE = 100

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Recording:
    """Recording of what one host has sent.

    Attributes
    ----------
    hosts : sequence of str
        The host's addresses, or their hashes.
    time : str
        The clock of its times: "fleet", "system" or "monotonic".
    began_ns, ended_ns : int
        When it was recorded, by that clock.
    flows : Table
        A row per flow that it sent, with `COLUMNS`; and one whenever no more came of a connection for a
        while, "came".
    totals : mapping
        `TOTALS`; empty if the recording was cut off.
    """

    path: Path
    hosts: Sequence[str]
    time: str
    began_ns: int
    ended_ns: int
    flows: pa.Table
    totals: Mapping[str, int]


def read(path: Path) -> Recording:
    """Read a recording; one that was cut off as far as it goes.

    Raises
    ------
    OnRampError
        If it is none, or a line is no flow.
    """
    none = "is no recording: give a file that `onrampctl record` wrote"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise OnRampError(of_os(path, e)) from e
    except UnicodeDecodeError as e:
        raise OnRampError(f"{path}: {none}") from e
    # Where it was cut off, the last line may be a part of one.
    lines = text[: text.rfind("\n") + 1].splitlines()
    if not lines or lines[0] != FIRST:
        raise OnRampError(f"{path}: {none}")
    said = dict(line[2:].split(" = ", 1) for line in lines if line.startswith("# ") and " = " in line)
    flows = _flows(path, [line for line in lines if not line.startswith("#")])
    try:
        hosts = said["host"].split()
        time, began = said["time"].split(", from ")
        totals = {name: int(said[name]) for name in TOTALS} if "end" in said else {}
        began_ns = int(began)
        lasted = int(said["end"].split(", after ")[1].removesuffix(" ns")) if totals else 0
    except (KeyError, ValueError, IndexError) as e:
        raise OnRampError(f"{path}: what it says of itself is incomplete ({e}): record again") from e
    last = int(np.max(flows["ended_ns"].to_numpy(), initial=began_ns))
    return Recording(path, hosts, time, began_ns, began_ns + lasted if totals else last, flows, totals)


def _flows(path: Path, lines: Sequence[str]) -> pa.Table:
    if not lines or lines[0] != ",".join(COLUMNS):
        raise OnRampError(f"{path}: has no line {','.join(COLUMNS)}: record again")
    convert = csv.ConvertOptions(column_types=COLUMNS, strings_can_be_null=False, null_values=[])
    try:
        return csv.read_csv(io.BytesIO("\n".join([*lines, ""]).encode()), convert_options=convert)
    except pa.ArrowInvalid as e:
        raise OnRampError(f"{path}: a line is no flow: {e}") from e


@dataclass(frozen=True)
class Flows:
    """Flows of all recordings, in the order of their starts; arrays have shape (flows,).

    Attributes
    ----------
    source, destination : sequence of str
        Names of hosts.
    start_ns : array
        From the first flow on.
    fct_ns : array
        Until the receiver had the last byte; `NONE` where that was not seen.
    bytes : array
        Payload, each byte once.
    request : array
        The same number for the answers of a request; `NONE` for flows of none.
    span_ns : int
        Time in which the flows began.
    missing : sequence of str
        What the recordings do not tell, a sentence each.
    """

    source: Sequence[str]
    destination: Sequence[str]
    start_ns: Ints
    fct_ns: Ints
    bytes: Ints
    request: Ints
    span_ns: int
    missing: Sequence[str]

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def requests(self) -> int:
        """How many requests there are."""
        return len(np.unique(self.request[self.request != NONE]))


def combine(
    recordings: Sequence[Recording], hosts: Sequence[str], names: Mapping[str, str], gap_ns: int
) -> Flows:
    """Recordings put together, in the time that all of them cover.

    Parameters
    ----------
    hosts : sequence of str
        Names of the network's hosts.
    names : mapping
        Names by address; empty: addresses in their order are the network's hosts in theirs.
    gap_ns : int
        Flows of several hosts to one, of which none begins later than this after the one before, are the
        answers of a request, unless they are far larger than the others, or chance brings as many such
        bunches. An answer that leaves late counts as begun with the others.

    Raises
    ------
    OnRampError
        If they have no time or no clock in common, or the network has not so many hosts.
    """
    by_host: dict[str, Recording] = {}
    for r in recordings:
        if (other := by_host.setdefault(r.hosts[0] if r.hosts else str(r.path), r)) is not r:
            raise OnRampError(f"{r.path}: {r.hosts[0]} is in two recordings, in {other.path} too")
    clocks = {r.time for r in recordings}
    if len(clocks) > 1:
        raise OnRampError(
            f"recordings are by different clocks ({', '.join(sorted(clocks))}): record with agents"
        )
    begin, end = max(r.began_ns for r in recordings), min(r.ended_ns for r in recordings)
    if begin >= end:
        late = max(recordings, key=lambda r: r.began_ns)
        raise OnRampError(f"{late.path}: began after another recording had ended: record at the same time")
    table = pa.concat_tables([r.flows for r in recordings])
    arrivals = _arrivals(table.filter(pc.equal(table["ended"], "came")))
    table = table.filter(pc.not_equal(table["ended"], "came"))
    recorded = {address for r in recordings for address in r.hosts}
    source, destination = (
        np.array(table[name].to_pylist(), dtype=object) for name in ("source", "destination")
    )
    began, sizes = (table[name].to_numpy() for name in ("began_ns", "bytes"))
    arrived = np.array([arrivals.get(key, NONE) for key in _keys(table)])
    places = _places({*source, *destination}, recorded, hosts, names)

    in_time = (began >= begin) & (began < end)
    inside = np.array(
        [s in places and d in places for s, d in zip(source, destination, strict=True)], dtype=bool
    )
    missing = []
    if not in_time.all():
        missing.append(f"{np.sum(~in_time):,} flows began when not all hosts were recorded: left out.")
    if outside := int(np.sum(in_time & ~inside)):
        size = _bytes(int(np.sum(sizes[in_time & ~inside])))
        missing.append(f"{outside:,} flows ({size}) were to or from hosts outside of the network: left out.")
    if silent := sorted({*destination[in_time & inside]} - recorded):
        missing.append(
            f"{len(silent)} hosts were not recorded, so that what they sent is missing: {_some(silent)}."
        )

    kept = np.flatnonzero(in_time & inside & (source != destination))
    if not len(kept):
        if (silent := sorted({*destination[in_time]} - recorded)) and not names:
            which = "which was" if len(silent) == 1 else "which were"
            raise OnRampError(f"all flows go to {_some(silent)}, {which} not recorded: record there, too")
        raise OnRampError("the recordings have no flow between hosts of the network")
    kept = kept[np.argsort(began[kept], kind="stable")]
    first = int(began[kept[0]])
    to = [places[address] for address in destination[kept]]
    by = [places[address] for address in source[kept]]
    starts, sizes = began[kept] - first, sizes[kept]
    request = _requests(by, to, starts, sizes, gap_ns)
    stuck = _late(by, to, starts, sizes, request, gap_ns)
    for flow, (number, start) in stuck.items():
        request[flow], starts[flow] = number, start
    # Clocks that differ by more than it took tell nothing.
    took = np.where(arrived[kept] > began[kept], arrived[kept] - first - starts, NONE)
    order = np.argsort(starts, kind="stable")
    return Flows(
        [by[i] for i in order],
        [to[i] for i in order],
        starts[order],
        took[order],
        sizes[order],
        request[order],
        end - first,
        [*missing, *_late_told(len(stuck)), *_missing(recordings)],
    )


#: By which a flow and its arrival are known: addresses, ports, and the sequence number after its last byte.
_KEY = ("source", "destination", "source_port", "destination_port", "next")


def _keys(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in _KEY), strict=True)


def _arrivals(came: pa.Table) -> Mapping[tuple[Any, ...], int]:
    """When the receivers had all of a flow."""
    return dict(zip(_keys(came), came["ended_ns"].to_pylist(), strict=True))


def _places(
    ends: Iterable[str], recorded: Iterable[str], hosts: Sequence[str], names: Mapping[str, str]
) -> Mapping[str, str]:
    """Names of hosts by address."""
    for address, name in names.items():
        if name not in hosts:
            raise OnRampError(
                f"{address},{name}: the network has no host {name}: it has {hosts[0]} to {hosts[-1]}"
            )
    if names:
        return names
    found = sorted({*recorded} & {*ends}, key=_order)
    if len(found) > len(hosts):
        raise OnRampError(
            f"{len(found)} hosts were recorded, and the network has {len(hosts)}: take a larger one"
        )
    return dict(zip(found, hosts, strict=False))


def _order(address: str) -> tuple[int, int, str]:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        # A hash.
        return (0, 0, address)
    return (parsed.version, int(parsed), "")


def _requests(
    source: Sequence[str], destination: Sequence[str], start_ns: Ints, sizes: Ints, gap_ns: int
) -> Ints:
    """Numbers of requests: of flows of several hosts to one that begin together and are of like sizes."""
    found = np.full(len(start_ns), NONE)
    if not len(found):
        return found
    bunches: dict[str, list[list[int]]] = {}
    for i, to in enumerate(destination):
        there = bunches.setdefault(to, [])
        if there and start_ns[i] - start_ns[there[-1][-1]] <= gap_ns:
            there[-1].append(i)
        else:
            there.append([i])
    answers: dict[int, list[list[int]]] = {}
    for bunch in (bunch for there in bunches.values() for bunch in there):
        # What else goes there at that moment is hardly as small.
        middle = sorted(sizes[bunch])[(len(bunch) - 1) // 2]
        alike = [i for i in bunch if sizes[i] <= ALIKE * middle]
        answers.setdefault(len({source[i] for i in alike}), []).append(alike)
    by_chance = _by_chance(start_ns, bunches.values(), gap_ns)
    requests = [
        alike
        for fan_out, those in answers.items()
        if fan_out > 1 and len(those) > CHANCE * by_chance(fan_out)
        for alike in those
    ]
    for number, alike in enumerate(sorted(requests)):
        found[alike] = number
    return found


def _late(
    source: Sequence[str], destination: Sequence[str], start_ns: Ints, sizes: Ints, request: Ints, gap_ns: int
) -> Mapping[int, tuple[int, int]]:
    """Answers that left after the others of their request: its number and its start, by flow.

    Such a flow is of their size, and the request lacks an answer of its source: it has fewer than most.
    """
    members: dict[int, list[int]] = {}
    for flow in map(int, np.flatnonzero(request != NONE)):
        members.setdefault(int(request[flow]), []).append(flow)
    sources = {number: {source[i] for i in those} for number, those in members.items()}
    usual = statistics.mode(map(len, sources.values())) if sources else 0
    # By destination, in the order of their starts: those of the last of the others.
    lacking: dict[str, list[tuple[int, int]]] = {}
    for number, those in members.items():
        if len(sources[number]) < usual:
            lacking.setdefault(destination[those[0]], []).append((int(start_ns[those[-1]]), number))
    found = {}
    for flow in map(int, np.flatnonzero(request == NONE)):
        there = lacking.get(destination[flow], [])
        now = int(start_ns[flow])
        first = bisect.bisect_left(there, (now - LATE * gap_ns,))
        # The last request first.
        for start, number in reversed(there[first : bisect.bisect_left(there, (now + 1,))]):
            middle = statistics.median_low(sizes[members[number]].tolist())
            is_alike = middle <= ALIKE * sizes[flow] and sizes[flow] <= ALIKE * middle
            if is_alike and len(sources[number]) < usual and source[flow] not in sources[number]:
                sources[number].add(source[flow])
                found[flow] = (number, start)
                break
    return found


def _late_told(answers: int) -> list[str]:
    said = "answers left after the others of their request, as of stuck connections: begun with them."
    return [f"{answers:,} {said}"] if answers else []


def _by_chance(
    start_ns: Ints, bunches: Iterable[Sequence[Sequence[int]]], gap_ns: int
) -> Callable[[int], float]:
    """How many bunches of a size there would be if flows had nothing to do with each other.

    Parameters
    ----------
    bunches : iterable
        Those to each host. How many follow within ten more gaps tells how likely another is within one.
    """
    rates = []
    for there in bunches:
        apart = np.array([start_ns[b[0]] - start_ns[a[-1]] for a, b in itertools.pairwise(there)])
        rates.append((len(there), float(np.sum(apart <= 11 * gap_ns)) / (10 * len(there))))
    return lambda size: sum(n * p ** (size - 1) for n, p in rates)


def _some(addresses: Sequence[str]) -> str:
    return ", ".join(addresses[:5]) + (", …" if len(addresses) > 5 else "")


def _missing(recordings: Sequence[Recording]) -> list[str]:
    found = []
    cut = [str(r.path) for r in recordings if not r.totals]
    if cut:
        found.append(f"Cut off, so that it is not known what is missing: {', '.join(cut)}.")
    total = {name: sum(r.totals.get(name, 0) for r in recordings) for name in TOTALS}
    if total["lost"]:
        found.append(f"{total['lost']:,} flows were lost while recording.")
    if total["udp_packets"]:
        found.append(f"UDP is not recorded: {total['udp_packets']:,} packets, {_bytes(total['udp_bytes'])}.")
    if total["unparsed_packets"]:
        found.append(f"{total['unparsed_packets']:,} packets were neither TCP nor UDP.")
    if total["clock_unknown_s"]:
        found.append(f"Clocks were not known for {total['clock_unknown_s']} s in all: they ran on as before.")
    if any(r.time == "system" for r in recordings):
        found.append("Times are of the hosts' system clocks: where these differ, incasts are smeared.")
    return found


def _bytes(n: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n} B"
