"""Every request and flow as a point: when it began and how long it took. The slowest say which they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onramp.charts import style
from onramp.plots.bars import TITLES
from onramp.result import Result
from onramp.summary import SIZES, background, in_class

#: Points of a panel and side: the slowest tenth of these, and others at random, by a draw of its own.
MOST = 600

#: Columns that a point tells, where its table has them, and their titles.
_TOLD = {
    "id": "id",
    "number": "number",
    "src": "from host",
    "dst": "to host",
    "client": "client",
    "server": "server",
    "requester": "requester",
    "bytes": "bytes",
    "flows": "flows",
    "retransmitted": "retransmitted",
    "timeouts": "timeouts",
}


def draw(sides: Mapping[str, Result]) -> alt.TopLevelMixin | None:
    """One panel per group of requests and size class of flows; None if nothing completed."""
    shown = style.one_side()
    panels: list[alt.Chart | alt.LayerChart] = []
    for title, tables in _panels(sides).items():
        rows = [row for side, (table, time) in tables.items() for row in _points(side, table, time)]
        if not rows:
            continue
        told = [alt.Tooltip(f"{name}:N", title=label) for name, label in _TOLD.items() if name in rows[0]]
        panels.append(
            alt.Chart(style.data(rows), title=title, width=400, height=200)
            .mark_point(size=24, strokeWidth=1)
            .encode(
                x=alt.X("ms:Q", title="began at (ms)", scale=alt.Scale(nice=False, padding=8)),
                y=alt.Y("us:Q", scale=alt.Scale(type="log", nice=False, padding=8), title="µs"),
                color=style.colour(sides),
                opacity=style.faded(shown, 0.8),
                tooltip=[alt.Tooltip("side:N"), alt.Tooltip("time:N", title="took"), *told],
            )
            .add_params(*style.handles(len(panels), shown))
        )
    return alt.concat(*panels, columns=2) if panels else None


def _panels(sides: Mapping[str, Result]) -> dict[str, dict[str, tuple[pa.Table, str]]]:
    """Tables and their columns of times, by panel and side."""
    found: dict[str, dict[str, tuple[pa.Table, str]]] = {}
    for side, result in sides.items():
        for group in result.scenario.groups:
            found.setdefault(group.label, {})[side] = (result.rows(group), group.time)
        flows = background(result.flows, result.scenario.endless)
        for size in SIZES:
            if size in TITLES and size != "all":
                found.setdefault(TITLES[size], {})[side] = (in_class(flows, size), "fct_ps")
    return found


def _points(side: str, table: pa.Table, time: str) -> list[dict[str, Any]]:
    done = table.filter(pc.is_valid(table[time]))
    took = np.asarray(done[time], float)
    if len(took) > MOST:
        order = np.argsort(took, kind="stable")
        slowest, others = order[-MOST // 10 :], order[: -MOST // 10]
        drawn = np.random.default_rng(0).choice(others, MOST - len(slowest), replace=False)
        done = done.take(pa.array(np.sort(np.concatenate([drawn, slowest]))))
    told = [name for name in _TOLD if name in done.column_names]
    rows = []
    for row in done.select(["start_ps", time, *told]).to_pylist():
        us = row[time] / 1e6
        rows.append(
            {
                "side": side,
                "ms": row["start_ps"] / 1e9,
                "us": us,
                "time": style.text(us),
                # As text: numbers of 64 bits are more than a browser's.
                **{name: f"{row[name]}" for name in told},
            }
        )
    return rows
