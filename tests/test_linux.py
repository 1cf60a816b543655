"""Scenarios on the Linux cluster; skipped where its kernel was not built."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onramp
from cluster import seen
from conftest import Command
from onramp import testbed
from onramp.errors import OnRampError
from onramp.result import Result


def _missing() -> str:
    try:
        testbed.kernel()
    except OnRampError as e:
        return str(e)
    return ""


MISSING = _missing()
needs_kernel = pytest.mark.skipif(bool(MISSING), reason=MISSING)
needs_agent = pytest.mark.skipif(
    bool(MISSING) or len(testbed.programs(onramp=True)) < 3, reason=MISSING or "onrampd is not built"
)

#: Nine hosts on a switch; some hundred flows.
STAR: dict[str, Any] = {
    "name": "star",
    "duration": "2ms",
    "network": {"kind": "star", "hosts": 9, "host_rate": "10Gbps"},
    "transport": {"kind": "dctcp-tcp"},
    "measure": {"interval": "100us", "queues": ["s0->h0"], "links": ["s0->h0"], "flow_rates": True},
    "traffic": [
        {"kind": "background", "workload": "FB_Hadoop", "load": 0.2},
        {"kind": "incast", "fan_out": 6, "size": "2KB", "load": 0.02},
        {"kind": "long", "src": ["h1"], "dst": "h0"},
    ],
}

#: Two long flows fill a queue that a request has to pass.
CROWDED: dict[str, Any] = {
    "name": "crowded",
    "duration": "30ms",
    "network": {"kind": "star", "hosts": 13, "host_rate": "10Gbps"},
    "transport": {"kind": "cubic"},
    "onramp": {"threshold": "50us", "max_pause": "150us"},
    "traffic": [
        {"kind": "long", "src": ["h1", "h2"], "dst": "h0"},
        {"kind": "trace", "file": "requests.csv"},
    ],
}

ENDLESS: dict[str, Any] = {**STAR, "duration": "100s", "traffic": STAR["traffic"][1:]}


@pytest.fixture(scope="module")
def star(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Results of STAR on Linux."""
    return onramp.run(STAR, out=tmp_path_factory.mktemp("linux") / "star", on="linux")


@needs_agent
def test_the_same_scenario_gives_the_same_bytes(tmp_path: Path) -> None:
    overrides = {"transport.kind": "cubic", "onramp": {"threshold": "20us"}}
    runs = [onramp.run(STAR, overrides, out=tmp_path / name, on="linux") for name in ("first", "second")]
    for table in ("flows", "requests", "series"):
        assert len({(run.folder / f"{table}.parquet").read_bytes() for run in runs}) == 1, table
    assert runs[0].summary["onramp_stats"] == runs[1].summary["onramp_stats"]
    assert runs[0].summary["onramp_stats"]["pauses"] > 0


@needs_kernel
def test_every_flow_ends_and_none_is_faster_than_its_links(star: Result) -> None:
    summary = star.summary
    assert summary["substrate"] == "linux" and summary["complete"]
    assert summary["unfinished"] == {"flows": 0, "requests": 0}
    assert summary["engine"]["packet_hops"] > 10_000
    flows = star.flows
    short = flows["traffic"].to_numpy() < 2
    assert short.sum() > 100
    # Each of two links may be a nanosecond early.
    assert np.all(flows["fct_ps"].to_numpy()[short] >= flows["ideal_ps"].to_numpy()[short] - 2_000)
    rct = star.requests["rct_ps"].to_numpy()
    assert len(rct) == summary["incast"]["requests"] > 10 and np.all(rct > 6 * 1.6e6)


@needs_kernel
def test_queues_links_and_long_flows_are_recorded(star: Result) -> None:
    rates = [name for name in star.series_names if name.startswith("rate flow")]
    assert len(rates) == 1 and rates[0].endswith("h1->h0")
    _, rate = star.samples(rates[0])
    _, share = star.samples("utilization s0->h0")
    _, queue = star.samples("queue s0->h0")
    assert len(share) == len(queue) >= 20
    assert 0.5 < share.max() < 1.1 and queue.max() > 0
    assert 3e9 < np.median(rate[:19]) < 10e9


@needs_kernel
def test_arrivals_are_the_simulators(star: Result) -> None:
    simulated = onramp.run(STAR)
    for column in ("id", "traffic", "src", "dst", "start_ps"):
        by_id = [r.flows.sort_by("id")[column].to_pylist() for r in (star, simulated)]
        assert by_id[0] == by_id[1], column


