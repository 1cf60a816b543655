"""Drives the simulator or the Linux cluster and writes what they yield."""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import pyarrow as pa

from onramp import _sim, tables, testbed
from onramp.errors import RunError
from onramp.scenario import Scenario
from onramp.summary import Summary, summarize

#: How many packets captures had no room for, by file.
CAPTURES = "captures.json"

#: Ways of packets of traced flows, hop by hop.
WAYS = "ways.json"

#: Wall time between two looks at the clock, the signals and the tables.
STEP_MS = 100


@dataclass(frozen=True)
class Status:
    """How far a run is."""

    share: float
    simulated_us: float
    packet_hops: int
    flows_done: int


@dataclass(frozen=True)
class Watch:
    """Observer of runs under way; without arguments it neither stops them nor hears of them.

    Attributes
    ----------
    stop : callable
        Returns whether runs are to end, with incomplete results. Called ten times a second.
    report : callable
        Takes the label of a run and how far it is; None once it has ended. Called ten times a second.
    picture : callable, optional
        Takes a callable that returns the network over time so far, as JSON, until it is given anew; the last
        one does so after the run, too. Called ten times a second. In the simulator only.
    """

    stop: Callable[[], bool] = lambda: False
    report: Callable[[str, Status | None], None] = lambda label, status: None
    picture: Callable[[Callable[[], str]], None] | None = None


NOBODY = Watch()


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
    watch: Watch = NOBODY,
    label: str | None = None,
    traced: Sequence[int] = (),
    digest: str | None = None,
    ways: bool = False,
    skip: bool = True,
) -> Summary:
    """Run a scenario and write scenario, tables and summary to `folder`, which exists.

    Parameters
    ----------
    threads : int
        Of the simulator; the results do not depend on it.
    watch : Watch
        Hears of every step, but not of the end.
    label : str, optional
        Name of the run for `watch`. Default: the scenario's.
    traced : sequence of int
        Flows whose packets are captured, by number. `captures.json` has the files' names, and how many
        packets each had no room for.
    digest : str, optional
        Names the results. Default: the scenario's.
    ways : bool
        In the simulator `ways.json` has where each of their packets was, and when; also on RDMA.
    skip : bool
        Iterations of training jobs that are the same are simulated once; the results do not depend on it.
        The summary's `engine.skipping` says how many.
    """
    kept = scenario.write(folder)
    made_by: dict[str, Any] = {
        "digest": digest or scenario.digest,
        "version": _sim.version(),
        "commit": commit(),
    }
    began = time.monotonic()
    with ExitStack() as stack:
        to = _Tables(folder, stack, made_by)
        run = _Run(kept, folder, to, watch, label or scenario.name, traced, ways, skip, began)
        counters, complete = _on_linux(run) if scenario.on == "linux" else _in_simulator(run, threads)
    counters = run.measured(counters)
    hashes = {str(path.relative_to(folder)): sha256(path) for path in _outputs(folder)}
    summary = summarize(kept, folder, counters, complete=complete, hashes=hashes, **made_by)
    (folder / "summary.json").write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n")
    return summary


def sha256(path: Path) -> str | None:
    """SHA-256 of a file, in hexadecimal digits; None if there is no such file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while part := file.read(1 << 20):
            digest.update(part)
        return digest.hexdigest()


def _outputs(folder: Path) -> list[Path]:
    """Files that the same scenario gives again, byte for byte: itself, its inputs and its tables."""
    return [folder / "scenario.toml", *sorted(folder.glob("inputs/*")), *sorted(folder.glob("*.parquet"))]


class _Tables:
    """The tables of a result folder, closed with `stack`."""

    #: Those that every run has.
    ALWAYS = ("flows", "requests", "series")

    def __init__(self, folder: Path, stack: ExitStack, made_by: Mapping[str, Any]) -> None:
        self._folder, self._stack, self._made_by = folder, stack, made_by
        self.parts = tables.Parts(folder)
        stack.callback(self.parts.remove)
        self._writers: dict[str, tables.Writer] = {}
        for name in self.ALWAYS:
            self._writer(name)

    def _writer(self, name: str) -> tables.Writer:
        if name not in self._writers:
            self._writers[name] = tables.Writer(self._folder / f"{name}.parquet", tables.SCHEMAS[name])
            self._stack.callback(self._writers[name].close)
        return self._writers[name]

    def add(self, name: str, table: pa.Table) -> None:
        """Append to a table, which is made with its first row."""
        if len(table):
            self._writer(name).add(table)
            self.parts.add(name, table)

    def write_parts(self, counters: Mapping[str, Any], whole: Mapping[str, pa.Table]) -> None:
        """Make the rows so far readable, beside `whole` tables and the engine's part of a summary."""
        self.parts.write(whole, {"counters": counters, "complete": False, "hashes": {}, **self._made_by})


