"""A run as a Perfetto trace: what each rank does over time, and queues and links beside it.

It opens in the viewer at ui.perfetto.dev, which runs in the browser and sends nothing away.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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

    def _write(self, packet: Any) -> None:
        packet.trusted_packet_sequence_id = _SEQUENCE
        if self._first:
            packet.sequence_flags = packet.SEQ_INCREMENTAL_STATE_CLEARED
            self._first = False
        self._builder.write_packet(packet)

    def track(self, name: str, parent: int | None = None, counter_unit: str | None = None) -> int:
        """A track; its number."""
        number = uuid.uuid5(uuid.NAMESPACE_OID, f"{parent}/{name}").int & ((1 << 63) - 1)
        packet = self._builder.create_packet()
        descriptor = packet.track_descriptor
        descriptor.uuid, descriptor.name = number, name
        if parent is not None:
            descriptor.parent_uuid = parent
        if counter_unit is not None:
            descriptor.counter.unit_name = counter_unit
        self._write(packet)
        return number

    def slice(self, track: int, start_ns: int, end_ns: int, name: str, **notes: int) -> None:
        """A slice of a track, with its numbers."""
        for kind, time in (("begin", start_ns), ("end", end_ns)):
            packet = self._builder.create_packet()
            packet.timestamp = time
            event = packet.track_event
            event.track_uuid = track
            event.type = self._event.TYPE_SLICE_BEGIN if kind == "begin" else self._event.TYPE_SLICE_END
            if kind == "begin":
                event.name = name
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
    lanes = []
    for begin, stop in zip(start.tolist(), end.tolist(), strict=True):
        lane = next((i for i, until in enumerate(free) if until <= begin), len(free))
        free[lane : lane + 1] = [stop]
        lanes.append(lane)
    return lanes


def _hosts(trace: _Trace, operations: pa.Table, collectives: pa.Table) -> None:
    """Each rank's computations and communication, and who of a collective was last."""
    late = dict(
        zip(
            zip(collectives["traffic"].to_pylist(), collectives["number"].to_pylist(), strict=True),
            collectives["last"].to_pylist(),
            strict=True,
        )
    )
    order = [("host", "ascending"), ("start_ps", "ascending"), ("number", "ascending")]
    rows = operations.sort_by(order)
    hosts = rows["host"].to_numpy()
    cuts = np.flatnonzero(np.diff(hosts)) + 1
    for part in np.split(np.arange(len(hosts)), cuts):
        own = rows.take(pa.array(part))
        host = trace.track(f"h{hosts[part[0]]}")
        for label, mask in (
            ("computation", pc.equal(own["kind"], COMPUTATION)),
            ("communication", pc.not_equal(own["kind"], COMPUTATION)),
        ):
            of_kind = own.filter(mask)
            start = of_kind["start_ps"].to_numpy() // 1000
            end = start + of_kind["duration_ps"].to_numpy() // 1000
            tracks: dict[int, int] = {}
            for lane, row, begin, stop in zip(
                _lanes(start, end), of_kind.to_pylist(), start.tolist(), end.tolist(), strict=True
            ):
                if lane not in tracks:
                    tracks[lane] = trace.track(label if lane == 0 else f"{label} {lane + 1}", host)
                notes = {key: row[key] for key in ("iteration", "number", "bytes", "ranks")}
                name = KINDS[row["kind"]]
                if row["collective"] is not None:
                    notes["collective"] = row["collective"]
                    if late.get((row["traffic"], row["collective"])) == row["host"]:
                        name += " (last)"
                trace.slice(tracks[lane], begin, stop, name, **notes)


def _series(trace: _Trace, table: pa.Table, room: int) -> int:
    """Writes what was recorded over time; returns how many values had no room."""
    left_out = max(0, len(table) - room)
    tracks: dict[str, int] = {}
    for row in table.slice(0, room).to_pylist():
        name = row["name"]
        if name not in tracks:
            unit = "B" if name.startswith("queue ") else "1"
            tracks[name] = trace.track(name, counter_unit=unit)
        trace.value(tracks[name], max(0, row["time_ps"] // 1000), row["value"])
    return left_out


def write(result: Result, path: Path, most: int = MOST) -> int:
    """Write a trace.

    Parameters
    ----------
    path : path
        Usually ends with ".perfetto-trace".
    most : int
        Events at most; the earliest are kept, operations before samples.

    Returns
    -------
    int
        Events that had no room.

    Raises
    ------
    OnRampError
        If the run has neither operations nor series, or the package perfetto is missing.
    """
    operations = result.operations.sort_by([("start_ps", "ascending")])
    if not len(operations) and not result.series_names:
        raise OnRampError(
            f"{result.folder}: has nothing over time: neither a collective nor a series (measure.queues)"
        )
    kept = operations.slice(0, most // 2)
    with path.open("wb") as file:
        trace = _Trace(file)
        if len(kept):
            _hosts(trace, kept, result.collectives)
        without_room = _series(trace, result.series, most - 2 * len(kept))
    return 2 * (len(operations) - len(kept)) + without_room
