"""Completion times as distributions: a point says which share took how long."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt

from onramp.charts import style
from onramp.plots.bars import titles
from onramp.plots.cdf import cdf, completion_times
from onramp.result import Result


def draw(sides: Mapping[str, Result]) -> alt.TopLevelMixin | None:
    """One panel per kind of completion time, one line per side; None if nothing completed."""
    times = {side: completion_times(result) for side, result in sides.items()}
    named = titles(next(iter(sides.values())).summary)
    shown = style.one_side()
    panels: list[alt.Chart | alt.LayerChart] = []
    for name, title in named.items():
        rows = [
            {"side": side, "us": us, "time": style.text(us), "share": share}
            for side, by_name in times.items()
            for us, share in zip(*(a.tolist() for a in cdf(by_name[name], 200)), strict=True)
        ]
        if not rows:
            continue
        lines = (
            alt.Chart(style.data(rows), title=title, width=190, height=190)
            .mark_line(interpolate="step-after")
            .encode(
                x=alt.X(
                    "us:Q", scale=alt.Scale(type="log", nice=False), title="µs", axis=alt.Axis(tickCount=5)
                ),
                y=alt.Y("share:Q", title="share completed within" if not panels else ""),
                color=style.colour(sides),
                opacity=style.faded(shown, 1),
            )
        )
        points = lines.mark_circle(size=60).encode(
            opacity=alt.value(0),
            tooltip=[
                alt.Tooltip("side:N"),
                alt.Tooltip("share:Q", title="share", format=".2%"),
                alt.Tooltip("time:N", title="completed within"),
            ],
        )
        panels.append(lines.add_params(*style.handles(len(panels), shown)) + points)
    return alt.hconcat(*panels) if panels else None