@needs_kernel
def test_what_starts_in_the_warm_up_is_load_but_not_measured() -> None:
    warm = {**STAR, "warmup": "2ms"}
    linux, sim = (onramp.run(warm, on=on) for on in ("linux", "sim"))
    for column in ("src", "dst", "bytes", "start_ps"):
        a, b = (np.sort(r.flows.filter(r.flows["traffic"].to_numpy() < 2)[column]) for r in (linux, sim))
        assert np.array_equal(a, b), column
    assert linux.summary["incast"]["requests"] == sim.summary["incast"]["requests"] > 0
    # The long flow has run from the beginning, so its rate is recorded, but it is no result.
    t, _ = linux.samples("queue s0->h0")
    assert t[0] == pytest.approx(100e-6, abs=5e-6) and 2 not in linux.flows["traffic"].to_pylist()
    # What it moves is measured from time 0 on.
    for run in (linux, sim):
        [row] = run.goodput.to_pylist()
        assert row["start_ps"] == 0 and row["duration_ps"] == pytest.approx(2e9, rel=0.01)
    assert linux.summary["long"]["gbps"] == pytest.approx(sim.summary["long"]["gbps"], rel=0.1)


@needs_kernel
def test_the_papers_fat_tree_opens_and_every_switch_chooses_by_itself() -> None:
    tree = {
        "name": "tree",
        "duration": "20us",
        "network": {"kind": "fat-tree"},
        "transport": {"kind": "cubic"},
        "traffic": [{"kind": "background", "workload": "GoogleSearchRPC", "load": 0.1}],
    }
    result = onramp.run(tree, on="linux")
    assert result.summary["background"]["all"]["flows"] > 1000
    up = {k: v for k, v in result.summary["network"]["utilization"].items() if "->core" in k}
    assert len(up) == 80 and min(up.values()) > 0, up


@needs_agent
def test_onramp_keeps_the_queue_short_and_requests_fast(write: Callable[..., Path], tmp_path: Path) -> None:
    # After 5 ms, when the queue has built up: one request a millisecond, answered by 10 hosts.
    answers = [f"{src},0,2000,{ms}000000,{ms}" for ms in range(5, 30) for src in range(3, 13)]
    (tmp_path / "requests.csv").write_text("\n".join(["src,dst,bytes,start_ns,request", *answers]) + "\n")
    found = onramp.compare(write(CROWDED), on="linux")
    assert found.arrivals.identical
    without, with_ = found.without[0].summary, found.with_[0].summary
    assert with_["network"]["drops"] == 0
    assert with_["incast"]["rct_us"]["mean"] < without["incast"]["rct_us"]["mean"] / 2
    assert with_["onramp_stats"]["pauses"] > 0 and with_["onramp_stats"]["or_acks_no_stamp"] == 0


def _processes(word: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and str(os.getpid()) != entry.parent.name:
            found.append(line)
    return found


def _start(folder: Path, path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "onramp", "run", str(path), "--on", "linux", "--out", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(600):
        if _processes(f"{folder.parent}/.{folder.name}"):
            break
        time.sleep(0.1)
    time.sleep(1)
    return process


@needs_kernel
def test_a_killed_run_leaves_no_process(write: Callable[..., Path], tmp_path: Path) -> None:
    process = _start(tmp_path / "out", write(ENDLESS))
    children = _descendants(process.pid)
    assert any("linux" in name for name in children.values()), children
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for _ in range(50):
        left = {pid: name for pid, name in children.items() if _alive(pid)}
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(left)


def _descendants(root: int) -> dict[int, str]:
    """Processes below `root`, and their names."""
    parents, names = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        pid = int(head.split()[0])
        parents[pid], names[pid] = int(rest.split()[1]), head.partition("(")[2]
    found: set[int] = set()
    grown = {root}
    while grown:
        grown = {pid for pid, parent in parents.items() if parent in grown} - found
        found |= grown
    return {pid: names[pid] for pid in found}


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@needs_kernel
def test_an_interrupted_run_keeps_the_results_so_far(write: Callable[..., Path], tmp_path: Path) -> None:
    process = _start(tmp_path / "out", write(ENDLESS))
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert b"incomplete" in stdout and b"Traceback" not in stderr
    result = Result(tmp_path / "out")
    assert result.summary["complete"] is False and result.summary["unfinished"]["flows"] >= 1
    assert result.flows.num_rows > 10
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "scenario.toml"]


@needs_kernel
def test_the_guest_cannot_change_the_machine(write: Callable[..., Path]) -> None:
    place, new = Path(__file__).parent, f"new-{os.getpid()}"
    touched = [seen(place / new), f"/usr/{new}", f"/tmp/{new}"]
    job = f"h0: touch {' '.join(touched)}; wc -c < {seen(__file__)}"
    command: list[str | Path] = [testbed.runner(), "exec", "--scenario", write(STAR), job]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not any(path.exists() for path in (place / new, Path("/usr") / new, Path("/tmp") / new))
    assert done.stdout.count("Read-only file system") == 2, done.stdout
    assert str(Path(__file__).stat().st_size) in done.stdout


@needs_kernel
def test_a_kernel_that_is_none_is_one_line(
    write: Callable[..., Path], command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write({**STAR, "name": "none"})
    testbed.kernel.cache_clear()
    monkeypatch.delenv("ONRAMP_KERNEL", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        for verb in ("run", "compare"):
            done = command(verb, path, "--on", "linux")
            assert done.returncode == 2
            assert done.stderr == "onramp: no testbed kernel: run `make testbed`\n"
    finally:
        testbed.kernel.cache_clear()
