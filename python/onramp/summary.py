"""summary.json: a run in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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


#: Kinds of traffic in which clients ask and servers answer.
EXCHANGES = ("rpc", "storage")


def statistic(values: Floats, name: str) -> float | None:
    """Mean ("mean") or exact percentile ("p95") of `values`; None without any."""
    if not len(values):
        return None
    return float(values.mean() if name == "mean" else np.percentile(values, PERCENTILES[name]))


def statistics(values: Floats) -> dict[str, float | None]:
    """Mean and percentiles of `values`."""
    return {name: statistic(values, name) for name in ("mean", *PERCENTILES)}


def background(flows: pa.Table, long: list[int]) -> pa.Table:
    """The background flows: of no request, and not of a `long` source, whose end is set beforehand."""
    is_long = pc.is_in(flows["traffic"], pa.array(long, pa.uint32()))
    return flows.filter(pc.and_(pc.is_null(flows["request"]), pc.invert(is_long)))


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
    """Statistics in microseconds of requests ("incast"), of a kind of exchange or of a size class."""
    found: Mapping[str, float | None]
    if sample == "incast":
        found = summary["incast"]["rct_us"]
    elif sample in EXCHANGES:
        found = summary.get(sample, {}).get("latency_us", {})
    else:
        found = summary["background"][sample]["fct_us"]
    return found


def of_kind(scenario: Scenario, exchanges: pa.Table, kind: str) -> pa.Table:
    """Exchanges of the sections of a kind."""
    sections = pa.array(scenario.traffic_of_kind(kind), pa.uint32())
    return exchanges.filter(pc.is_in(exchanges["traffic"], sections))


def _exchanged(scenario: Scenario, exchanges: pa.Table, kind: str) -> Summary:
    own = of_kind(scenario, exchanges, kind)
    # Those that were asked for in the time that is measured: in a steady state as many as are answered in it.
    seconds = quantity(scenario.document["duration"])
    return {
        "exchanges": len(own),
        "per_s": len(own) / seconds,
        "gbps": (pc.sum(own["bytes"]).as_py() or 0) * 8 / seconds / 1e9,
        "latency_us": statistics(microseconds(own["latency_ps"])),
    }


#: What not every run has.
PARTS = ("clock", "shaper", "shaping", "rtt_us", "order")


def summarize(
    scenario: Scenario,
    flows: pa.Table,
    requests: pa.Table,
    exchanges: pa.Table,
    counters: Mapping[str, Any],
    *,
    complete: bool,
    version: str,
    commit: str | None,
) -> Summary:
    """The summary of a run.

    Parameters
    ----------
    flows, requests, exchanges : pa.Table
        Tables of the run; of flows only `traffic`, `request`, `bytes`, `fct_ps`, `ideal_ps` are used,
        of requests `rct_ps`, of exchanges `traffic`, `bytes`, `latency_ps`.
    counters : mapping
        The engine's part: network, onramp_stats, engine, unfinished, and those of `PARTS` that are there.
    complete : bool
        False if the run was stopped before its end.
    """
    done = background(flows, scenario.traffic_of_kind("long"))
    done = done.filter(pc.is_valid(done["fct_ps"]))
    classes = {}
    for size in SIZES:
        members = in_class(done, size)
        classes[size] = {
            "flows": len(members),
            "fct_us": statistics(microseconds(members["fct_ps"])),
            "slowdown": statistics(slowdowns(members)),
        }
    return {
        "scenario": scenario.document["name"],
        "substrate": scenario.on or "sim",
        "seed": scenario.seed,
        "version": version,
        "commit": commit,
        "onramp": scenario.onramp,
        "complete": complete,
        "incast": {"requests": len(requests), "rct_us": statistics(microseconds(requests["rct_ps"]))},
        "background": classes,
        **{
            kind: _exchanged(scenario, exchanges, kind)
            for kind in EXCHANGES
            if scenario.traffic_of_kind(kind)
        },
        "network": counters["network"],
        "onramp_stats": counters["onramp_stats"],
        "engine": counters["engine"],
        "unfinished": counters["unfinished"],
        **{part: counters[part] for part in PARTS if part in counters},
    }
