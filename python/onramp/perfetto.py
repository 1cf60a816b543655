"""A run as a Perfetto trace: what each rank does and each host sends over time, PFC pauses, queues and links.

It opens in the viewer at ui.perfetto.dev, which runs in the browser and sends nothing away.
"""

from __future__ import annotations

import heapq
import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onramp import tables
from onramp.errors import OnRampError
from onramp.programs import COMPUTATION, KINDS
from onramp.result import Result

#: Events of a trace at most: some ten megabytes.
MOST = 200_000

_SEQUENCE = 1


class _Trace:
    """Writes packets with track descriptors, slices and counters."""

    def __init__(self, file: Any) -> None:
        try:
            from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
            from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
        except ImportError as error:
            raise OnRampError('needs the package perfetto: pip install "onramp-lab[perfetto]"') from error
        self._builder = StreamingTraceProtoBuilder(file)
        self._event = TrackEvent
        self._first = True
        self._tracks: set[int] = set()

    def _write(self, packet: Any) -> None:
        packet.trusted_packet_sequence_id = _SEQUENCE
        if self._first:
            packet.sequence_flags = packet.SEQ_INCREMENTAL_STATE_CLEARED
            self._first = False
        self._builder.write_packet(packet)

    def track(self, name: str, parent: int | None = None, counter_unit: str | None = None) -> int:
        """A track, which is made once; its number."""
        number = uuid.uuid5(uuid.NAMESPACE_OID, f"{parent}/{name}").int & ((1 << 63) - 1)
        if number in self._tracks:
            return number
        self._tracks.add(number)
        packet = self._builder.create_packet()
        descriptor = packet.track_descriptor
        descriptor.uuid, descriptor.name = number, name
        if parent is not None:
            descriptor.parent_uuid = parent
        if counter_unit is not None:
            descriptor.counter.unit_name = counter_unit
        self._write(packet)
        return number

    def slice(
        self, track: int, start_ns: int, end_ns: int, name: str, arrows: Sequence[int] = (), **notes: int
    ) -> None:
        """A slice of a track, with its numbers; an arrow joins the slices that have its number."""
        for kind, time in (("begin", start_ns), ("end", end_ns)):
            packet = self._builder.create_packet()
            packet.timestamp = time
            event = packet.track_event
            event.track_uuid = track
            event.type = self._event.TYPE_SLICE_BEGIN if kind == "begin" else self._event.TYPE_SLICE_END
            if kind == "begin":
                event.name = name
                event.flow_ids.extend(arrows)
                for key, value in notes.items():
                    note = event.debug_annotations.add()
                    note.name, note.int_value = key, value
            self._write(packet)

    def value(self, track: int, time_ns: int, value: float) -> None:
        """A value of a counter's track."""
        packet = self._builder.create_packet()
        packet.timestamp = time_ns
        packet.track_event.track_uuid = track
        packet.track_event.type = self._event.TYPE_COUNTER
        packet.track_event.double_counter_value = value
        self._write(packet)


def _lanes(start: np.ndarray, end: np.ndarray) -> list[int]:
    """For intervals in order of start, the first lane in which each meets none before it."""
    free: list[int] = []
    used: list[tuple[int, int]] = []
    lanes = []
    for begin, stop in zip(start.tolist(), end.tolist(), strict=True):
        while used and used[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(used)[1])
        lane = heapq.heappop(free) if free else len(used)
        heapq.heappush(used, (stop, lane))
        lanes.append(lane)
    return lanes


