"""Grids of runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import onramp
from conftest import SMALL, Command
from onramp import sweeps
from onramp.metrics import Metric
from onramp.sweeps import Axis

VARY = ("--vary", "onramp.threshold=10us,14us", "--vary", "transport.kind=dcqcn,hpcc")


def test_only_missing_runs_are_run(write: Callable[..., Path], command: Command, tmp_path: Path) -> None:
    path = write(SMALL)
    first = command("sweep", path, *VARY, "--out", "grid")
    assert first.returncode == 0, first.stderr
    runs = {p: p.stat().st_mtime_ns for p in (tmp_path / "grid").glob("*/summary.json")}
    assert len(runs) == 4

    more = command("sweep", path, *VARY[:1], "onramp.threshold=10us,14us,20us", *VARY[2:], "--out", "grid")
    assert more.returncode == 0, more.stderr
    now = {p: p.stat().st_mtime_ns for p in (tmp_path / "grid").glob("*/summary.json")}
    assert len(now) == 6
    assert runs.items() <= now.items()

    table = pyarrow.csv.read_csv(tmp_path / "grid/sweep.csv")
    assert table["onramp.threshold"].to_pylist() == ["10us", "10us", "14us", "14us", "20us", "20us"]
    assert table["transport.kind"].to_pylist() == ["dcqcn", "hpcc"] * 3
    assert set(table["folder"].to_pylist()) == {p.parent.name for p in now}
    assert "incast.rct_us.p95" in table.column_names
    assert pq.read_table(tmp_path / "grid/sweep.parquet").num_rows == 6
    assert (tmp_path / "grid/sweep.png").is_file() and (tmp_path / "grid/sweep.svg").is_file()


def test_a_sweep_over_other_keys_writes_nothing_over(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    path = write(SMALL)
    assert command("sweep", path, "--vary", "onramp.threshold=10us", "--out", "grid").returncode == 0
    kept = (tmp_path / "grid/sweep.csv").read_bytes()
    other = command("sweep", path, "--vary", "transport.kind=hpcc", "--out", "grid")
    assert other.returncode == 2
    assert other.stderr == "onramp: grid: holds a sweep over onramp.threshold; give another --out\n"
    assert (tmp_path / "grid/sweep.csv").read_bytes() == kept
    # So have other values and another scenario, unless they are added to those that are there.
    for arguments in (["onramp.threshold=20us"], ["onramp.threshold=10us", "--set", "transport.kind=hpcc"]):
        other = command("sweep", path, "--vary", *arguments, "--out", "grid")
        assert other.returncode == 2
        assert "grid: holds a sweep with onramp.threshold=10us, of another scenario" in other.stderr
        assert (tmp_path / "grid/sweep.csv").read_bytes() == kept
    assert command("sweep", path, "--vary", "onramp.threshold=10us,20us", "--out", "grid").returncode == 0
    # Each has a folder of its own unless told otherwise.
    kinds = [f"transport.kind={kind}" for kind in ("hpcc", "hpcc", "timely")]
    for vary in ("onramp.threshold=10us", *kinds):
        assert command("sweep", path, "--vary", vary).returncode == 0
    assert {p.parent.name.partition("-sweep-")[2] for p in (tmp_path / "results").glob("*/sweep.csv")} == {
        "onramp.threshold",
        "transport.kind",
        "transport.kind-2",
    }


def test_quantities_stand_on_an_axis_by_their_size() -> None:
    axis = Axis.of("onramp.threshold", ["12us", "0.016ms", "30us"])
    assert list(axis.places.values()) == pytest.approx([12e-6, 16e-6, 30e-6]) and not axis.log
    assert Axis.of("load", ["0.1", "0.5"]).places == {"0.1": 0.1, "0.5": 0.5}
    assert Axis.of("size", ["2KB", "1MB"]).log
    # What has no size, or none in common, stands one after another.
    for values in (["dcqcn", "hpcc"], ["12us", "auto"], ["12us", "1KB"], ["true", "false"]):
        assert Axis.of("key", values).places == {values[0]: 0, values[1]: 1}


def test_an_unreachable_cluster_is_one_line(write: Callable[..., Path], command: Command) -> None:
    done = command("sweep", write(SMALL), *VARY, "--out", "grid", "--dask", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert done.stderr.startswith("onramp: --dask") and done.stderr.count("\n") == 1


def test_a_sweep_is_reported_and_shows_what_its_workload_has(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    ring = {"kind": "collective", "operation": "all-reduce", "size": "1MB"}
    path = write({**SMALL, "clock": {}, "measure": {}, "traffic": [ring]})
    done = command("sweep", path, "--vary", "transport.kind=dcqcn,hpcc", "--out", "grid")
    assert done.returncode == 0 and "Collective time" in done.stdout, done.stderr
    assert command("report", "grid").stdout == "grid/index.html\n"
    page = (tmp_path / "grid/index.html").read_text()
    assert "Sweep of small" in page and "2 runs over transport.kind" in page
    for one in ("dcqcn", "hpcc"):
        assert f"<td>{one}</td>" in page
    head, rows = sweeps.overview(sweeps.Sweep.read(tmp_path / "grid").done)
    assert [row[0] for row in rows] == ["dcqcn", "hpcc"] and head[1] == "Collective time\nmean (µs)"


def test_seeds_repeat_points_and_on_ramp_is_held_to_its_absence(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    path = write({**SMALL, "clock": {}, "measure": {}})
    campaign = ("--vary", "onramp.threshold=10us,14us", "--seeds", "1,2,3", "--both", "--out", "grid")
    done = command("sweep", path, *campaign)
    assert done.returncode == 0 and done.stdout.endswith("grid/index.html\n"), done.stderr
    rows = pq.read_table(tmp_path / "grid/sweep.parquet")
    # Without On-Ramp T makes no difference, and is not run twice.
    assert rows.num_rows == 12 and len(set(rows["folder"].to_pylist())) == 9
    swept = sweeps.Sweep.read(tmp_path / "grid")
    points = sweeps.repeated(swept.done)
    assert [tuple(point.values.values()) for point in points] == [
        (t, gate) for t in ("10us", "14us") for gate in ("false", "true")
    ]
    mean = Metric("Incast RCT", "mean", "µs", "incast", "mean")
    times = [row["incast.rct_us.mean"] for row in rows.to_pylist() if row["onramp.threshold"] == "10us"]
    off, on = np.array(times).reshape(3, 2).T
    # Student's t with two degrees of freedom.
    for point, values in zip(points[:2], (off, on), strict=True):
        assert point.of(mean) == pytest.approx((values.mean(), 4.303 * values.std(ddof=1) / 3**0.5), rel=1e-3)
    [gain, _] = sweeps.gains(swept.done)
    assert gain.values == {"onramp.threshold": "10us"}
    assert (found := gain.ratios[mean]) and found.value == pytest.approx(np.exp(np.log(off / on).mean()))
    page = (tmp_path / "grid/index.html").read_text()
    assert "What On-Ramp gains" in page and "95% interval of the mean over 3 seeds" in page


def test_what_varies_is_said_once(write: Callable[..., Path], command: Command) -> None:
    path = write(SMALL)
    done = command("sweep", path, "--vary", "seed=1,2", "--seeds", "1,2")
    assert done.returncode == 2 and "--vary seed: is what --seeds or --both varies" in done.stderr
    done = command("sweep", path)
    assert done.returncode == 2 and "nothing varies: give --vary KEY=A,B, --seeds or --both" in done.stderr


def test_python_says_what_is_wrong(write: Callable[..., Path]) -> None:
    for call, said in (
        (lambda: onramp.run(SMALL, threads=0), "threads = 0: must be at least 1"),
        (lambda: onramp.sweep(SMALL, {"seed": [1]}, workers=-1), "workers = -1: must be at least 1"),
        (lambda: onramp.compare(SMALL, seeds=[]), "seeds: is empty"),
    ):
        with pytest.raises(onramp.OnRampError, match=said):
            call()
    checked = onramp.validate(write(SMALL), {"seed": 7})
    # Messages and overrides name list elements in one way.
    assert onramp.validate(checked, {"traffic[0].load": 0.1}).document["traffic"][0]["load"] == 0.1
    assert onramp.run(checked).summary["seed"] == 7


def test_a_plot_of_many_points_stays_legible(tmp_path: Path) -> None:
    vary = {"traffic.0.load": ["0.1", "0.2"], "onramp.threshold": [f"{us}us" for us in range(9, 25)]}
    both = {**vary, sweeps.GATE: ["false", "true"]}
    result = onramp.run(SMALL, out=tmp_path / "run")
    done = [(point, result) for point in sweeps.grid(SMALL, {}, both)]
    [legend] = sweeps.draw(done).legends
    labels = [text.get_text() for text in legend.get_texts()]
    # One line without On-Ramp, and not one for each T; of the other 16 every second.
    assert labels[0] == "onramp.enabled=false mean" and sum("false" in label for label in labels) == 1
    assert len(labels) <= sweeps.LINES
