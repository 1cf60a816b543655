"""Runs, comparisons, sweeps and traces as Python code and the command ask for them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onramp import engine, tracing
from onramp.cache import Cache, Workers
from onramp.comparison import Comparison, Plan
from onramp.engine import Stop, Watch
from onramp.errors import OnRampError
from onramp.folders import Resumes, nothing, staged
from onramp.result import Result
from onramp.scenario import Overrides, Scenario, Source, load, to_value
from onramp.tracing import Trace

if TYPE_CHECKING:
    import pyarrow as pa
    from altair import TopLevelMixin
    from matplotlib.figure import Figure

Temporary = tempfile.TemporaryDirectory[str]


def _filled(
    out: str | Path | None,
    fill: Callable[[Path], object],
    *,
    force: bool = False,
    resumes: Resumes = nothing,
) -> tuple[Path, Temporary | None]:
    """Has `fill` write into a folder that becomes `out`, or without `out` into a temporary one."""
    if out is None:
        temporary = tempfile.TemporaryDirectory(prefix="onramp-")
        fill(Path(temporary.name))
        return Path(temporary.name), temporary
    with staged(Path(out), force=force, resumes=resumes) as stage:
        fill(stage)
    return Path(out), None


def run_loaded(
    scenario: Scenario,
    out: str | Path | None,
    *,
    threads: int,
    watch: Watch,
    force: bool = False,
    skip: bool = True,
) -> Result:
    """Results of a scenario that is loaded, incomplete if it was stopped.

    Parameters
    ----------
    force : bool
        Replace `out` if it holds results.
    skip : bool
        Simulate iterations of training jobs that are the same once; the results do not depend on it.
    """

    def fill(folder: Path) -> None:
        engine.execute(scenario, folder, threads=threads, watch=watch, skip=skip)

    folder, temporary = _filled(out, fill, force=force)
    return Result.in_temporary(temporary) if temporary else Result(folder)


def compare_planned(
    plan: Plan,
    out: str | Path | None,
    *,
    workers: Workers,
    watch: Watch,
    force: bool = False,
) -> Comparison:
    """All sides of a plan; an interrupted comparison in `out` is gone on with, unless `force` is set."""
    made: list[Comparison] = []

    def fill(folder: Path) -> None:
        made.append(plan.execute(folder, workers=workers, watch=watch))

    folder, temporary = _filled(out, fill, force=force, resumes=plan.resumes)
    found = made[0].moved(folder)
    found.temporary = temporary
    return found


def trace_loaded(
    scenarios: Mapping[str, Scenario],
    flows: Sequence[int],
    out: str | Path | None,
    *,
    threads: int,
    watch: Watch,
    force: bool = False,
    html: bool = False,
) -> Trace:
    """Packets of flows of what `tracing.prepare` has returned; `force` as for `run_loaded`."""

    def fill(folder: Path) -> None:
        tracing.execute(scenarios, flows, folder, threads=threads, watch=watch, html=html)

    folder, temporary = _filled(out, fill, force=force)
    found = Trace(folder)
    found.temporary = temporary
    return found


def _check_positive(name: str, number: int | None) -> None:
    if number is not None and number < 1:
        raise OnRampError(f"{name} = {number}: must be at least 1")


def run(
    scenario: Source,
    overrides: Overrides | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    on: str = "sim",
    threads: int | None = None,
    skip: bool = True,
) -> Result:
    """Run a scenario.

    Parameters
    ----------
    scenario : path, mapping or Scenario
        A scenario file, its content as nested dicts, or what `validate` returned.
    overrides : mapping, optional
        Dotted keys to values that win over the file's: ``{"onramp.threshold": "16us"}``.
    seed : int, optional
        Wins over the scenario's.
    out : path, optional
        Folder for the results, which must not exist. Default: a temporary one that vanishes with the
        returned object.
    on : {"sim", "linux"}
        Where it runs: in the simulator, or on the virtual-time Linux cluster.
    threads : int, optional
        Of the simulator; the results do not depend on it. Default: the machine's cores.
    skip : bool
        Simulate iterations of training jobs that are the same once; the results do not depend on it.

    Returns
    -------
    Result
        Summary (times in µs) and tables (times in ps, sizes in bytes).

    Raises
    ------
    ScenarioError
        One line per mistake in the scenario.
    OnRampError
        If `out` exists or cannot be written.
    KeyboardInterrupt
        At Ctrl-C, after the results so far were written to `out`.

    Examples
    --------
    >>> result = onramp.run("scenarios/demo.toml", {"duration": "100us"})  # doctest: +SKIP
    >>> result.summary["incast"]["rct_us"]["p95"]  # doctest: +SKIP
    """
    _check_positive("threads", threads)
    loaded = load(scenario, {**(overrides or {}), **({} if seed is None else {"seed": seed})}, on, keep=True)
    with Stop() as stop:
        cores = threads or os.cpu_count() or 1
        result = run_loaded(loaded, out, threads=cores, watch=Watch(stop), skip=skip)
    if stop.asked:
        raise KeyboardInterrupt
    return result


def compare(
    scenario: Source,
    overrides: Overrides | None = None,
    seeds: Sequence[int] | None = None,
    out: str | Path | None = None,
    on: str = "sim",
    sides: Mapping[str, Overrides] | None = None,
) -> Comparison:
    """Run a scenario with and without On-Ramp on the same arrivals, or variants of it, two at a time.

    Parameters
    ----------
    sides : mapping of str to overrides, optional
        Variants by name, the first of which the others are compared with, such as
        `{"DCQCN": {"transport.kind": "dcqcn"}, "HPCC": {"transport.kind": "hpcc"}}`. Default: without and
        with On-Ramp.
    seeds : sequence of int, optional
        Default: the scenario's seed. With several, the ratios come with 95% intervals over seeds.
    scenario, overrides, out, on
        As for `run`; without `out` the folders vanish with the returned object. If `out` has an interrupted
        comparison of the same, only what is missing is run.

    Raises
    ------
    ScenarioError, OnRampError, KeyboardInterrupt
        As for `run`.
    """
    if seeds is not None and not seeds:
        raise OnRampError("seeds: is empty; leave it out for the scenario's own")
    if sides is None:
        plan = Plan.of(scenario, overrides, seeds, on)
    else:
        variants = {label: load(scenario, {**(overrides or {}), **own}, on) for label, own in sides.items()}
        plan = Plan.of_several(variants, seeds)
    with Stop() as stop:
        found = compare_planned(plan, out, workers=2, watch=Watch(stop))
    if stop.asked:
        raise KeyboardInterrupt
    return found


def sweep(
    scenario: Source,
    vary: Mapping[str, Sequence[object]],
    overrides: Overrides | None = None,
    out: str | Path | None = None,
    on: str = "sim",
    workers: Workers | None = None,
) -> pa.Table:
    """Run a scenario for each combination of values.

    Parameters
    ----------
    vary : mapping of str to sequence
        Dotted keys and their values, such as `{"onramp.threshold": ["16us", "30us"], "seed": [1, 2, 3]}`.
    out : path, optional
        Folder of the runs: what it has is not run again. Without, nothing is kept.
    workers : int or str, optional
        Processes, or the address of a Dask scheduler, whose workers run. Default: the machine's cores.
    scenario, overrides, on
        As for `run`.

    Returns
    -------
    pyarrow.Table
        One row per run: the varied keys as text, and every number of its summary, such as
        `incast.rct_us.mean`.

    Raises
    ------
    ScenarioError, OnRampError, KeyboardInterrupt
        As for `run`.
    """
    # Slow to import: it draws.
    from onramp import sweeps

    _check_positive("workers", None if isinstance(workers, str) else workers)
    values = {key: [one if isinstance(one, str) else to_value(one) for one in of] for key, of in vary.items()}
    points = sweeps.grid(scenario, overrides or {}, values, on)
    with tempfile.TemporaryDirectory(prefix="onramp-") as temporary, Stop() as stop:
        cache = Cache(Path(out or temporary))
        wanted = {point.label: point.scenario for point in points}
        cache.run(wanted, workers=workers or os.cpu_count() or 1, watch=Watch(stop))
        done = sweeps.results(points, cache)
        if stop.asked:
            raise KeyboardInterrupt
        return sweeps.table(done)


def trace(
    scenario: Source,
    flows: Sequence[int],
    overrides: Overrides | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    on: str = "sim",
    threads: int | None = None,
    request: int | None = None,
    html: bool = False,
) -> Trace:
    """Run a scenario and capture the packets of single flows at both their hosts.

    Parameters
    ----------
    flows : sequence of int
        Numbers as in the flows table; they are the same flows on both substrates.
    on : {"sim", "linux", "both"}
        Where it runs.
    request : int, optional
        Number of a request, as in the requests table, whose flows are traced, too.
    html : bool
        Also write a page of space and time for each substrate (`Trace.pages`): every packet's way, in the
        simulator through each port.
    scenario, overrides, seed, out, threads
        As for `run`; without `out` the folder vanishes with the returned object.

    Returns
    -------
    Trace
        Captures (pcap files, and their packets as arrays), and a result for each run.

    Raises
    ------
    ScenarioError, OnRampError, KeyboardInterrupt
        As for `run`; also if a flow is not there.
    """
    given = {**(overrides or {}), **({} if seed is None else {"seed": seed})}
    loaded, chosen = tracing.prepare(scenario, given, flows, on, request=request)
    with Stop() as stop:
        cores = threads or os.cpu_count() or 1
        found = trace_loaded(loaded, chosen, out, threads=cores, watch=Watch(stop), html=html)
    if stop.asked:
        raise KeyboardInterrupt
    return found


def plot(result: Result, kind: str = "bars") -> Figure:
    """A plot of a run.

    Parameters
    ----------
    kind : {"bars", "cdf", "queue", "links", "throughput", "clock", "timeline"}
        Completion times as bars or as distributions, queues over time, the utilization of links as maps, the
        throughput of each long flow as a stack, the errors of the hosts' clocks, or the ranks of a training
        job over time.

    Raises
    ------
    OnRampError
        If there is no such kind, or the run recorded nothing for it.
    """
    from onramp import plots

    return plots.draw(kind, {"": [result]})


def chart(of: Result | Comparison, kind: str = "flows") -> TopLevelMixin:
    """An interactive chart of a run, or of the sides of a comparison with their first seed, by Vega-Altair.

    Parameters
    ----------
    kind : {"flows", "cdf", "queue"}
        Each request and flow as a point, completion times as distributions, or queues over time.

    Returns
    -------
    altair chart
        Shows itself in Jupyter; `save("chart.html", inline=True)` writes a page that needs no network.

    Raises
    ------
    OnRampError
        If there is no such kind, the run recorded nothing for it, or `onramp-lab[charts]` is not installed.
    """
    from onramp import charts

    sides = {"": of} if isinstance(of, Result) else {side: runs[0] for side, runs in of.sides.items()}
    return charts.draw(kind, sides)


def plot_flow(trace: Trace, flow: int) -> Figure:
    """Bytes of a flow sent, acknowledged and in flight over time, all substrates over each other."""
    from onramp.plots import trace as plots

    return plots.draw(trace, flow)


def validate(scenario: Source, overrides: Overrides | None = None, on: str | None = None) -> Scenario:
    """Check a scenario without running it; with `on`, also whether it runs there.

    Returns
    -------
    Scenario
        With every default written out.

    Raises
    ------
    ScenarioError
        One line per mistake: file, line, key, what is wrong, what would be right.
    """
    return load(scenario, overrides, on)
