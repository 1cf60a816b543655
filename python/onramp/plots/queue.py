"""Queues and measured one-way delays over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from onramp.plots import style

if TYPE_CHECKING:
    from onramp.result import Result

#: At most this many panels; the first ones by name.
MOST = 6


def draw(sides: Mapping[str, Result]) -> Figure | None:
    """One panel per recorded queue or one-way delay, one line per side; None if none was recorded."""
    names = sorted({n for r in sides.values() for n in r.series_names if n.startswith(("queue ", "owd "))})
    names = names[:MOST]
    if not names:
        return None
    figure, axes = style.panels(len(names), 1, (7.2, 2.1), sharex=True)
    for ax, name in zip(axes, names, strict=True):
        kind, point = name.split(" ", 1)
        scale, unit = {"queue": (1e-3, "KB"), "owd": (1e-3, "µs")}[kind]
        for i, (side, result) in enumerate(sides.items()):
            t, value = result.samples(name)
            t, value = style.envelope(t * 1e3, value * scale)
            ax.plot(t, value, color=style.colour(side, i), lw=1, label=side)
        ax.set_title({"queue": f"Queue {point}", "owd": f"One-way delay {point}"}[kind])
        ax.set_ylabel(unit)
        ax.set_ylim(bottom=min(0, ax.get_ylim()[0]))
    axes[-1].set_xlabel("time (ms)")
    if len(sides) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure
