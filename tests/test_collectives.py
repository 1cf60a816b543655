"""Collectives and distributed programs, from the scenario to the summary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import onramp
from onramp import perfetto, programs, tables

STAR = {"kind": "star", "hosts": 4, "host_rate": "100Gbps"}


def scenario(**section: object) -> dict[str, object]:
    return {
        "name": "collectives",
        "duration": "100us",
        "network": STAR,
        "transport": {"kind": "dcqcn"},
        "traffic": [section],
    }


def test_nccl_tests_bandwidths_are_in_the_summary() -> None:
    result = onramp.run(scenario(kind="collective", operation="all-reduce", size="4MB", repeat=3))
    part = result.summary["collective"]
    assert part["collectives"] == len(result.collectives) == 3
    took = result.collectives["duration_ps"].to_numpy() / 1e12
    assert part["algbw"] == pytest.approx((4e6 / took / 1e9).mean())
    assert part["busbw"] == pytest.approx(part["algbw"] * 1.5)
    # A NIC has 12.5 GB/s, of which headers take 48 of 1048.
    assert 0.8 * 12.5 / 1.048 < part["busbw"] < 12.5 / 1.048
    assert len(result.operations) == 3 * 4


def test_iterations_that_are_skipped_leave_the_same_files(tmp_path: Path) -> None:
    job = scenario(kind="collective", operation="all-reduce", size="400KB", compute="50us", repeat=50)
    skipped, simulated = (onramp.run(job, out=tmp_path / str(skip), skip=skip) for skip in (True, False))
    assert skipped.summary["sha256"] == simulated.summary["sha256"]
    engines = [dict(result.summary.pop("engine")) for result in (skipped, simulated)]
    assert skipped.summary == simulated.summary
    assert engines[0].pop("skipping") == "skipped 47 of 50 iterations, which are the same"
    same = ("packet_hops", "simulated_us")
    assert [engines[0][key] for key in same] == [engines[1][key] for key in same]


def test_iterations_tell_what_is_exposed() -> None:
    result = onramp.run(
        scenario(kind="collective", operation="all-gather", size="1MB", compute="200us", repeat=2)
    )
    first, second = programs.iterations(result.operations)
    assert (first.number, second.number) == (0, 1)
    assert first.duration_us > 200 and first.exposed == pytest.approx(1 - 200 / first.duration_us)
    part = result.summary["collective"]
    assert part["iteration_ms"] == pytest.approx((first.duration_us + second.duration_us) / 2e3)
    assert part["exposed"] == pytest.approx((first.exposed + second.exposed) / 2)


def test_intervals_that_overlap_are_counted_once() -> None:
    columns = {
        "traffic": [0] * 5,
        "rank": [0, 0, 0, 1, 1],
        "host": [7, 7, 7, 8, 8],
        "iteration": [0] * 5,
        "number": [0, 1, 2, 0, 1],
        "kind": [0, 0, 0, 0, 3],
        "collective": [None] * 5,
        "ranks": [1] * 5,
        "bytes": [0] * 5,
        # The first rank computes from 0 to 40 and from 50 to 60, the second from 0 to 10.
        "start_ps": np.array([0, 20, 50, 0, 10]) * 10**6,
        "duration_ps": np.array([30, 20, 10, 10, 90]) * 10**6,
    }
    (found,) = programs.iterations(pa.table(columns, schema=tables.SCHEMAS["operations"]))
    assert (found.duration_us, found.last) == (100, 8)
    assert found.exposed == pytest.approx(1 - (50 + 10) / 200)


def test_a_trace_and_what_it_leaves_out(tmp_path: Path) -> None:
    layers = "all -1 100 ALLREDUCE 1000000 50 NONE 0 20 ALLREDUCE 2000000 1\n" * 3
    head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 all_gpus: 4\n3\n"
    (tmp_path / "job.txt").write_text(head + layers)
    file = tmp_path / "job.toml"
    file.write_text(
        'duration = "1ms"\n[network]\nkind = "servers"\nservers = 2\ngpus = 2\n[transport]\nkind = "dcqcn"\n'
        '[[traffic]]\nkind = "program"\nfile = "job.txt"\n'
    )
    loaded = onramp.validate(file)
    assert [line.split("not simulated: ")[1] for line in loaded.loaded.advice] == [
        "time after each communication (last column), up to 1 ns"
    ]
    result = onramp.run(file, out=tmp_path / "out")
    # Two groups of both kinds; three layers.
    assert len(result.collectives) == 2 * 3 + 2 * 3
    assert (tmp_path / "out" / "inputs" / "job.txt").exists()
    names = {programs.KINDS[kind] for kind in result.operations["kind"].to_pylist()}
    assert names == {"computation", "all-reduce"}


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"size": "0B"}, "size: must be larger than 0"),
        ({"algorithm": "pairwise"}, '"pairwise" does no all-reduce'),
        ({"group": 3}, "4 ranks are no multiple of group times stride, 3 times 1"),
        ({"group": 1}, "1 rank: a collective is between at least two"),
        ({"hosts": ["h0"]}, "traffic is between at least two"),
        ({"chunk": "1B"}, "1B is less than 1024B"),
        ({"server": 3}, "3 ranks a server do not divide a group of 4"),
        ({"operation": "all-sum"}, "all-sum"),
        ({"queue_pairs": 65}, "queue_pairs: 65 is outside 1 to 64"),
        ({"send_rate": "0bps"}, 'send_rate: must be above 0, such as "200Gbps"'),
    ],
)
def test_mistakes_are_told_in_a_line(keys: dict[str, object], line: str) -> None:
    section = {"kind": "collective", "operation": "all-reduce", "size": "1MB", **keys}
    with pytest.raises(onramp.ScenarioError, match=line):
        onramp.validate(scenario(**section))


def test_a_perfetto_trace_has_every_operation_and_its_host(tmp_path: Path) -> None:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    section = {"kind": "collective", "operation": "all-reduce", "size": "1MB", "compute": "20us", "repeat": 2}
    source = scenario(**section) | {"measure": {"queues": ["s0->h0"]}}
    result = onramp.run(source, out=tmp_path / "run")
    path = tmp_path / "t.perfetto-trace"
    assert perfetto.write(result, path) == 0
    trace = Trace.FromString(path.read_bytes())
    names = {
        p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")
    }
    parents = {uuid: names[track.parent_uuid].name for uuid, track in names.items() if track.parent_uuid}
    events = [p for p in trace.packet if p.HasField("track_event")]
    begun = [p for p in events if p.track_event.type == TrackEvent.TYPE_SLICE_BEGIN]
    assert len(begun) == len(result.operations) == 4 * 2 * 2
    assert {parents[p.track_event.track_uuid] for p in begun} == {"h0", "h1", "h2", "h3"}
    assert sum(p.track_event.name.endswith("(last)") for p in begun) == 2
    values = [p for p in events if p.track_event.type == TrackEvent.TYPE_COUNTER]
    assert len(values) == len(result.series)
    # Bounded: the earliest are kept, and it is told how many are not. Samples have a quarter of the room.
    assert perfetto.write(result, path, most=12) == 2 * (16 - 4) + len(values) - 4
    asked = {"from": ["h0"], "to": ["h1"], "request": "100B", "response": "5KB", "depth": 1}
    with pytest.raises(onramp.OnRampError, match="nothing over time"):
        perfetto.write(onramp.run(scenario(kind="rpc", **asked)), path)
