"""Queues, measured one-way delays and congestion windows over time, which a brush below them zooms."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt

from onramp.charts import style
from onramp.plots.queue import MOST, SHOWN
from onramp.plots.style import envelope
from onramp.result import Result

#: Stretches of which a line has the smallest and the largest value.
_STRETCHES = 600


def draw(sides: Mapping[str, Result]) -> alt.TopLevelMixin | None:
    """One panel per recorded queue, delay or window, one line per side; None if none was recorded."""
    names = sorted({n for r in sides.values() for n in r.series_names if n.partition(" ")[0] in SHOWN})[:MOST]
    if not names:
        return None
    shown = style.one_side()
    brush = alt.selection_interval(encodings=["x"], name="stretch")
    panels = []
    for name in names:
        kind, point = name.split(" ", 1)
        title, scale, unit = SHOWN[kind]
        rows = []
        for side, result in sides.items():
            times, values = result.samples(name)
            times, values = envelope(times * 1e3, values * scale, _STRETCHES)
            rows += [
                {"side": side, "ms": ms, "value": value}
                for ms, value in zip(times.tolist(), values.tolist(), strict=True)
            ]
        line = (
            alt.Chart(style.data(rows), width=760, height=130, title=f"{title} {point}")
            .mark_line(strokeWidth=1, clip=True)
            .encode(
                x=alt.X("ms:Q", title="time (ms)", scale=alt.Scale(domain=brush, nice=False)),
                y=alt.Y("value:Q", title=unit),
                color=style.colour(sides),
                opacity=style.faded(shown, 1),
                tooltip=[
                    alt.Tooltip("side:N"),
                    alt.Tooltip("ms:Q", format=".4f"),
                    alt.Tooltip("value:Q", title=unit, format=".4g"),
                ],
            )
        )
        panels.append(line)
    below = (
        panels[0]
        .properties(height=40, title="drag here to zoom")
        .encode(
            x=alt.X("ms:Q", title="time (ms)", scale=alt.Scale(nice=False)), y=alt.Y("value:Q", axis=None)
        )
        .add_params(brush, shown)
    )
    return alt.vconcat(*panels, below)
