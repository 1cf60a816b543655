"""What a result folder holds."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import onramp
from conftest import ENDLESS, ROOT, SMALL, Command
from onramp import _sim, plots, tables
from onramp.metrics import ROUGH_NOTE, is_rough, metrics
from onramp.plots import links
from onramp.result import Result
from onramp.scenario import quantity

KEYS = {
    *(
        "scenario",
        "substrate",
        "seed",
        "digest",
        "version",
        "commit",
        "sha256",
        "onramp",
        "complete",
        "incast",
        "background",
    ),
    "groups",
    *("network", "onramp_stats", "engine", "unfinished"),
}


def test_summary_has_the_documented_keys(small: Result) -> None:
    assert set(small.summary) == KEYS
    assert set(small.summary["background"]) == {"small", "medium", "large", "all"}
    assert set(small.summary["background"]["all"]) == {"flows", "fct_us", "slowdown"}
    assert set(small.summary["incast"]["rct_us"]) == {"mean", "p50", "p90", "p95", "p99"}
    assert {"drops", "retransmitted_packets", "timeouts", "pfc_pauses", "pfc_paused_us"} <= set(
        small.summary["network"]
    )
    assert {"simulated_us", "wall_s", "packet_hops", "packet_hops_per_s", "peak_rss_mb"} == set(
        small.summary["engine"]
    )


def test_every_column_states_its_unit(small: Result) -> None:
    for name, schema in (
        ("flows", tables.SCHEMAS["flows"]),
        ("requests", tables.SCHEMAS["requests"]),
        ("series", tables.SCHEMAS["series"]),
    ):
        read = pq.read_schema(small.folder / f"{name}.parquet")
        assert read.names == schema.names
        for field in read:
            assert field.metadata[b"unit"] and field.metadata[b"meaning"]


def test_links_are_a_row_for_each_direction_and_agree_with_the_summary(small: Result) -> None:
    links = small.links
    assert links.schema.equals(tables.SCHEMAS["links"])
    ends = list(zip(links["from"].to_pylist(), links["to"].to_pylist(), strict=True))
    assert sorted(ends) == sorted([(f"h{i}", "s0") for i in range(9)] + [("s0", f"h{i}") for i in range(9)])
    network = small.summary["network"]
    shares = dict(zip(("->".join(pair) for pair in ends), links["utilization"].to_pylist(), strict=True))
    assert shares == network["utilization"]
    assert sum(links["marked"].to_pylist()) == network["ecn_marked"]
    assert sum(links["pauses"].to_pylist()) == network["pfc_pauses"]
    # Each host receives what flows bring it, with headers and acknowledgements.
    for host in range(9):
        flows = small.flows.filter(pc.field("dst") == host)
        bytes_in = links["bytes"][ends.index(("s0", f"h{host}"))].as_py()
        assert pc.sum(flows["bytes"]).as_py() < bytes_in < 2 * pc.sum(flows["bytes"]).as_py() + 100_000
    # Queues are those of the series, which is sampled at the same times.
    queue = links["queue"][ends.index(("s0", "h0"))].as_py()
    assert queue == small.samples("queue s0->h0")[1].max() > 0


def _mapped(racks: int, hosts: int) -> Any:
    """Links of so many racks and a spine, of which the one to the last host is busy and loses packets."""
    pairs = [(f"h{r * hosts + h}", f"leaf{r}") for r in range(racks) for h in range(hosts)]
    pairs += [(f"leaf{r}", "spine0") for r in range(racks)]
    ends = [pair[::way] for pair in pairs for way in (1, -1)]
    busy = [end == (f"leaf{racks - 1}", f"h{racks * hosts - 1}") for end in ends]
    columns = {
        "from": [a for a, _ in ends],
        "to": [b for _, b in ends],
        "utilization": [0.5 * b for b in busy],
        "drops": [int(b) for b in busy],
        "lost": [0] * len(busy),
    }
    return SimpleNamespace(links=pa.table(columns))


def test_a_map_of_links_has_a_row_for_each_switch_and_a_cell_for_each_link() -> None:
    _, found = links.maps(_mapped(3, 2))
    assert [[one.title for one in pair] for pair in found] == [
        ["leaf → h", "h → leaf"],
        ["spine → leaf", "leaf → spine"],
    ]
    used, loses, together = links.cells(found[0][0].rows.values())
    assert together == 1
    assert used.tolist() == [[0, 0], [0, 0], [0, 0.5]] and loses.tolist() == [[0, 0], [0, 0], [0, 1]]
    assert links.cells(found[1][0].rows.values())[0].shape == (1, 3)


def test_a_map_of_15000_links_is_small_and_shows_the_busiest(tmp_path: Path) -> None:
    result = _mapped(300, 25)
    used, loses, together = links.cells(links.maps(result)[1][0][0].rows.values())
    assert used.shape == (60, 25) and together == 5
    assert used[-1, -1] == 0.5 and loses[-1, -1] == 1 and np.count_nonzero(used) == 1
    figure = links.draw({"": result})
    assert figure
    plots.style.save(figure, tmp_path / "links")
    assert (tmp_path / "links.svg").stat().st_size < 300_000


@pytest.mark.parametrize(
    ("low", "high"), [(78.2, 79.6), (820.1, 820.4), (0.0021, 0.0024), (30, 90), (1, 1e6)]
)
def test_ticks_of_a_logarithmic_axis_are_few_and_tell_values_apart(low: float, high: float) -> None:
    figure, (ax,) = plots.style.panels(1, 1, (2.3, 2.7))
    ax.set(xscale="log", xlim=(low, high))
    plots.style.log_ticks(ax.xaxis)
    figure.draw_without_rendering()
    inside = [
        label.get_text()
        for label, at in zip(ax.get_xticklabels(), ax.get_xticks(), strict=True)
        if low <= at <= high
    ]
    assert 1 <= len(inside) <= 7 and len(set(inside)) == len(inside)


#: Calls the command with parts written at every step.
EAGER = "from onramp import cli, tables; tables.Parts.SECONDS = 0; cli.main()"


def _eager(folder: Path, *args: object, **kwargs: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", EAGER, *map(str, args)]
    return subprocess.Popen(command, cwd=folder, text=True, stderr=subprocess.PIPE, **kwargs)


def _wait_for_parts(folder: Path, number: int) -> None:
    end = time.monotonic() + 120
    while not any(folder.glob(f".out.part/parts/flows-*{number}.parquet")):
        assert time.monotonic() < end, "no rows after two minutes"
        time.sleep(0.02)


def test_a_killed_run_leaves_the_first_rows_of_its_tables(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    path = write({**SMALL, "duration": "40ms"})
    assert command("run", path, "--out", "whole").returncode == 0
    with _eager(tmp_path, "run", path, "--out", "out") as process:
        _wait_for_parts(tmp_path, 2)
        # While it goes.
        going = Result(tmp_path / "out", partial=True)
        assert len(going.flows) > 0 and going.is_under_way
        assert "under way, so far to" in command("show", "out").stdout
        process.kill()
    assert not (tmp_path / "out").exists()
    with pytest.raises(onramp.OnRampError, match="is not a result folder"):
        Result(tmp_path / "out")
    whole, partial = Result(tmp_path / "whole"), Result(tmp_path / "out", partial=True)
    assert partial.is_partial and not whole.is_partial and not partial.is_under_way
    for name in ("flows", "requests", "series"):
        rows = tables.read(partial.folder, name)
        assert 0 < len(rows) < len(tables.read(whole.folder, name)), name
        assert rows.equals(tables.read(whole.folder, name).slice(0, len(rows))), name
    assert len(partial.links) == len(whole.links)
    summary = partial.summary
    assert not summary["complete"] and set(summary) == KEYS
    assert summary["engine"]["simulated_us"] < whole.summary["engine"]["simulated_us"]
    assert summary["incast"]["requests"] == len(partial.requests)
    shown = command("show", "out", "--json")
    assert shown.returncode == 0 and json.loads(shown.stdout) == summary
    assert "incomplete" in command("show", "out").stdout
    assert command("perfetto", "out", "--out", "killed.trace").returncode == 0
    assert (tmp_path / "killed.trace").stat().st_size > 0
    before = sorted(partial.folder.rglob("*"))
    assert command("report", "out").returncode == 0
    page = (tmp_path / "out.html").read_text()
    assert "incomplete, stopped at" in page and "<svg" in page
    assert sorted(partial.folder.rglob("*")) == before and not (tmp_path / "out").exists()
    # A run into the same folder takes its place.
    assert command("run", path, "--out", "out").returncode == 0
    assert not list(tmp_path.glob(".out*"))
    assert json.loads(command("show", "out", "--json").stdout) == Result(tmp_path / "out").summary


def test_an_interrupted_run_and_a_whole_one_leave_no_parts(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    path = write({**SMALL, "duration": "40ms"})
    assert command("run", path, "--out", "whole").returncode == 0
    with _eager(tmp_path, "run", path, "--out", "out", stdout=subprocess.DEVNULL) as process:
        _wait_for_parts(tmp_path, 2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    whole, found = Result(tmp_path / "whole"), Result(tmp_path / "out")
    assert not (found.folder / "parts").exists() and not found.summary["complete"]
    done = found.flows.filter(pc.is_valid(found.flows["fct_ps"]))
    assert 0 < len(done) < len(whole.flows) and done.equals(whole.flows.slice(0, len(done)))


def test_a_disk_that_is_full_while_parts_are_written_is_one_line(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    path = write({**SMALL, "duration": "40ms"})
    with _eager(tmp_path, "run", path, "--out", "out", preexec_fn=limit) as process:
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert re.fullmatch(r"onramp: \S*out\S*: File too large\n", stderr)
    assert list(tmp_path.iterdir()) == [path]


def test_parts_do_not_change_a_run(write: Callable[..., Path], command: Command, tmp_path: Path) -> None:
    path = write(SMALL)
    assert command("run", path, "--out", "plain").returncode == 0
    with _eager(tmp_path, "run", path, "--out", "eager", stdout=subprocess.DEVNULL) as process:
        process.communicate(timeout=60)
    plain, eager = (Result(tmp_path / name) for name in ("plain", "eager"))
    assert plain.summary["sha256"] == eager.summary["sha256"] and "links.parquet" in plain.summary["sha256"]


def test_every_time_says_what_it_counts_from() -> None:
    for schema in tables.SCHEMAS.values():
        for field in schema:
            if field.name in ("start_ps", "time_ps"):
                assert field.metadata[b"meaning"].endswith(b"from time 0, the end of the warm-up")


def test_the_networks_numbers_say_over_what_time_they_are(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "late.csv").write_text("src,dst,bytes,start_ns\n1,0,100000,2000000\n")
    late = {**SMALL, "traffic": [{"kind": "trace", "file": "late.csv"}]}
    done = command("run", write(late), "--out", "out")
    end = Result(tmp_path / "out").summary["engine"]["simulated_us"] / 1e3
    assert 2 < end < 2.1 and f"Network, 0 to {end:.2f} ms" in done.stdout


def test_percentiles_of_few_times_are_marked(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    rare = {**SMALL, "traffic": [SMALL["traffic"][0], {**SMALL["traffic"][1], "load": 0.002}]}
    path = write(rare)
    done = command("run", path, "--out", "out")
    count = Result(tmp_path / "out").summary["incast"]["requests"]
    assert 1 < count < 20
    assert "p95 (µs) *" in done.stdout and "p99 (µs) *" in done.stdout and ROUGH_NOTE in done.stdout
    assert "mean (µs) *" not in done.stdout
    compared = command("compare", path, "--out", "compared")
    page = (tmp_path / "compared/index.html").read_text()
    assert f"No intervals, of too few: Incast RCT ({count})" in compared.stdout
    assert "with On-Ramp: Incast RCT" not in compared.stdout and "with On-Ramp: FCT" in compared.stdout
    assert ROUGH_NOTE in compared.stdout and ROUGH_NOTE in page and "<td>p99 (µs) *</td>" in page
    swept = command("sweep", path, "--vary", "seed=1,2", "--out", "swept")
    assert " *" in swept.stdout and ROUGH_NOTE in swept.stdout
    # One in twenty is at least one of these.
    many = {"incast": {"requests": 99, "rct_us": {"p95": 1.0, "p99": 1.0}}, "groups": rare_groups()}
    assert [is_rough(m, many) for m in metrics(many) if m.sample == "incast" and m.of(many)] == [False, True]


def rare_groups() -> list[dict[str, object]]:
    """The group of requests, as summary.json has it."""
    return json.loads(_sim.groups(onramp.validate(SMALL).text))["groups"]  # type: ignore[no-any-return]


def test_summary_statistics_are_those_of_the_tables(small: Result) -> None:
    flows = small.flows.to_pydict()
    fct = np.array([t for t, r in zip(flows["fct_ps"], flows["request"], strict=True) if r is None and t])
    size = np.array(
        [
            b
            for b, r, t in zip(flows["bytes"], flows["request"], flows["fct_ps"], strict=True)
            if r is None and t
        ]
    )
    rct = np.array(small.requests["rct_ps"])
    assert len(rct) > 10 and len(fct) > 50
    for times, stats in (
        (rct, small.summary["incast"]["rct_us"]),
        (fct, small.summary["background"]["all"]["fct_us"]),
        (fct[size <= 10_000], small.summary["background"]["small"]["fct_us"]),
        (fct[(size > 10_000) & (size <= 1_000_000)], small.summary["background"]["medium"]["fct_us"]),
    ):
        assert stats["mean"] == pytest.approx(times.mean() / 1e6)
        for p in (50, 90, 95, 99):
            assert stats[f"p{p}"] == pytest.approx(np.percentile(times, p) / 1e6)


def test_a_pfc_deadlock_is_named_and_without_a_ring_there_is_none(command: Command) -> None:
    path = ROOT / "scenarios/pfc-deadlock.toml"
    stuck = command("run", path, "--out", "ring")
    assert stuck.returncode == 0, stuck.stderr
    assert "PFC deadlock: s0->s1->s2->s3->s4->s0\n" in stuck.stdout
    line = command("run", path, "--set", 'network.failed=["s4->s0"]', "--out", "line")
    assert line.returncode == 0, line.stderr
    assert "deadlock:" not in line.stdout


def test_requests_end_with_their_last_flow(small: Result) -> None:
    flows = small.flows.filter(np.array(small.flows["request"].is_valid()))
    ends: dict[int, int] = {}
    for request, start, fct in zip(
        *(flows[c].to_pylist() for c in ("request", "start_ps", "fct_ps")), strict=True
    ):
        ends[request] = max(ends.get(request, 0), start + fct)
    for request, start, rct, count in zip(
        *(small.requests[c].to_pylist() for c in ("id", "start_ps", "rct_ps", "flows")), strict=True
    ):
        assert ends[request] == start + rct
        assert count == 6


def test_slowdown_is_at_least_one(small: Result) -> None:
    for stats in small.summary["background"].values():
        assert stats["slowdown"]["p50"] is None or stats["slowdown"]["p50"] >= 1


def test_series_are_recorded_by_name(small: Result) -> None:
    assert "queue s0->h0" in small.series_names
    assert "utilization s0->h0" in small.series_names
    t, queue = small.samples("queue s0->h0")
    assert t.shape == queue.shape and (np.diff(t) > 0).all() and (queue >= 0).all()
    _, used = small.samples("utilization s0->h0")
    assert 0 <= used.min() <= used.max() <= 1.0001
    # The run goes on until its flows are complete.
    end = quantity(small.scenario.document["duration"])
    within, first = small.samples("queue s0->h0", measured=True)
    assert within[-1] <= end < t[-1] and (first == queue[: len(first)]).all()


@pytest.mark.parametrize("kind", ["bars", "cdf", "queue"])
def test_results_can_be_plotted(small: Result, kind: str) -> None:
    assert onramp.plot(small, kind).axes


def test_a_plot_of_nothing_is_refused_in_one_line(small: Result) -> None:
    with pytest.raises(onramp.OnRampError, match="nothing to show"):
        onramp.plot(small, "throughput")
    with pytest.raises(onramp.OnRampError, match="none of bars, cdf"):
        onramp.plot(small, "pie")


def test_the_kept_scenario_gives_the_same_bytes(small: Result, tmp_path: Path) -> None:
    again = onramp.run(small.folder / "scenario.toml", out=tmp_path / "again")
    for name in ("scenario.toml", "flows.parquet", "requests.parquet", "series.parquet"):
        assert (again.folder / name).read_bytes() == (small.folder / name).read_bytes(), name


def test_threads_change_nothing(tmp_path: Path) -> None:
    network = {"kind": "leaf-spine", "leaves": 3, "spines": 2, "hosts_per_leaf": 3}
    folders = [tmp_path / str(threads) for threads in (1, 3)]
    for folder, threads in zip(folders, (1, 3), strict=True):
        measure = {"queues": ["leaf0->h0"], "links": ["leaf0->spine1"], "owd": ["h1->h8"]}
        onramp.run(SMALL, {"network": network, "measure": measure}, out=folder, threads=threads)
    for name in ("flows.parquet", "requests.parquet", "series.parquet"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


def test_only_what_starts_after_the_warm_up_is_measured() -> None:
    plain, warm = (onramp.run(SMALL, {"warmup": warmup}) for warmup in ("0us", "500us"))
    starts = np.array(warm.flows["start_ps"])
    assert (starts >= 0).all() and (starts < 500e6).all()
    # The same load in the same time, but other arrivals.
    assert 0.5 < len(starts) / len(plain.flows) < 2
    assert warm.summary["engine"]["packet_hops"] > 1.5 * plain.summary["engine"]["packet_hops"]


def test_a_run_in_which_nothing_starts_says_so_and_fails(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "late.csv").write_text("src,dst,bytes,start_ns\n0,1,1000,2000000000\n")
    late = {**SMALL, "traffic": [{"kind": "trace", "file": "late.csv"}]}
    # The default limit covers the trace.
    assert command("run", write(late), "--out", tmp_path / "done").returncode == 0
    done = command("run", write(late), "--set", "time_limit=1s", "--out", tmp_path / "none")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "nothing starts" in done.stderr and not (tmp_path / "none").exists()


def test_input_files_are_kept_with_the_results(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/flows.csv").write_text("src,dst,bytes,start_ns\n1,0,5000,0\n2,0,7000,100\n")
    path = write({**SMALL, "traffic": [{"kind": "trace", "file": "in/flows.csv"}]})
    assert command("run", path, "--out", "first").returncode == 0
    (tmp_path / "in/flows.csv").unlink()
    assert command("run", "first/scenario.toml", "--out", "second").returncode == 0
    for name in ("scenario.toml", "flows.parquet", "inputs/flows.csv"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    assert Result(tmp_path / "second").flows["bytes"].to_pylist() == [5000, 7000]


def test_overrides_and_seed_win_over_the_file(write: Callable[..., Path]) -> None:
    result = onramp.run(write(SMALL), {"onramp.enabled": False, "traffic.0.load": 0.1}, seed=7)
    assert result.summary["onramp"] is False
    assert result.summary["seed"] == 7
    assert result.scenario.document["traffic"][0]["load"] == 0.1


def test_what_did_not_finish_is_counted_and_listed() -> None:
    result = onramp.run(SMALL, {"time_limit": "500us", "duration": "500us"})
    unfinished = result.flows["fct_ps"].null_count
    assert unfinished == result.summary["unfinished"]["flows"] > 0
    assert result.summary["complete"]


def test_long_flows_are_in_no_completion_time() -> None:
    result = onramp.run(ENDLESS, {"duration": "200us", "traffic.2.stop": "200us", "measure.flow_rates": True})
    source = np.array(result.flows["traffic"])
    finished = np.array(result.flows["fct_ps"].is_valid())
    assert (source == 2).sum() == 2
    assert result.summary["background"]["all"]["flows"] == ((source == 0) & finished).sum()
    assert len(onramp.plot(result, "throughput").axes) == 1


def test_command_prints_a_table_or_json(write: Callable[..., Path], command: Command, tmp_path: Path) -> None:
    path = write(SMALL)
    table = command("run", path, "--out", "a")
    assert table.returncode == 0, table.stderr
    assert "Incast RCT" in table.stdout and table.stdout.rstrip().endswith("a")
    for kind in ("bars", "cdf", "queue"):
        assert (tmp_path / f"a/plots/{kind}.png").stat().st_size > 1000
        assert (tmp_path / f"a/plots/{kind}.svg").read_text().startswith("<?xml")
    as_json = command("run", path, "--json", "--out", "b")
    assert json.loads(as_json.stdout) == json.loads((tmp_path / "b/summary.json").read_text())


def test_long_flows_have_goodput_and_jains_index(tmp_path: Path) -> None:
    long = [{"kind": "long", "src": [f"h{i}"], "dst": "h0", "jitter": "0us"} for i in (1, 2)]
    # The second joins at half of the time, and both stop with the duration.
    long[1]["start"] = "1ms"
    scenario = {
        "name": "long",
        "warmup": "200us",
        "duration": "2ms",
        "network": {"kind": "star", "hosts": 3, "host_rate": "10Gbps"},
        "transport": {"kind": "hpcc"},
        "measure": {"links": ["s0->h0"]},
        "traffic": long,
    }
    done = onramp.run(scenario)
    rows = done.goodput.sort_by("start_ps").to_pylist()
    assert [(row["src"], row["start_ps"], row["duration_ps"]) for row in rows] == [
        (1, 0, 2_000_000_000),
        (2, 1_000_000_000, 1_000_000_000),
    ]
    rates = [8e3 * row["bytes"] / row["duration_ps"] for row in rows]
    found = done.summary["long"]
    assert found["flows"] == 2 and found["gbps"] == pytest.approx(sum(rates))
    assert found["jain"] == pytest.approx(sum(rates) ** 2 / 2 / sum(rate**2 for rate in rates))
    # All that crosses the link to h0 is theirs: 1000 of 1090 B (HPCC's telemetry takes 42).
    _, utilization = done.samples("utilization s0->h0", measured=True)
    bits = sum(row["bytes"] for row in rows) * 8 * 1090 / 1000
    assert bits == pytest.approx(utilization.mean() * 10e9 * 2e-3, rel=0.005)
    assert {"goodput of all", "Jain's index"} <= {metric.label for metric in metrics(done.summary)}