def _by_host(rows: pa.Table, column: str) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each host, which keep their order."""
    rows = rows.sort_by([(column, "ascending"), ("start_ps", "ascending")])
    hosts = rows[column].to_numpy()
    cuts = [0, *(np.flatnonzero(np.diff(hosts)) + 1).tolist(), len(hosts)]
    for first, end in itertools.pairwise(cuts):
        if first < end:
            yield int(hosts[first]), rows.slice(first, end - first)


def _slices(rows: pa.Table, track: Callable[[int], int]) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
    """Track, start, end [ns] and the row, of rows in order of start, in as few lanes as they need."""
    start = rows["start_ps"].to_numpy() // 1000
    end = (rows["start_ps"].to_numpy() + rows["duration_ps"].to_numpy()) // 1000
    lanes = _lanes(start, end)
    for lane, row, begin, stop in zip(lanes, rows.to_pylist(), start.tolist(), end.tolist(), strict=True):
        yield track(lane), begin, stop, row


def _operations(
    trace: _Trace, rows: pa.Table, result: Result, arrows: dict[tuple[int, int, int], list[int]]
) -> None:
    """Each rank's computations and communication, and who of a collective was last."""
    collectives = result.collectives
    late = dict(
        zip(
            zip(collectives["traffic"].to_pylist(), collectives["number"].to_pylist(), strict=True),
            collectives["last"].to_pylist(),
            strict=True,
        )
    )
    for number, own in _by_host(rows, "host"):
        host = trace.track(result.scenario.host_name(number))
        for label, mask in (
            ("computation", pc.equal(own["kind"], COMPUTATION)),
            ("communication", pc.not_equal(own["kind"], COMPUTATION)),
        ):

            def track(lane: int, label: str = label, host: int = host) -> int:
                return trace.track(label if lane == 0 else f"{label} {lane + 1}", host)

            for lane, begin, stop, row in _slices(own.filter(mask), track):
                notes = {key: row[key] for key in ("iteration", "number", "bytes", "ranks")}
                name, sent = KINDS[row["kind"]], []
                if row["collective"] is not None:
                    notes["collective"] = row["collective"]
                    if late.get((row["traffic"], row["collective"])) == row["host"]:
                        name += " (last)"
                    sent = arrows.pop((row["traffic"], row["collective"], row["host"]), [])
                trace.slice(lane, begin, stop, name, sent, **notes)


#: Numbers of a flow or message that its slice has.
_NOTES = ("id", "traffic", "collective", "bytes", "retransmitted", "timeouts")


def _sent(result: Result) -> pa.Table:
    """Flows, and messages if recorded, in order of start; an unfinished flow lasts until the run ends."""
    columns = ["id", "traffic", "src", "dst", "bytes", "start_ps", "fct_ps", "retransmitted", "timeouts"]
    flows = tables.read(result.folder, "flows", columns)
    if flows["fct_ps"].null_count:
        end = pa.scalar(round(result.summary["engine"]["simulated_us"] * 1e6), pa.uint64())
        age = pc.subtract(pc.max_element_wise(flows["start_ps"], end), flows["start_ps"])
        flows = flows.set_column(columns.index("fct_ps"), "fct_ps", pc.fill_null(flows["fct_ps"], age))
    flows = flows.rename_columns(["duration_ps" if name == "fct_ps" else name for name in columns])
    plain = [
        table.cast(pa.schema([pa.field(field.name, field.type) for field in table.schema]))
        for table in (flows, result.messages)
    ]
    return pa.concat_tables(plain, promote_options="default").sort_by([("start_ps", "ascending")])


def _arrows(sent: pa.Table, operations: pa.Table) -> dict[tuple[int, int, int], list[int]]:
    """Numbers of messages, from 1, by section, collective and host of those of its parts that are there."""
    parts = ("traffic", "collective", "host")
    there = set(zip(*(operations[name].to_pylist() for name in parts), strict=True))
    of = zip(*(sent[name].to_pylist() for name in ("traffic", "collective", "src")), strict=True)
    found: dict[tuple[int, int, int], list[int]] = {}
    for place, key in enumerate(of, 1):
        if key[1] is not None and key in there:
            found.setdefault(key, []).append(place)
    return found


