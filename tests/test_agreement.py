"""The simulator's TCP beside Linux's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import onramp
from onramp import agreement, cli
from onramp.metrics import Metric
from test_linux import needs_agent, needs_kernel

AGREEMENT = Path(__file__).parents[1] / "scenarios" / "agreement"
FLOW, LOSS = AGREEMENT / "one-flow.toml", AGREEMENT / "one-loss.toml"
SCENARIO = """
name = "pair"
duration = "5ms"
network = { kind = "star", hosts = 4, host_rate = "10Gbps" }
transport = { kind = "cubic" }
onramp = { threshold = "50us" }
[[traffic]]
kind = "trace"
file = "flows.csv"
"""


def _said(command: list[str]) -> str:
    ended = CliRunner().invoke(cli.commands, command)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


@needs_agent
def test_flows_alone_take_as_long_on_both_and_the_page_shows_it(tmp_path: Path) -> None:
    rows = [
        f"h0,h3,{size},{i * 1_000_000}" for i, size in enumerate((1000, 9000, 60_000, 300_000, 2_000_000))
    ]
    (tmp_path / "flows.csv").write_text("src,dst,bytes,start_ns\n" + "\n".join(rows) + "\n")
    (tmp_path / "pair.toml").write_text(SCENARIO)
    out = tmp_path / "out"
    command = ["agree", str(tmp_path / "pair.toml"), "--out", str(out)]
    _said(command)
    run = {file: file.stat().st_mtime_ns for file in out.glob("*/summary.json")}
    assert len(run) == 4
    (found,) = json.loads(_said([*command, "--json"]))
    assert run == {file: file.stat().st_mtime_ns for file in run}, "what is there is not run again"
    assert list(found["runs"]) == ["without", "with"]
    times = [row for row in found["rows"] if row["metric"]["unit"] == "µs"]
    assert len(times) == 2 * 3 * len(agreement.STATISTICS)
    for row in times:
        assert abs(row["ratio"] - 1) < 0.01, row
    page = (out / "index.html").read_text()
    assert "simulator / Linux" in page and page.count("<svg") == 3
    tests = json.loads((out / "equivalence.json").read_text())
    assert {test["statistic"] for test in tests["simulator"]} == {"waits"} and not tests["linux again"]
    assert {test["verdict"] for test in tests["simulator"]} == {"inconclusive"}, "one pair proves nothing"


@needs_kernel
def test_several_are_an_overview(tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text("src,dst,bytes,start_ns\nh0,h3,60000,0\n")
    (tmp_path / "pair.toml").write_text(SCENARIO)
    command = ["agree", str(tmp_path / "pair.toml"), "--out", str(tmp_path / "out"), "--markdown"]
    options = ["--set", "onramp.enabled=false", "--vary", "transport.kind=cubic,newreno", "--floor"]
    overview, *tests = _said(command + options).split("\n\n")
    head, _, cubic, newreno = overview.splitlines()
    assert head.startswith("| transport.kind |  | RCT mean |")
    assert cubic.startswith("| cubic | without On-Ramp |") and newreno.startswith("| newreno |")
    assert len({line.count("|") for line in (head, cubic, newreno)}) == 1
    assert newreno.split("|")[-6].strip() == "–" != newreno.split("|")[-4].strip()
    assert tests[0] == tests[2] and tests[0].startswith("- all: 0 of 2 equivalent, 0 different")


@needs_kernel
def test_a_jobs_iterations_take_as_long_on_both(tmp_path: Path) -> None:
    # It has messages and no collective, so that iterations are all that tells its time.
    (tmp_path / "job.goal").write_text(
        "num_ranks 2\nrank 0 {\na: calc 100000\nb: send 100000b to 1 tag 1\nb requires a\n}\n"
        "rank 1 {\na: recv 100000b from 0 tag 1\nb: calc 300000\nb requires a\n}\n"
    )
    (tmp_path / "job.toml").write_text(
        SCENARIO.partition("[[traffic]]")[0]
        + '[[traffic]]\nkind = "program"\nfile = "job.goal"\nrepeat = 3\n'
    )
    command = ["agree", str(tmp_path / "job.toml"), "--out", str(tmp_path / "out"), "--json"]
    (found,) = json.loads(_said([*command, "--set", "onramp.enabled=false"]))
    (took,) = (row for row in found["rows"] if row["metric"]["statistic"] == "iteration_ms")
    assert took["linux"] > 0.4 and took["ratio"] == pytest.approx(1, abs=0.02)


@needs_kernel
def test_settings_have_the_same_effect_on_both(tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text("src,dst,bytes,start_ns\nh0,h3,60000,0\n")
    (tmp_path / "pair.toml").write_text(SCENARIO)
    cases: dict[str, dict[str, object]] = {
        "as it is": {},
        "first window": {"linux.initial_window": 2},
        "small segments": {"linux.sysctl": {"net.ipv4.tcp_min_tso_segs": "1"}},
        "little output": {"linux.sysctl": {"net.ipv4.tcp_limit_output_bytes": "4096"}},
    }
    times = {}
    for name, changes in cases.items():
        both = [
            onramp.run(tmp_path / "pair.toml", {"onramp.enabled": False, **changes}, on=on)
            for on in ("sim", "linux")
        ]
        sim, linux = (result.flows["fct_ps"][0].as_py() for result in both)
        assert abs(sim / linux - 1) < 0.01, (name, sim, linux)
        times[name] = linux
    assert times["first window"] > 1.02 * times["as it is"], times


def test_a_ratio_is_the_geometric_mean_of_the_seeds() -> None:
    metric = Metric("Incast RCT", "mean", "µs", "incast", "mean")
    (near,) = agreement._row("without On-Ramp", metric, [105.0, 108.0], [100.0, 100.0])
    assert near.ratio == pytest.approx(1.0649, abs=1e-3) and near.interval is not None
    (far,) = agreement._row("without On-Ramp", metric, [120.0, None], [100.0, 90.0])
    assert far.ratio == pytest.approx(1.2) and far.interval is None
    assert agreement._row("without On-Ramp", metric, [None], [1.0]) == []


@needs_kernel
@pytest.mark.parametrize("kind", ["cubic", "newreno", "bbr", "dctcp-tcp", "vegas"])
def test_one_lost_packet_costs_the_same_on_both(kind: str, tmp_path: Path) -> None:
    # The first of ten that others meet, one in their midst, and so on to the last, which waits for a timeout.
    for meet_ns in (18_000, 22_200, 24_600, 27_000, 31_800):
        # Further apart than the jitter of the cluster's links.
        others = [f"{src},0,1448,{meet_ns + 10 * src}" for src in range(2, 11)]
        (tmp_path / "flows.csv").write_text(
            "\n".join(["src,dst,bytes,start_ns", "1,0,20000,0", *others]) + "\n"
        )
        changes = {"transport.kind": kind, "traffic.0.file": str(tmp_path / "flows.csv")}
        runs = [onramp.run(LOSS, changes, on=on) for on in ("sim", "linux")]
        assert [r.summary["network"]["drops"] for r in runs] == [1, 1]
        sim, linux = (r.flows.sort_by("id").to_pydict() for r in runs)
        assert sim["retransmitted"] == linux["retransmitted"] and sim["retransmitted"][0] == 1
        assert sim["timeouts"] == linux["timeouts"]
        assert np.abs(np.subtract(sim["fct_ps"], linux["fct_ps"])).max() < 50_000, (meet_ns, sim, linux)


@needs_kernel
@pytest.mark.parametrize("lost", ["opening", "answer"])
def test_a_handshake_that_loses_a_packet_takes_as_long_on_both(lost: str, tmp_path: Path) -> None:
    # The first flow waits for its last packet, so that the second, of the same hosts, opens a connection.
    first = ["1,0,20000,0", *(f"{src},0,1448,{31_800 + 10 * src}" for src in range(2, 11))]
    to, meet_ns = {"opening": (0, 798_500), "answer": (1, 800_500)}[lost]
    others = [f"{src},{to},1448,{meet_ns + 10 * src}" for src in range(2, 11)]
    rows = sorted([*first, *others, "1,0,1448,800000"], key=lambda row: int(row.split(",")[3]))
    (tmp_path / "flows.csv").write_text("\n".join(["src,dst,bytes,start_ns", *rows]) + "\n")
    changes = {"traffic.0.file": str(tmp_path / "flows.csv"), "time_limit": "5s"}
    runs = [onramp.run(LOSS, changes, on=on) for on in ("sim", "linux")]
    assert [r.summary["network"]["drops"] for r in runs] == [2, 2]
    assert [r.summary["engine"]["connections_opened_late"] for r in runs] == [1, 1]
    sim, linux = (r.flows.sort_by("id").to_pydict() for r in runs)
    # A timeout of a second, found late by the granularity of the kernel's timers.
    assert 1e12 < max(sim["fct_ps"]) < 1.1e12
    assert np.abs(np.subtract(sim["fct_ps"], linux["fct_ps"])).max() < 50_000, (sim, linux)


def _windows(changes: dict[str, object]) -> list[np.ndarray]:
    """The one flow of one-flow.toml: its windows over time, simulated and on Linux."""
    runs = [onramp.run(FLOW, {"duration": "60ms", **changes}, on=on) for on in ("sim", "linux")]
    return [r.samples(next(n for n in r.series_names if n.startswith("cwnd ")))[1] for r in runs]


@needs_kernel
@pytest.mark.parametrize("kind", ["cubic", "newreno", "bbr", "dctcp-tcp", "vegas"])
def test_a_flow_has_the_same_window_on_both(kind: str) -> None:
    sim, linux = _windows({"transport.kind": kind})
    assert linux.max() > 150 and abs(sim.max() / linux.max() - 1) < 0.03
    assert abs(sim.mean() / linux.mean() - 1) < 0.03


@needs_kernel
def test_small_queues_bound_a_flow_that_its_own_host_limits() -> None:
    # Beside what is under way, about a millisecond of packets waits in the host: 345 packets and 1150.
    sim, linux = (cwnd.max() for cwnd in _windows({"network.bottleneck_rate": "10Gbps"}))
    assert 1400 < linux < 1600 and abs(sim / linux - 1) < 0.02
