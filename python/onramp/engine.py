"""Drives the simulator or the Linux cluster and writes what they yield."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from onramp import _sim, tables, testbed
from onramp.errors import RunError
from onramp.scenario import Scenario
from onramp.summary import EXCHANGES, Summary, summarize

#: How many packets captures had no room for, by file.
CAPTURES = "captures.json"

#: Wall time between two looks at the clock, the signals and the tables.
STEP_MS = 100


@dataclass(frozen=True)
class Status:
    """How far a run is."""

    share: float
    simulated_us: float
    packet_hops: int
    flows_done: int


class Stop:
    """Becomes true at SIGINT or SIGTERM while it is entered (in the main thread)."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self.asked

    def _ask(self, signum: int, frame: FrameType | None) -> None:
        self.asked = True

    def __enter__(self) -> Stop:
        try:
            self._before = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread: signals are somebody else's
            self._before = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)


@cache
def commit() -> str | None:
    """Commit of the checkout this package runs from, "-dirty" if it was changed."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() or None
    except (OSError, subprocess.CalledProcessError):
        return None


def execute(
    scenario: Scenario,
    folder: Path,
    *,
    threads: int = 1,
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[Status], None] = lambda status: None,
    traced: Sequence[int] = (),
) -> Summary:
    """Run a scenario and write scenario, tables and summary to `folder`, which exists.

    Parameters
    ----------
    threads : int
        Of the simulator; the results do not depend on it.
    stop : callable
        Asked ten times a second; once true, the results so far are written as incomplete.
    report : callable
        Told ten times a second how far the run is.
    traced : sequence of int
        Flows whose packets are captured, by number. `captures.json` has the files' names, and how many
        packets each had no room for.
    """
    kept = scenario.write(folder)
    began = time.monotonic()
    with ExitStack() as stack:
        write = _Tables(folder, stack)
        if scenario.on == "linux":
            counters, complete = _on_linux(kept, folder, write, stop, report, traced)
        else:
            counters, complete = _in_simulator(kept, threads, folder, write, stop, report, traced)
    wall_s = time.monotonic() - began
    engine = counters["engine"]
    engine["wall_s"] = wall_s
    engine["packet_hops_per_s"] = engine["packet_hops"] / wall_s
    summary = summarize(
        kept,
        pq.read_table(
            folder / "flows.parquet", columns=["traffic", "request", "bytes", "fct_ps", "ideal_ps"]
        ),
        pq.read_table(folder / "requests.parquet", columns=["rct_ps"]),
        tables.exchanges(folder, ["traffic", "bytes", "latency_ps"]),
        counters,
        complete=complete,
        version=_sim.version(),
        commit=commit(),
    )
    (folder / "summary.json").write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n")
    return summary


class _Tables:
    """The tables of a result folder, closed with `stack`."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.flows = tables.Writer(folder / "flows.parquet", tables.FLOWS)
        self.requests = tables.Writer(folder / "requests.parquet", tables.REQUESTS)
        self.series = tables.Writer(folder / "series.parquet", tables.SERIES)
        for table in (self.flows, self.requests, self.series):
            stack.callback(table.close)
        self._folder, self._stack = folder, stack
        self._others: dict[str, tables.Writer] = {}

    def also(self, name: str, table: pa.Table) -> None:
        """Append to a table that not every run has; nothing, if it is empty."""
        if len(table):
            if name not in self._others:
                self._others[name] = tables.Writer(self._folder / f"{name}.parquet", table.schema)
                self._stack.callback(self._others[name].close)
            self._others[name].add(table)

    def exchanges(self, columns: tables.Columns) -> None:
        """Append exchanges."""
        self.also("exchanges", tables.rows(columns, tables.EXCHANGES))


def _in_simulator(
    kept: Scenario,
    threads: int,
    folder: Path,
    write: _Tables,
    stop: Callable[[], bool],
    report: Callable[[Status], None],
    traced: Sequence[int],
) -> tuple[dict[str, Any], bool]:
    """Simulate; the engine's part of the summary, and whether the run came to its end."""
    simulation = _sim.Simulation(kept.text, str(kept.base), threads, list(traced))
    complete = False
    while not complete and not stop():
        complete = simulation.advance(STEP_MS)
        write.flows.add(tables.flows(simulation.take_flows()))
        write.requests.add(tables.rows(simulation.take_requests(), tables.REQUESTS))
        write.exchanges(simulation.take_exchanges())
        write.series.add(tables.series(simulation.take_series(), simulation.series_names()))
        now_us = simulation.now_ps / 1e6
        report(Status(simulation.progress, now_us, simulation.packet_hops, simulation.flows_done))
    # Long flows and clients may have begun with the warm-up.
    early = any(kept.traffic_of_kind(kind) for kind in ("long", *EXCHANGES))
    if complete and not simulation.flows_started and not early:
        limit = kept.document["time_limit"]
        raise RunError(f"{kept.name}: no flow starts between 0 and the end of the load (time_limit {limit})")
    write.flows.add(tables.flows(simulation.unfinished_flows(), finished=False))
    write.also("clock", tables.rows(simulation.take_clock(), tables.CLOCK))
    write.also("next_owd", tables.rows(simulation.next_owd(), tables.NEXT_OWD))
    if traced:
        captures = simulation.captures()
        for name, content, _ in captures:
            (folder / name).write_bytes(content)
        left_out = {name: count for name, _, count in captures}
        (folder / CAPTURES).write_text(json.dumps(left_out))
    counters = json.loads(simulation.counters())
    counters["engine"]["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return counters, complete


def _on_linux(
    kept: Scenario,
    folder: Path,
    write: _Tables,
    stop: Callable[[], bool],
    report: Callable[[Status], None],
    traced: Sequence[int],
) -> tuple[dict[str, Any], bool]:
    """Run on the Linux cluster; returns as `_in_simulator`."""
    raw, complete = testbed.run(
        folder, stop=stop, report=lambda fields: report(Status(**fields)), traced=traced
    )
    counters = json.loads((raw / "counters.json").read_text())
    write.flows.add(tables.flows(testbed.columns(raw / "flows.bin", testbed.FLOW)))
    unfinished = testbed.columns(raw / "unfinished.bin", testbed.FLOW)
    write.flows.add(tables.flows(unfinished, finished=False))
    requests = testbed.columns(raw / "requests.bin", testbed.REQUEST)
    write.requests.add(tables.rows(requests, tables.REQUESTS))
    write.exchanges(testbed.columns(raw / "exchanges.bin", testbed.EXCHANGE))
    write.also("clock", tables.rows(testbed.columns(raw / "clock.bin", testbed.CLOCK), tables.CLOCK))
    samples = testbed.columns(raw / "samples.bin", testbed.SAMPLE)
    write.series.add(tables.series(samples, counters["series_names"]))
    if traced:
        for path in [raw / CAPTURES, *raw.glob("*.pcap")]:
            path.rename(folder / path.name)
    shutil.rmtree(raw)
    counters["engine"]["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return counters, complete
