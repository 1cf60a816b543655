"""`onramp verify` runs results again, and `onramp demo` needs nothing but the package."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import onramp
from conftest import SMALL, Command
from onramp.result import Result

Edit = Callable[[Path], object]


def test_a_summary_has_the_hashes_of_all_outputs(small: Result) -> None:
    outputs = {"scenario.toml", *(path.name for path in small.folder.glob("*.parquet"))}
    assert set(small.summary["sha256"]) == outputs
    assert all(len(digest) == 64 for digest in small.summary["sha256"].values())


def test_the_same_bytes_are_said_to_be(small: Result, command: Command) -> None:
    done = command("verify", small.folder)
    assert done.returncode == 0
    assert f"the same bytes, {len(small.summary['sha256'])} files" in done.stdout


def test_input_files_are_compared(tmp_path: Path, command: Command) -> None:
    (tmp_path / "flows.csv").write_text("src,dst,bytes,start_ns\nh0,h1,20000,0\n", encoding="utf-8")
    traffic = [{"kind": "trace", "file": str(tmp_path / "flows.csv")}]
    result = onramp.run({**SMALL, "traffic": traffic}, {"duration": "10us"}, out=tmp_path / "run")
    assert "inputs/flows.csv" in result.summary["sha256"]
    assert command("verify", tmp_path / "run").returncode == 0


def _summary(change: Callable[[dict[str, Any]], object]) -> Edit:
    def edit(folder: Path) -> None:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        change(summary)
        (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")

    return edit


def _fewer_flows(folder: Path) -> None:
    flows = pq.read_table(folder / "flows.parquet")
    pq.write_table(flows.slice(1), folder / "flows.parquet")


@pytest.mark.parametrize(
    ("edit", "status", "said"),
    [
        (_fewer_flows, 1, "flows.parquet: was changed after the run"),
        (lambda folder: (folder / "flows.parquet").unlink(), 1, "flows.parquet: was changed after the run"),
        (_summary(lambda s: s["network"].update(drops=7)), 1, "network.drops was 7, is 0"),
        (_summary(lambda s: s["sha256"].update({"flows.parquet": "0"})), 1, "flows.parquet"),
        (_summary(lambda s: s.update(version="0.0.1")), 0, "version: 0.0.1 then"),
        (_summary(lambda s: s.update(complete=False)), 2, "was stopped before the end"),
        (_summary(lambda s: s.pop("sha256")), 2, "kept no hashes"),
    ],
)
def test_what_differs_is_said(
    small: Result, edit: Edit, status: int, said: str, tmp_path: Path, command: Command
) -> None:
    shutil.copytree(small.folder, tmp_path / "run")
    edit(tmp_path / "run")
    done = command("verify", tmp_path / "run")
    assert done.returncode == status
    assert said in done.stdout + done.stderr


def test_both_sides_of_a_comparison_are_verified(tmp_path: Path, command: Command) -> None:
    onramp.compare(SMALL, {"duration": "50us"}, out=tmp_path / "both")
    lines = command("verify", tmp_path / "both").stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"{tmp_path}/both/{s}" for s in ("with", "without")]
    assert all("the same bytes" in line for line in lines)


def test_a_folder_without_results_is_a_mistake(tmp_path: Path, command: Command) -> None:
    assert "holds no results" in command("verify", tmp_path).stderr
    assert "is no folder" in command("verify", tmp_path / "gone").stderr


def test_the_demo_runs_and_hands_out_its_scenario(tmp_path: Path, command: Command) -> None:
    short = ("--set", "duration=20us", "--set", "warmup=20us")
    assert "demo/index.html" in command("demo", *short, "--out", "demo").stdout
    assert command("demo", "--write", "mine.toml").stdout == "mine.toml\n"
    assert command("validate", "mine.toml").stdout == "mine.toml: ok\n"
    again = command("demo", "--write", "mine.toml")
    assert again.returncode == 2
    assert "mine.toml: exists" in again.stderr
