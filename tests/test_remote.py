"""`--dask`: runs on the workers of a cluster, here processes in folders of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import onramp
from conftest import ENDLESS, ROOT, SMALL, Command
from onramp.cache import Cache
from onramp.engine import Status, Watch
from onramp.scenario import Scenario

VARY = {"onramp.threshold": ["12us", "16us"], "seed": ["1", "2"]}


class Cluster:
    """A scheduler on loopback, and workers that start with `add`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        self.file = folder / "scheduler.json"
        self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", self.file, "--no-dashboard"
        )
        self.address = ""

    def _start(self, what: str, *arguments: object) -> subprocess.Popen[bytes]:
        place = self.folder / f"{what}-{len(self.processes)}"
        place.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{what}", *map(str, arguments)],
            cwd=place,
            env={**os.environ, "TMPDIR": str(place), "PYTHONPATH": str(ROOT / "python")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def add(self) -> subprocess.Popen[bytes]:
        """A worker that runs one scenario at a time."""
        return self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")


def _address(file: Path) -> str:
    """The scheduler's, from its file, which is there before it is written."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        try:
            return str(json.loads(file.read_text())["address"])
        except (FileNotFoundError, json.JSONDecodeError):
            time.sleep(0.05)
    raise AssertionError("no scheduler after a minute")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    (tmp_path / "cluster").mkdir()
    made = Cluster(tmp_path / "cluster")
    try:
        made.address = _address(made.file)
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.wait()


def test_results_are_the_bytes_of_this_machine(
    cluster: Cluster, write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    cluster.add()
    (tmp_path / "flows.csv").write_text("src,dst,bytes,start_ns\nh1,h0,30000,0\nh2,h0,40000,5000\n")
    path = write({**SMALL, "traffic": [*SMALL["traffic"], {"kind": "trace", "file": "flows.csv"}]})
    there = command("compare", path, "--dask", cluster.address, "--seeds", "1,2", "--out", "there")
    here = command("compare", path, "--seeds", "1,2", "--out", "here")
    assert there.returncode == here.returncode == 0, there.stderr + here.stderr
    assert there.stdout.replace("there", "here") == here.stdout
    for seed in (1, 2):
        for side in ("with", "without"):
            found = [
                onramp.Result(tmp_path / name / f"seed-{seed}" / side).summary for name in ("there", "here")
            ]
            assert found[0]["sha256"] == found[1]["sha256"] and found[0]["digest"] == found[1]["digest"]


def test_a_worker_that_dies_is_replaced_by_another(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.add()
    scenarios = {
        str(seed): onramp.validate({**SMALL, "duration": "60ms"}, {"seed": seed}, on="sim") for seed in (1, 2)
    }
    told: list[Status] = []

    def report(_: str, status: Status | None) -> None:
        # The first sign of life of a run ends its worker.
        if status is not None and not told:
            told.append(status)
            first.send_signal(signal.SIGKILL)
            cluster.add()

    cache = Cache(tmp_path / "cache")
    cache.run(scenarios, workers=cluster.address, watch=Watch(lambda: False, report))
    assert told and 0 < told[0].share < 1
    assert cache.missing(scenarios) == {}


def test_what_fails_is_said_in_a_line(
    cluster: Cluster, write: Callable[..., Path], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add()
    nothing = {**SMALL, "time_limit": "500us", "traffic": [{**SMALL["traffic"][1], "load": 1e-6}]}
    done = command("sweep", write(nothing), "--vary", "seed=1", "--dask", cluster.address, "--out", "a")
    assert done.returncode == 1 and "nothing starts between 0 and the end of the load" in done.stderr
    monkeypatch.setattr(Scenario, "programs", b"another build")
    done = command("sweep", write(SMALL), "--vary", "seed=1", "--dask", cluster.address, "--out", "b")
    assert done.returncode == 1 and "has another build of onramp" in done.stderr


def test_a_stop_here_stops_there(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add()
    scenario = onramp.validate(ENDLESS, on="sim")
    begun = threading.Event()

    def report(_: str, status: Status | None) -> None:
        assert _simulating(cluster.folder)
        begun.set()

    Cache(tmp_path / "cache").run(
        {"endless": scenario}, workers=cluster.address, watch=Watch(begun.is_set, report)
    )
    ends = time.monotonic() + 60
    while (left := _simulating(cluster.folder)) and time.monotonic() < ends:
        time.sleep(0.1)
    assert not left


def _simulating(folder: Path) -> list[Any]:
    """Processes of runs whose results go below a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = b"onramp.worker" in (process / "cmdline").read_bytes()
            if is_ours and str(folder) in (process / "cwd").readlink().as_posix():
                found.append(process.name)
        except OSError:
            continue
    return found


def test_slurms_recipe_runs_on_jobs_that_it_submits(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dask_jobqueue")
    recipe = (ROOT / "docs/machines/slurm.py").read_text()
    small = recipe.replace("cores=8, processes=8", "cores=1, processes=1").replace("jobs=2", "jobs=1")
    assert small != recipe
    (tmp_path / "slurm.py").write_text(small.replace("[1, 2, 3, 4, 5]", "[1]"))
    write({**SMALL, "clock": {}, "measure": {}}, "mine.toml")
    # Slurm's commands: a job begins at once, and is killed when it is cancelled.
    (tmp_path / "bin").mkdir()
    # The script is gone once it was handed over.
    begin = 'cp "$1" script; setsid sh script >/dev/null 2>&1 & echo $! >job; '
    begin += 'echo "Submitted batch job $(cat job)"'
    end = 'kill -- "-$1"'
    for name, does in {"sbatch": begin, "scancel": end}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
    }
    done = subprocess.run(
        [sys.executable, "slurm.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.stdout == "6 runs in results/mine\n", done.stderr
    job = int((tmp_path / "job").read_text())
    ends = time.monotonic() + 30
    while Path(f"/proc/{job}").exists() and time.monotonic() < ends:
        time.sleep(0.1)
    assert not Path(f"/proc/{job}").exists()
