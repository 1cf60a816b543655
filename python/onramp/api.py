"""What Python code calls; the command does the same with progress and tables."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onramp import comparison, engine
from onramp.comparison import Comparison
from onramp.engine import Stop
from onramp.folders import staged
from onramp.result import Result
from onramp.scenario import Overrides, Scenario, load

if TYPE_CHECKING:
    from onramp.tracing import Trace

Source = str | Path | Mapping[str, Any]


def run(
    scenario: Source,
    overrides: Overrides | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    on: str = "sim",
    threads: int | None = None,
) -> Result:
    """Run a scenario.

    Parameters
    ----------
    scenario : path or mapping
        A scenario file, or its content as nested dicts.
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
    loaded = load(scenario, {**(overrides or {}), **({} if seed is None else {"seed": seed})}, on)
    cores = threads or os.cpu_count() or 1
    with Stop() as stop:
        if out is None:
            temporary = tempfile.TemporaryDirectory(prefix="onramp-")
            engine.execute(loaded, Path(temporary.name), threads=cores, stop=stop)
            result = Result.in_temporary(temporary)
        else:
            with staged(Path(out)) as stage:
                engine.execute(loaded, stage, threads=cores, stop=stop)
            result = Result(out)
    if stop.asked:
        raise KeyboardInterrupt
    return result


def compare(
    scenario: Source,
    overrides: Overrides | None = None,
    seeds: Sequence[int] | None = None,
    out: str | Path | None = None,
    on: str = "sim",
) -> Comparison:
    """Run a scenario with and without On-Ramp on the same arrivals, two processes at a time.

    Parameters
    ----------
    seeds : sequence of int, optional
        Default: the scenario's seed. With several, the ratios come with 95% intervals over seeds.
    scenario, overrides, out, on
        As for `run`; without `out` the folders vanish with the returned object.

    Raises
    ------
    ScenarioError, OnRampError, KeyboardInterrupt
        As for `run`.
    """
    loaded = load(scenario, overrides, on)
    seeds = list(seeds) if seeds else [loaded.seed]
    with Stop() as stop:
        if out is None:
            temporary = tempfile.TemporaryDirectory(prefix="onramp-")
            found = _compare(loaded, Path(temporary.name), seeds, stop)
            found.temporary = temporary
        else:
            with staged(Path(out)) as stage:
                found = _compare(loaded, stage, seeds, stop)
            found = found.moved(Path(out))
    if stop.asked:
        raise KeyboardInterrupt
    return found


def _compare(scenario: Scenario, folder: Path, seeds: Sequence[int], stop: Stop) -> Comparison:
    return comparison.execute(
        scenario, folder, seeds, workers=2, stop=stop, report=lambda label, status: None
    )


def trace(
    scenario: Source,
    flows: Sequence[int],
    overrides: Overrides | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    on: str = "sim",
    threads: int | None = None,
) -> Trace:
    """Run a scenario and capture the packets of single flows at both their hosts.

    Parameters
    ----------
    flows : sequence of int
        Numbers as in the flows table; they are the same flows on both substrates.
    on : {"sim", "linux", "both"}
        Where it runs.
    scenario, overrides, seed, out, threads
        As for `run`; without `out` the folder vanishes with the returned object.

    Returns
    -------
    Trace
        Captures (pcap files, and their packets as arrays), and a result for each run.

    Raises
    ------
    ScenarioError, OnRampError, KeyboardInterrupt
        As for `run`; also if a flow is not there, or is not on TCP.
    """
    from onramp import tracing

    chosen = list(dict.fromkeys(flows))
    given = {**(overrides or {}), **({} if seed is None else {"seed": seed})}
    loaded = tracing.prepare(scenario, given, chosen, on)
    cores = threads or os.cpu_count() or 1
    with Stop() as stop:
        if out is None:
            temporary = tempfile.TemporaryDirectory(prefix="onramp-")
            tracing.execute(loaded, chosen, Path(temporary.name), threads=cores, stop=stop)
            found = tracing.Trace(temporary.name)
            found.temporary = temporary
        else:
            with staged(Path(out)) as stage:
                tracing.execute(loaded, chosen, stage, threads=cores, stop=stop)
            found = tracing.Trace(out)
    if stop.asked:
        raise KeyboardInterrupt
    return found


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
