"""Nothing is lost, overwritten or half-written."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import onramp
from conftest import ENDLESS, SMALL, Command
from onramp import comparison, folders
from onramp.engine import Watch
from onramp.jobs import Job, run_all


def _start(cwd: Path, *args: object, **kwargs: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "onramp", *map(str, args)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def _crowd() -> float:
    """How many share a processor: what takes a second alone then takes as many."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _wait_for_tables(cwd: Path, count: int) -> None:
    for _ in range(1200):
        if len(list(cwd.glob("**/series.parquet"))) >= count:
            time.sleep(0.5)
            return
        time.sleep(0.1)
    raise AssertionError("the run did not start")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_the_results_so_far(
    write: Callable[..., Path], tmp_path: Path, how: signal.Signals
) -> None:
    process = _start(tmp_path, "run", write(ENDLESS), "--out", "out")
    _wait_for_tables(tmp_path, 1)
    process.send_signal(how)
    asked = time.monotonic()
    while not any(tmp_path.glob("**/summary.json")):
        assert time.monotonic() - asked < 1.5 * _crowd()
        time.sleep(0.02)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "incomplete" in stdout and "Traceback" not in stderr
    assert json.loads((tmp_path / "out/summary.json").read_text())["complete"] is False
    assert pq.read_table(tmp_path / "out/flows.parquet").num_rows > 10
    assert not list(tmp_path.glob(".out*"))


def test_an_interrupted_comparison_keeps_both_sides(write: Callable[..., Path], tmp_path: Path) -> None:
    process = _start(tmp_path, "compare", write(ENDLESS), "--out", "out", "--jobs", 2)
    _wait_for_tables(tmp_path, 2)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "incomplete" in stdout and "identical on both sides" in stdout
    found = onramp.Comparison.read(tmp_path / "out")
    assert not found.complete and found.arrivals.identical
    # The sides were stopped at different times: what was done by then is no comparison.
    assert "No ratios: the sides were stopped, at " in stdout
    assert found.rows and all(row.ratio is None and row.interval is None for row in found.rows)


