"""Completion times as bars: the mean, with a whisker to the 95th percentile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp import groups
from onramp.plots import style
from onramp.result import Result
from onramp.summary import Summary, times

#: (mean, p95) in microseconds; None where nothing completed.
Bar = tuple[float | None, float | None]

#: Panels of requests and of flows by size; `titles` has those of all groups of a run.
TITLES = {
    "incast": "Incast RCT",
    "small": "FCT, small (≤ 10 KB)",
    "medium": "FCT, medium (≤ 1 MB)",
    "large": "FCT, large (> 1 MB)",
    "all": "FCT, all",
}


def titles(summary: Summary) -> dict[str, str]:
    """Panels of a run: its groups, then flows by size."""
    return {group.key: group.label for group in groups.of_summary(summary)} | {
        panel: title for panel, title in TITLES.items() if panel != "all"
    }


def bar(summary: Summary, panel: str) -> Bar:
    """Mean and 95th percentile of one of a run's `titles`, or of "all" flows."""
    of = times(summary, panel)
    return of.get("mean"), of.get("p95")


def draw(sides: Mapping[str, Result]) -> Figure | None:
    """RCT and FCT by size class, one bar per side; None if nothing completed."""
    named = titles(next(iter(sides.values())).summary)
    shown = [p for p in named if any(bar(r.summary, p)[0] for r in sides.values())]
    if not shown:
        return None
    figure, axes = style.panels(1, len(shown), (2.1, 2.9))
    for ax, name in zip(axes, shown, strict=True):
        pairs = {side: [bar(r.summary, name)] for side, r in sides.items()}
        panel(ax, [""], pairs, ratio=True)
        ax.set_title(named[name], fontsize=9)
    axes[0].set_ylabel("µs (bar: mean, whisker: p95)")
    if len(sides) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def panel(
    ax: Axes, labels: Sequence[str], sides: Mapping[str, Sequence[Bar]], *, ratio: bool = False
) -> None:
    """Groups of bars on a log axis, one bar per side in each group.

    Parameters
    ----------
    ratio : bool
        Write first over last side's mean above each group.
    """
    width = 0.8 / len(sides)
    x = np.arange(len(labels))
    for i, (side, values) in enumerate(sides.items()):
        mean = np.array([np.nan if m is None else m for m, _ in values], dtype=float)
        p95 = np.array([np.nan if p is None else p for _, p in values], dtype=float)
        at = x + (i - (len(sides) - 1) / 2) * width
        colour = style.colour(side, i)
        ax.bar(at, mean, width * 0.92, color=colour, label=side)
        ax.vlines(at, mean, p95, color=style.INK, lw=1)
        ax.plot(at, p95, "_", color=style.INK, ms=7)
    everything = [v for values in sides.values() for pair in values for v in pair if v]
    low, high = min(everything, default=1), max(everything, default=10)
    ax.set_yscale("log")
    ax.set_ylim(low / 2.2, high * (2.2 if ratio else 1.6))
    style.log_ticks(ax.yaxis)
    ax.set_xticks(x, labels)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(labels) - 0.4)
    if ratio and len(sides) == 2:
        first, last = sides.values()
        for i, ((before, top), (after, top2)) in enumerate(zip(first, last, strict=True)):
            if before and after:
                height = max(v for v in (before, after, top, top2) if v is not None)
                ax.annotate(
                    f"{before / after:.2f}×",
                    (float(i), height),
                    (0, 6),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                    fontweight="bold",
                )
