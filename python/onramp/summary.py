"""summary.json: a run in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from onramp import programs, tables
from onramp.groups import Group
from onramp.scenario import Scenario, quantity

Summary = dict[str, Any]
Floats = NDArray[np.float64]

#: Size classes of background flows: name to (bytes above, bytes up to).
SIZES: Mapping[str, tuple[float, float]] = {
    "small": (-1.0, 10e3),
    "medium": (10e3, 1e6),
    "large": (1e6, np.inf),
    "all": (-1.0, np.inf),
}

PERCENTILES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}


def statistic(values: Floats, name: str) -> float | None:
    """Mean ("mean") or exact percentile ("p95") of `values`; None without any."""
    if not len(values):
        return None
    return float(values.mean() if name == "mean" else np.percentile(values, PERCENTILES[name]))


def statistics(values: Floats) -> dict[str, float | None]:
    """Mean and percentiles of `values`."""
    return {name: statistic(values, name) for name in ("mean", *PERCENTILES)}


def background(flows: pa.Table, endless: list[int]) -> pa.Table:
    """Flows of no request, nor of an `endless` section: those end when the scenario says."""
    is_endless = pc.is_in(flows["traffic"], pa.array(endless, pa.uint32()))
    return flows.filter(pc.and_(pc.is_null(flows["request"]), pc.invert(is_endless)))


def in_class(flows: pa.Table, size: str) -> pa.Table:
    """Flows of one of `SIZES`."""
    above, up_to = SIZES[size]
    return flows.filter(pc.and_(pc.greater(flows["bytes"], above), pc.less_equal(flows["bytes"], up_to)))


def microseconds(column: pa.ChunkedArray) -> Floats:
    """A column of picoseconds in microseconds, without nulls, shape (n,)."""
    return np.asarray(column.drop_null().to_numpy(), dtype=np.float64) / 1e6


def slowdowns(flows: pa.Table) -> Floats:
    """FCT over the ideal FCT of finished flows, at least 1, shape (n,)."""
    done = flows.filter(pc.is_valid(flows["fct_ps"]))
    ratio: Floats = done["fct_ps"].to_numpy() / np.maximum(done["ideal_ps"].to_numpy(), 1)
    return np.maximum(1.0, ratio)


def times(summary: Summary, sample: str) -> Mapping[str, float | None]:
    """Statistics in microseconds of a size class, or of a group by its key."""
    found: Mapping[str, float | None]
    if sample in SIZES:
        found = summary["background"][sample]["fct_us"]
    else:
        part = summary.get(sample, {})
        found = next((value for key, value in part.items() if key.endswith("_us")), {})
    return found


def _grouped(group: Group, rows: pa.Table, seconds: float, operations: pa.Table | None) -> Summary:
    """A group's part of the summary; of programs, with their operations."""
    rates = {}
    if group.rates:
        # Of what begins in the time that is measured: in a steady state as much ends in it.
        gbps = (pc.sum(rows["bytes"]).as_py() or 0) * 8 / seconds / 1e9
        columns = [key for key, _, _ in group.rates if key in rows.column_names]
        # A collective of a single rank sends nothing, and has no bandwidth.
        several = rows if operations is None else rows.filter(pc.greater(rows["ranks"], 1))
        rates = {key: pc.mean(several[key]).as_py() for key in columns}
        rates = rates or {"per_s": len(rows) / seconds, "gbps": gbps}
    if operations is not None:
        every = programs.iterations(operations)
        rates["iteration_ms"] = float(np.mean([one.duration_us for one in every])) / 1e3 if every else None
        rates["exposed"] = float(np.mean([one.exposed for one in every])) if every else None
        rates["kinds"] = [asdict(kind) for kind in programs.kinds(operations, rows)]
    return {
        group.table: len(rows),
        **rates,
        group.statistics: statistics(microseconds(rows[group.time])),
    }


def _long(rows: pa.Table) -> Summary:
    """The part of flows without an end of their own: how many, what they move, how evenly (Jain's index)."""
    rates: Floats = 8e3 * np.asarray(rows["bytes"], float) / np.asarray(rows["duration_ps"], float)
    square = len(rates) * float((rates**2).sum())
    return {
        "flows": len(rates),
        "goodput_gbps": statistics(rates),
        "gbps": float(rates.sum()),
        "jain": float(rates.sum()) ** 2 / square if square else None,
    }


#: Parts that not every run has.
PARTS = ("clock", "shaper", "shaping", "rtt_us", "order")


def summarize(
    scenario: Scenario,
    folder: Path,
    counters: Mapping[str, Any],
    *,
    complete: bool,
    digest: str,
    version: str,
    commit: str | None,
    hashes: Mapping[str, str | None],
) -> Summary:
    """The summary of a run.

    Parameters
    ----------
    folder : path
        Where its tables are.
    counters : mapping
        The engine's part: network, onramp_stats, engine, unfinished, and those of `PARTS` that are there.
    complete : bool
        False if the run was stopped before its end.
    digest : str
        `Scenario.digest` of what was run.
    hashes : mapping
        SHA-256 of scenario, input files and tables, by their paths in the folder.
    """
    flows = tables.read(folder, "flows", ["traffic", "request", "bytes", "fct_ps", "ideal_ps"])
    done = background(flows, scenario.endless)
    done = done.filter(pc.is_valid(done["fct_ps"]))
    classes = {}
    for size in SIZES:
        members = in_class(done, size)
        classes[size] = {
            "flows": len(members),
            "fct_us": statistics(microseconds(members["fct_ps"])),
            "slowdown": statistics(slowdowns(members)),
        }
    seconds = quantity(scenario.document["duration"])
    grouped = {}
    for group in scenario.groups:
        of_programs = group.table == "collectives"
        named = ("kind", "ranks") if of_programs else ()
        told = [key for key, _, _ in group.rates if key in tables.SCHEMAS[group.table].names]
        table = tables.read(folder, group.table, ["traffic", "bytes", group.time, *told, *named])
        operations = group.rows(tables.read(folder, "operations")) if of_programs else None
        if operations is not None and not (complete and not counters["unfinished"].get("exchanges")):
            operations = programs.ended(operations)
        grouped[group.key] = _grouped(group, group.rows(table), seconds, operations)
    long = tables.read(folder, "goodput")
    return {
        "scenario": scenario.document["name"],
        "substrate": scenario.on or "sim",
        "seed": scenario.seed,
        "digest": digest,
        "version": version,
        "commit": commit,
        "sha256": hashes,
        "onramp": scenario.onramp,
        "complete": complete,
        **grouped,
        **({"long": _long(long)} if len(long) else {}),
        "background": classes,
        "groups": [group.to_json() for group in scenario.groups],
        "network": counters["network"],
        "onramp_stats": counters["onramp_stats"],
        "engine": counters["engine"],
        "unfinished": counters["unfinished"],
        **{part: counters[part] for part in PARTS if part in counters},
    }