@dataclass(frozen=True)
class _Run:
    """A run on either substrate, with its observer and the flows to capture."""

    kept: Scenario
    folder: Path
    tables: _Tables
    watch: Watch
    label: str
    traced: Sequence[int]
    ways: bool
    skip: bool
    began: float

    def measured(self, counters: dict[str, Any]) -> dict[str, Any]:
        """The engine's part of the summary, with wall time and memory so far."""
        wall_s = time.monotonic() - self.began
        who = resource.RUSAGE_CHILDREN if self.kept.on == "linux" else resource.RUSAGE_SELF
        engine = {
            **counters["engine"],
            "wall_s": wall_s,
            "packet_hops_per_s": counters["engine"]["packet_hops"] / wall_s,
            "peak_rss_mb": resource.getrusage(who).ru_maxrss / 1024,
        }
        return {**counters, "engine": engine}

    def report(self, status: Status) -> None:
        self.watch.report(self.label, status)


def _in_simulator(run: _Run, threads: int) -> tuple[dict[str, Any], bool]:
    """Simulate; the engine's part of the summary, and whether the run came to its end."""
    kept, write = run.kept, run.tables
    picture = run.watch.picture
    has_picture = picture is not None
    loaded = kept.loaded
    simulation = _sim.Simulation(loaded, threads, list(run.traced), run.ways, has_picture, run.skip)

    def whole() -> dict[str, pa.Table]:
        return {
            "goodput": tables.rows("goodput", simulation.goodput()),
            "links": tables.rows("links", simulation.links(), names=loaded.nodes),
        }

    complete = False
    while not complete and not run.watch.stop():
        complete = simulation.advance(STEP_MS)
        if simulation.failure:
            raise RunError(f"{kept.name}: {simulation.failure}")
        write.add("flows", tables.rows("flows", simulation.take_flows()))
        write.add("requests", tables.rows("requests", simulation.take_requests()))
        write.add("exchanges", tables.rows("exchanges", simulation.take_exchanges()))
        write.add("operations", tables.rows("operations", simulation.take_operations()))
        write.add("collectives", tables.rows("collectives", simulation.take_collectives()))
        write.add("messages", tables.rows("messages", simulation.take_messages()))
        write.add("pauses", tables.rows("pauses", simulation.take_pauses(), names=loaded.nodes))
        names = simulation.series_names()
        write.add("series", tables.rows("series", simulation.take_series(), names=names))
        now_us = simulation.now_ps / 1e6
        run.report(Status(simulation.progress, now_us, simulation.packet_hops, simulation.flows_done))
        if picture:
            picture(simulation.picture)
        # Nothing is measured in the warm-up.
        if write.parts.are_due and simulation.now_ps and not complete:
            write.write_parts(run.measured(json.loads(simulation.counters())), whole())
    counters = json.loads(simulation.counters())
    # Long flows, and requests that are open, may have begun with the warm-up.
    early = kept.endless or counters["unfinished"].get("exchanges", 0)
    if complete and not simulation.flows_started and not early:
        limit = kept.document["time_limit"]
        raise RunError(f"{kept.name}: nothing starts between 0 and the end of the load (time_limit {limit})")
    write.add("flows", tables.rows("flows", simulation.unfinished_flows(), finished=False))
    write.add("pauses", tables.rows("pauses", simulation.pauses_under_way(), names=loaded.nodes))
    write.add("clock", tables.rows("clock", simulation.take_clock()))
    write.add("next_owd", tables.rows("next_owd", simulation.next_owd()))
    for name, table in whole().items():
        write.add(name, table)
    if run.traced:
        captures = simulation.captures()
        for name, content, _ in captures:
            (run.folder / name).write_bytes(content)
        left_out = {name: count for name, _, count in captures}
        (run.folder / CAPTURES).write_text(json.dumps(left_out))
    if run.ways:
        (run.folder / WAYS).write_text(simulation.ways())
    if simulation.skipping:
        counters["engine"]["skipping"] = simulation.skipping
    return counters, complete


def _on_linux(run: _Run) -> tuple[dict[str, Any], bool]:
    """Run on the Linux cluster; returns as `_in_simulator`."""
    write = run.tables
    raw, complete = testbed.run(
        run.folder,
        stop=run.watch.stop,
        report=lambda fields: run.report(Status(**fields)),
        traced=run.traced,
    )
    counters = json.loads((raw / "counters.json").read_text())
    for name in ("flows", "requests", "exchanges", "operations", "collectives", "goodput", "clock"):
        write.add(name, tables.rows(name, tables.read_columns(raw / f"{name}.bin", name)))
    unfinished = tables.read_columns(raw / "unfinished.bin", "flows")
    write.add("flows", tables.rows("flows", unfinished, finished=False))
    write.add("next_owd", tables.rows("next_owd", tables.read_columns(raw / "next_owd.bin", "next_owd")))
    samples = tables.read_columns(raw / "series.bin", "series")
    write.add("series", tables.rows("series", samples, names=counters["series_names"]))
    links = tables.read_columns(raw / "links.bin", "links")
    write.add("links", tables.rows("links", links, names=run.kept.loaded.nodes))
    if run.traced:
        for path in [raw / CAPTURES, *raw.glob("*.pcap")]:
            path.rename(run.folder / path.name)
    shutil.rmtree(raw)
    return counters, complete