def _flows(trace: _Trace, rows: pa.Table, result: Result, arrows: set[int]) -> None:
    """Each host's flows and messages; an arrow leads from a rank's part in a collective to what it sends."""
    rows = rows.append_column("place", pa.array(range(1, len(rows) + 1), pa.int64()))
    for number, own in _by_host(rows, "src"):
        group = trace.track("flows", trace.track(result.scenario.host_name(number)))

        def track(lane: int, group: int = group) -> int:
            return trace.track(f"lane {lane + 1}", group)

        for lane, begin, stop, row in _slices(own, track):
            notes = {key: row[key] for key in _NOTES if row[key] is not None}
            name = f"→ {result.scenario.host_name(row['dst'])}"
            trace.slice(lane, begin, stop, name, [row["place"]] if row["place"] in arrows else (), **notes)


def _pauses(trace: _Trace, rows: pa.Table) -> None:
    """When PFC paused each port, a track for each, and for each class where there are several."""
    several = pc.max(rows["class"]).as_py()
    group = trace.track("PFC pauses")
    for row in rows.to_pylist():
        name = f"{row['from']} → {row['to']} paused"
        if several:
            name += f", class {row['class']}"
        begin, end = row["start_ps"], row["start_ps"] + row["duration_ps"]
        trace.slice(trace.track(name, group), begin // 1000, end // 1000, "paused")


def _series(trace: _Trace, table: pa.Table) -> None:
    """Series recorded over time."""
    for row in table.to_pylist():
        unit = "B" if row["name"].startswith("queue ") else "1"
        track = trace.track(row["name"], counter_unit=unit)
        trace.value(track, max(0, row["time_ps"] // 1000), row["value"])


def _room(rows: Sequence[int], events: Sequence[int], most: int) -> list[int]:
    """Rows of each kind that are kept, where each row takes so many events and all may take `most`.

    Each kind may have an equal part of the room; what one leaves goes to the others, the first ones first.
    """
    share = most // len(rows)
    kept = [min(count, share // each) for count, each in zip(rows, events, strict=True)]
    left = most - sum(count * each for count, each in zip(kept, events, strict=True))
    for kind, (count, each) in enumerate(zip(rows, events, strict=True)):
        more = min(count - kept[kind], left // each)
        kept[kind] += more
        left -= more * each
    return kept


def write(result: Result, path: Path, most: int = MOST) -> int:
    """Write a trace.

    Parameters
    ----------
    path : path
        Usually ends with ".perfetto-trace".
    most : int
        Events at most: a slice has two, a sample one. Operations, flows, pauses and samples may have a
        quarter each, and in this order what the others leave. The earliest of each are kept.

    Returns
    -------
    int
        Events that had no room.

    Raises
    ------
    OnRampError
        If the run has nothing over time, or the package perfetto is missing.
    """
    operations, sent, pauses, series = (
        table.sort_by([("start_ps", "ascending")]) if "start_ps" in table.schema.names else table
        for table in (result.operations, _sent(result), result.pauses, result.series)
    )
    rows, events = [len(table) for table in (operations, sent, pauses, series)], (2, 2, 2, 1)
    if not any(rows):
        raise OnRampError(
            f"{result.folder}: has nothing over time that is complete: no flow, no collective, no series "
            "(measure.queues), no messages (measure.messages)"
        )
    kept = _room(rows, events, most)
    operations, sent, pauses, series = (
        table.slice(0, count) for table, count in zip((operations, sent, pauses, series), kept, strict=True)
    )
    with path.open("wb") as file:
        trace = _Trace(file)
        arrows = _arrows(sent, operations)
        numbers = {number for part in arrows.values() for number in part}
        _operations(trace, operations, result, arrows)
        _flows(trace, sent, result, numbers)
        if len(pauses):
            _pauses(trace, pauses)
        _series(trace, series)
    return sum((all - own) * each for all, own, each in zip(rows, kept, events, strict=True))
