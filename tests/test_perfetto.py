"""Perfetto traces: flows, messages and PFC pauses; operations are in test_collectives.py."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

import onramp
from conftest import SMALL
from onramp import perfetto, tables

ROOT = Path(__file__).parents[1]
STAR = {"kind": "star", "hosts": 4, "host_rate": "100Gbps"}
RING = {"kind": "collective", "operation": "all-reduce", "size": "1MB", "compute": "20us", "repeat": 2}


class Read:
    """A trace: full names of tracks, and their slices as start, end [ns], name, notes, arrows."""

    def __init__(self, path: Path) -> None:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

        packets = Trace.FromString(path.read_bytes()).packet
        tracks = {
            p.track_descriptor.uuid: p.track_descriptor for p in packets if p.HasField("track_descriptor")
        }
        assert len(tracks) == sum(p.HasField("track_descriptor") for p in packets), "each is made once"

        def name(uuid: int) -> str:
            track = tracks[uuid]
            return f"{name(track.parent_uuid)}/{track.name}" if track.parent_uuid else str(track.name)

        self.events = sum(p.HasField("track_event") for p in packets)
        self.slices: dict[str, list[tuple[int, int, str, dict[str, int], list[int]]]] = defaultdict(list)
        begun: dict[int, Any] = {}
        for packet in packets:
            event = packet.track_event
            if not packet.HasField("track_event") or event.type == TrackEvent.TYPE_COUNTER:
                continue
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                assert event.track_uuid not in begun, "slices of a track do not overlap"
                begun[event.track_uuid] = packet
                continue
            first = begun.pop(event.track_uuid)
            notes = {note.name: note.int_value for note in first.track_event.debug_annotations}
            own = self.slices[name(event.track_uuid)]
            assert not own or own[-1][1] <= first.timestamp <= packet.timestamp, (
                "slices of a track do not overlap"
            )
            arrows = list(first.track_event.flow_ids)
            own.append((first.timestamp, packet.timestamp, first.track_event.name, notes, arrows))
        assert not begun


def of_hosts(trace: Read) -> list[tuple[str, Any]]:
    """Host and slice of all that is sent."""
    return [
        (track.split("/")[0], one) for track, own in trace.slices.items() if "/flows/" in track for one in own
    ]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20))))
def test_slices_of_a_lane_do_not_overlap_and_a_lane_is_new_only_where_all_are_taken(
    drawn: list[tuple[int, int]],
) -> None:
    start = np.array(sorted(begin for begin, _ in drawn), np.int64)
    end = start + np.array([length for _, length in drawn], np.int64)
    lanes = perfetto._lanes(start, end)
    until: dict[int, int] = {}
    for lane, begin, stop in zip(lanes, start.tolist(), end.tolist(), strict=True):
        assert until.get(lane, begin) <= begin
        assert all(until[other] > begin for other in range(lane))
        until[lane] = stop


@given(st.lists(st.integers(0, 100), min_size=4, max_size=4), st.integers(2, 300))
def test_room_is_shared_and_never_exceeded(rows: list[int], most: int) -> None:
    each = (2, 2, 2, 1)
    kept = perfetto._room(rows, each, most)
    used = sum(count * one for count, one in zip(kept, each, strict=True))
    assert used <= most and all(own <= all for own, all in zip(kept, rows, strict=True))
    # Nothing is left out while there is room for it, and each kind has its quarter.
    for own, all_of_it, one in zip(kept, rows, each, strict=True):
        assert own == all_of_it or (most - used < one and own >= most // 4 // one)


def test_a_run_without_collectives_shows_what_each_host_sends(tmp_path: Path) -> None:
    result = onramp.run(SMALL, {"time_limit": "500us", "duration": "500us"}, out=tmp_path / "run")
    path = tmp_path / "t"
    assert perfetto.write(result, path) == 0
    found, flows = of_hosts(Read(path)), {row["id"]: row for row in result.flows.to_pylist()}
    assert len(found) == len(flows) > 50
    end = round(result.summary["engine"]["simulated_us"] * 1e6)
    unfinished = 0
    for host, (start, stop, name, notes, arrows) in found:
        flow = flows[notes["id"]]
        assert (host, name) == (f"h{flow['src']}", f"→ h{flow['dst']}") and not arrows
        assert notes == {key: flow[key] for key in ("id", "traffic", "bytes", "retransmitted", "timeouts")}
        unfinished += flow["fct_ps"] is None
        last = end if flow["fct_ps"] is None else flow["start_ps"] + flow["fct_ps"]
        assert (start, stop) == (flow["start_ps"] // 1000, last // 1000)
    assert unfinished > 0
    # Bounded: the earliest are kept.
    left_out = perfetto.write(result, path, most=20)
    few = Read(path)
    assert few.events <= 20 and few.events + left_out == 2 * len(flows) + len(result.series)
    latest = max(start for _, (start, *_) in of_hosts(few))
    assert sum(row["start_ps"] // 1000 < latest for row in flows.values()) < len(of_hosts(few))


def test_messages_of_a_collective_are_joined_to_their_ranks_parts(tmp_path: Path) -> None:
    scenario = {
        "name": "ring",
        "duration": "100us",
        "network": STAR,
        "transport": {"kind": "dcqcn"},
        "traffic": [RING],
        "measure": {"messages": True},
    }
    result = onramp.run(scenario, out=tmp_path / "run")
    assert result.messages.schema.equals(tables.SCHEMAS["messages"])
    path = tmp_path / "t"
    assert perfetto.write(result, path) == 0
    trace = Read(path)
    # Six steps of four ranks and two all-reduces.
    sent = of_hosts(trace)
    assert len(sent) == len(result.messages) == 2 * 6 * 4
    assert Counter(host for host, _ in sent) == dict.fromkeys(("h0", "h1", "h2", "h3"), 12)
    assert {(host, one[2]) for host, one in sent} == {(f"h{i}", f"→ h{(i + 1) % 4}") for i in range(4)}
    parts = {
        (host, one[3]["collective"]): one
        for host in ("h0", "h1", "h2", "h3")
        for one in trace.slices[f"{host}/communication"]
    }
    assert len(parts) == 8
    arrows = [number for part in parts.values() for number in part[4]]
    assert len(set(arrows)) == len(arrows) == len(sent)
    for host, (start, _, _, notes, (number,)) in sent:
        begin, end, _, _, to = parts[host, notes["collective"]]
        assert number in to and begin <= start <= end


def test_pauses_of_a_ring_that_deadlocks_are_on_a_track_for_each_port(tmp_path: Path) -> None:
    scenario = ROOT / "scenarios/pfc-deadlock.toml"
    result = onramp.run(scenario, {"measure.pauses": True}, out=tmp_path / "run")
    pauses, links = result.pauses, result.links
    assert pauses.schema.equals(tables.SCHEMAS["pauses"])
    for link in links.to_pylist():
        own = pauses.filter((pc.field("from") == link["from"]) & (pc.field("to") == link["to"]))
        assert (len(own), pc.sum(own["duration_ps"]).as_py() or 0) == (link["pauses"], link["paused_ps"])
    # Ports of the ring and NICs wait for each other until the end.
    end = round(result.summary["engine"]["simulated_us"] * 1e6)
    until = pc.add(pauses["start_ps"], pauses["duration_ps"])
    last = set(pauses.filter(pc.equal(until, end))["from"].to_pylist())
    assert last == {f"{kind}{i}" for kind in "hs" for i in range(5)}
    path = tmp_path / "t"
    assert perfetto.write(result, path) == 0
    found = {track: own for track, own in Read(path).slices.items() if track.startswith("PFC pauses/")}
    ends = set(zip(pauses["from"].to_pylist(), pauses["to"].to_pylist(), strict=True))
    assert set(found) == {f"PFC pauses/{a} → {b} paused" for a, b in ends}
    assert sum(map(len, found.values())) == len(pauses)


def test_neither_pauses_nor_messages_have_a_table_where_they_are_not_recorded(small: onramp.Result) -> None:
    assert not len(small.pauses) and not len(small.messages)
    assert not list(small.folder.glob("pauses*")) and not list(small.folder.glob("messages*"))