def test_ctrl_c_while_modules_load_is_no_traceback(tmp_path: Path) -> None:
    # Loading takes a second; the entry must not have loaded much before it minds Ctrl-C.
    code = """
import os, signal, sys
# What runs in the background ignores it, and so would its child.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name in ("click", "numpy", "pyarrow"):
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Pressed())
from onramp.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "onramp: stopped before there were results\n")


def test_a_run_that_is_stopped_before_it_begins_is_no_error(tmp_path: Path) -> None:
    asked = iter([False])
    job = Job("early", onramp.validate(SMALL), tmp_path)
    # The second look comes before the new process knows what to do about a signal.
    assert run_all([job], 1, watch=Watch(lambda: next(asked, True))) == []


def test_a_seed_that_was_stopped_does_not_count(write: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole = onramp.compare(write(SMALL), seeds=[1, 2], out=out)
    alone = onramp.compare(write(SMALL), seeds=[1])
    assert whole.complete and whole.seeds == [1, 2] and not whole.stopped
    summary = out / "seed-2/with/summary.json"
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "complete": False}))
    found = comparison.gather(out, [1, 2, 3])
    assert (found.seeds, found.stopped, found.complete) == ([1], [2, 3], False)
    assert [row.ratio for row in found.rows] == [row.ratio for row in alone.rows]
    assert "Seeds that were stopped and do not count: 2, 3." in found.notes


def test_an_interrupted_call_raises_after_writing(tmp_path: Path) -> None:
    code = f"import onramp; onramp.run({ENDLESS!r}, out='out')"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    _wait_for_tables(tmp_path, 1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert "KeyboardInterrupt" in stderr
    assert onramp.Result(tmp_path / "out").summary["complete"] is False


def test_a_folder_has_one_run_at_a_time(write: Callable[..., Path], command: Command, tmp_path: Path) -> None:
    first = _start(tmp_path, "run", write(ENDLESS, "endless.toml"), "--out", "out")
    _wait_for_tables(tmp_path, 1)
    for more in ([], ["--force"]):
        second = command("run", write(SMALL), "--out", "out", *more)
        assert (second.returncode, second.stdout) == (2, "")
        assert second.stderr == "onramp: out: another run is writing it; choose another --out\n"
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=120)
    assert onramp.Result(tmp_path / "out").summary["scenario"] == "endless"
    assert not list(tmp_path.glob(".*"))


def test_what_a_killed_run_has_left_is_cleared_by_the_next(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    killed = _start(tmp_path, "run", write(ENDLESS), "--out", "out")
    _wait_for_tables(tmp_path, 1)
    killed.kill()
    killed.communicate(timeout=120)
    assert command("run", write(SMALL), "--out", "out").returncode == 0
    assert onramp.Result(tmp_path / "out").summary["scenario"] == "small"
    assert not list(tmp_path.glob(".*"))


def test_a_killed_run_leaves_its_default_folder_to_the_next(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    path = write({**ENDLESS, "name": "small"})
    killed = _start(tmp_path, "run", path)
    _wait_for_tables(tmp_path, 1)
    killed.kill()
    killed.communicate(timeout=120)
    assert command("run", write(SMALL)).returncode == 0
    assert [p.name for p in (tmp_path / "results").iterdir()] == ["small-1"]


def test_results_are_kept_beside_what_has_appeared_meanwhile(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with (
        pytest.raises(
            onramp.OnRampError, match=r"out: appeared during the run; the results are in .*/out-2$"
        ) as error,
        folders.staged(target, force=True) as stage,
    ):
        (stage / "summary.json").write_text("{}")
        target.mkdir()
        (target / "mine.txt").write_text("mine")
    assert error.value.exit_code == 1
    assert (target / "mine.txt").exists() and (tmp_path / "out-2/summary.json").exists()
    assert len(list(tmp_path.iterdir())) == 2


def test_an_interrupted_comparison_goes_on_with_what_is_missing(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    path, args = write(SMALL), ("--seeds", "1,2", "--jobs", 1)
    assert command("compare", path, *args).returncode == 0
    out = tmp_path / "results/small-compare-1-2"
    found = json.loads((out / "comparison.json").read_text())
    (out / "comparison.json").write_text(json.dumps({**found, "complete": False}))
    stopped = out / "seed-2/with/summary.json"
    stopped.write_text(json.dumps({**json.loads(stopped.read_text()), "complete": False}))
    runs = {p: p.stat().st_mtime_ns for p in out.glob("*/*/summary.json")}
    # Another comparison is none of this one's.
    other = command("compare", path, *args, "--set", "duration=400us", "--out", out)
    assert other.returncode == 2 and "exists; choose another --out" in other.stderr

    again = command("compare", path, *args)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == "results/small-compare-1-2/index.html"
    now = {p: p.stat().st_mtime_ns for p in out.glob("*/*/summary.json")}
    assert [p for p in runs if now[p] != runs[p]] == [stopped]
    assert json.loads((out / "comparison.json").read_text()) == found
    # Once it is complete, it is not touched.
    assert command("compare", path, *args).stdout.splitlines()[-1] == "results/small-compare-1-2-2/index.html"
    assert command("compare", path, *args, "--out", out).returncode == 2


def test_a_killed_comparison_goes_on_with_what_is_missing(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    path = write({**SMALL, "duration": "20ms"})
    args = ("compare", path, "--seeds", "1,2", "--jobs", 1, "--out", "out")
    killed = _start(tmp_path, *args)
    for _ in range(1200):
        if done := [*tmp_path.glob(".out.part/seed-*/*/summary.json")]:
            break
        time.sleep(0.05)
    killed.kill()
    killed.communicate(timeout=120)
    written = done[0].stat().st_mtime_ns
    assert not (tmp_path / "out").exists()
    again = command(*args)
    assert again.returncode == 0, again.stderr
    found = onramp.Comparison.read(tmp_path / "out")
    assert found.complete and found.seeds == [1, 2]
    kept = tmp_path / "out" / done[0].relative_to(tmp_path / ".out.part")
    assert kept.stat().st_mtime_ns == written
    assert not list(tmp_path.glob("**/.*"))


def test_force_wants_a_folder_wherever_it_stands(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    path = write(SMALL)
    alone = command("run", path, "--force")
    assert (alone.returncode, alone.stdout) == (2, "")
    assert alone.stderr == "onramp run: --force replaces the folder of --out: give --out DIR\n"
    for _ in range(2):
        assert command("run", path, "--force", "--out", "out").returncode == 0
    assert len(list(tmp_path.glob("*/summary.json"))) == 1


def test_results_are_not_overwritten(write: Callable[..., Path], command: Command, tmp_path: Path) -> None:
    path = write(SMALL)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    for option in ("--out", "out"), ("--out", "out", "--force"):
        refused = command("run", path, *option)
        assert refused.returncode == 2
        assert refused.stderr.startswith("onramp: out: ") and refused.stderr.count("\n") == 1
    assert (tmp_path / "out/mine.txt").read_text() == "mine"

    assert command("run", path, "--out", "runs").returncode == 0
    assert command("run", path, "--out", "runs").returncode == 2
    assert command("run", path, "--out", "runs", "--force", "--seed", 5).returncode == 0
    assert onramp.Result(tmp_path / "runs").summary["seed"] == 5


def test_default_folders_are_numbered(write: Callable[..., Path], command: Command, tmp_path: Path) -> None:
    path = write(SMALL)
    for _ in range(2):
        assert command("run", path).returncode == 0
    assert sorted(p.name for p in (tmp_path / "results").iterdir()) == ["small-1", "small-1-2"]


def test_a_folder_that_cannot_be_written_is_one_line(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    refused = command("run", write(SMALL), "--out", "file/out")
    assert refused.returncode == 2
    assert refused.stderr == "onramp: file/out: cannot be made; file is not a folder\n"


@pytest.mark.parametrize("what", ["run", "compare"])
def test_a_full_disk_is_one_line_and_leaves_nothing(
    write: Callable[..., Path], tmp_path: Path, what: str
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

    path = write(SMALL)
    failed = _start(tmp_path, what, path, "--out", "out", preexec_fn=limit)
    _, stderr = failed.communicate(timeout=120)
    assert failed.returncode == 1
    assert stderr.count("\n") == 1 and "File too large" in stderr
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("what", ["run", "compare"])
def test_results_stay_where_pictures_have_no_room(
    write: Callable[..., Path], command: Command, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = write(SMALL)
    with monkeypatch.context() as patch:
        patch.setattr("onramp.plots.style.save", full)
        failed = command(what, path, "--out", "out")
    assert failed.returncode == 1
    said = "onramp: out: No space left on device; the results are complete: onramp report out draws them"
    assert failed.stderr.splitlines()[-1] == said
    drawn = command("report", "out")
    assert (drawn.returncode, drawn.stdout) == (0, "out/index.html\n")
