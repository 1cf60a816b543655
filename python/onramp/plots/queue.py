"""Queues, measured one-way delays and congestion windows over time."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from onramp.plots import style
from onramp.result import Result

#: At most this many panels; the first ones by name.
MOST = 6
#: Name, scale and unit of a panel, by kind of series.
SHOWN = {
    "queue": ("Queue", 1e-3, "KB"),
    "owd": ("One-way delay", 1e-3, "µs"),
    "cwnd": ("Congestion window of", 1, "packets"),
}


def draw(sides: Mapping[str, Result]) -> Figure | None:
    """One panel per recorded queue, delay or window, one line per side; None if none was recorded."""
    names = sorted({n for r in sides.values() for n in r.series_names if n.partition(" ")[0] in SHOWN})
    names = names[:MOST]
    if not names:
        return None
    figure, axes = style.panels(len(names), 1, (7.2, 2.1), sharex=True)
    for ax, name in zip(axes, names, strict=True):
        kind, point = name.split(" ", 1)
        title, scale, unit = SHOWN[kind]
        for i, (side, result) in enumerate(sides.items()):
            t, value = result.samples(name)
            t, value = style.envelope(t * 1e3, value * scale)
            ax.plot(t, value, color=style.colour(side, i), lw=1, label=side)
        ax.set_title(f"{title} {point}")
        ax.set_ylabel(unit)
        ax.set_ylim(bottom=min(0, ax.get_ylim()[0]))
    axes[-1].set_xlabel("time (ms)")
    if len(sides) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure
