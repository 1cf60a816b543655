"""Synchronised clocks in results: the summary, the tables, what the figures take from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import onramp
from conftest import SMALL, Command
from onramp import tables
from onramp.paper import clock, fig6
from onramp.result import Result
from onramp.terminal import clock_text


def test_summary_tells_how_far_the_clocks_were_off(synchronised: Result, small: Result) -> None:
    found = synchronised.summary["clock"]
    assert found["windows"] >= 2
    for name in ("error_ns", "uncertainty_ns"):
        p50, p90, p99, most = (found[name][key] for key in ("p50", "p90", "p99", "max"))
        assert 0 <= p50 <= p90 <= p99 <= most
    assert 0 < found["error_ns"]["p99"] < 3000
    assert 0 < found["probe_share"] < 0.2
    assert 0 < found["threshold_us"]["p50"] <= found["threshold_us"]["max"]
    assert "clock" not in small.summary


def test_a_line_tells_how_far_the_clocks_were_apart(synchronised: Result, small: Result) -> None:
    p50, p99 = (synchronised.summary["clock"]["error_ns"][key] for key in ("p50", "p99"))
    text = clock_text(synchronised.summary)
    assert f"{p50:,} ns" in text and f"{p99:,} ns" in text
    assert clock_text(small.summary) == ""


def test_clock_table_is_the_summary_in_detail(synchronised: Result) -> None:
    table = synchronised.clock
    assert table.schema.equals(tables.SCHEMAS["clock"])
    times, errors = np.asarray(table["time_ps"]), np.asarray(table["error_ns"])
    assert set(np.asarray(table["host"])) == set(range(9))
    # Relative to the mean of all hosts.
    for time in np.unique(times):
        assert abs(errors[times == time].mean()) < 1e-6
    pairs = clock.errors(synchronised)
    assert np.percentile(pairs, 99) <= synchronised.summary["clock"]["error_ns"]["max"]


def test_next_packets_are_listed_beside_those_acknowledged(synchronised: Result, small: Result) -> None:
    table = synchronised.next_owd
    assert table.schema.equals(tables.SCHEMAS["next_owd"])
    assert 0 < len(table) <= 2000
    assert np.asarray(table["next_owd_ns"]).min() >= 2_000  # two links of 1 us
    assert not (small.folder / "next_owd.parquet").exists()
    x, y = fig6.signal(synchronised, "owd_ns")
    assert fig6.pearson(x, y) > 0.5


def test_correlations_are_right_on_made_up_values() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    assert fig6.pearson(x, 3 * x + 1) == pytest.approx(1)
    assert fig6.spearman(x, x**3) == pytest.approx(1)
    assert fig6.spearman(x, -x) == pytest.approx(-1)
    # Ties share their mean rank: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
    assert fig6.spearman(np.array([1.0, 5.0, 5.0, 9.0]), x) == pytest.approx(4.5 / np.sqrt(4.5 * 5))


def test_a_resolved_scenario_says_all_of_its_clock(synchronised: Result, tmp_path: Path) -> None:
    section = synchronised.scenario.document["clock"]
    assert section["drift"] == "30ppm" and section["peers"] == 10 and section["coded"] is True
    again = onramp.run(synchronised.folder / "scenario.toml", out=tmp_path / "again")
    assert again.clock.equals(synchronised.clock)
    assert again.flows.equals(synchronised.flows)


def test_what_fits_no_clock_is_one_line(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(onramp.scenario.load(SMALL, {}).text)
    done = command("validate", path, "--set", "clock.window=2s")
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [
        '--set: clock.window: has no effect with sync = "gaussian": write sync = "huygens"'
    ]
