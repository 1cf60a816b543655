"""Colours, legends and handles that all charts share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import altair as alt

from onramp.plots import style


def colour(sides: Iterable[str]) -> alt.Color:
    """The colour of each side, as in plots; a click in the legend shows one side alone."""
    names = list(sides)
    colours = [style.colour(side, i) for i, side in enumerate(names)]
    legend = alt.Legend(orient="top", title=None) if len(names) > 1 else None
    return alt.Color("side:N", scale=alt.Scale(domain=names, range=colours), legend=legend)


def data(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Rows inside the chart, however many."""
    return alt.InlineData(values=rows)


def one_side() -> alt.Parameter:
    """The side that was clicked in the legend."""
    return alt.selection_point(name="shown", fields=["side"], bind="legend")


def handles(panel: int, shown: alt.Parameter) -> list[alt.Parameter]:
    """Parameters of a panel by its number: each zooms by itself, the first has the shared legend."""
    zoom = alt.selection_interval(bind="scales", name=f"zoom_{panel}")
    return [zoom, shown] if panel == 0 else [zoom]


def faded(shown: alt.Parameter, opacity: float) -> Any:
    """Opacity of a mark: that of sides that are not `shown` is little."""
    return alt.when(shown).then(alt.value(opacity)).otherwise(alt.value(0.08))


def text(time_us: float) -> str:
    """A time in microseconds with the unit that one would say."""
    for factor, unit in ((1e6, "s"), (1e3, "ms")):
        if time_us >= factor:
            return f"{time_us / factor:.4g} {unit}"
    return f"{time_us:.4g} µs"
