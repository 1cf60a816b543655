"""Completion times as bars from zero, or as points where they differ by far: means, and 95th percentiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp import groups
from onramp.metrics import decimals, over_seeds
from onramp.plots import style
from onramp.result import Result
from onramp.summary import Summary, times


class Bar(NamedTuple):
    """Times in microseconds; None where nothing completed.

    Attributes
    ----------
    mean, p95 : float, optional
        Mean and 95th percentile; of several seeds their means.
    half : float
        Half of the 95% interval of the mean over seeds; 0 for a single seed.
    geometric : float, optional
        Geometric mean over seeds, where ratios are of those, as in tables.
    """

    mean: float | None
    p95: float | None
    half: float = 0.0
    geometric: float | None = None

    @property
    def high(self) -> float | None:
        """The highest that is drawn."""
        return None if self.mean is None else max(self.mean + self.half, self.p95 or 0)


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


def bar(summary: Summary, panel: str) -> tuple[float | None, float | None]:
    """Mean and 95th percentile of one of a run's `titles`, or of "all" flows."""
    of = times(summary, panel)
    return of.get("mean"), of.get("p95")


def over(results: Sequence[Result], panel: str) -> Bar:
    """The bar of one of the `titles` of runs with several seeds."""
    return of_seeds([bar(r.summary, panel) for r in results])


def of_seeds(times: Sequence[tuple[float | None, float | None]]) -> Bar:
    """The bar of every seed's mean and 95th percentile, of those seeds in which something completed."""
    found = [(mean, p95) for mean, p95 in times if mean]
    if not found:
        return Bar(None, None)
    means, p95s = zip(*found, strict=True)
    mean, half = over_seeds(means)
    geometric = float(np.exp(np.log(means).mean()))
    tails = [p95 for p95 in p95s if p95]
    return Bar(mean, float(np.mean(tails)) if tails else None, 0.0 if math.isnan(half) else half, geometric)


def draw(sides: Mapping[str, Sequence[Result]]) -> Figure | None:
    """RCT and FCT by size class, one bar per side; None if nothing completed."""
    named = titles(next(iter(sides.values()))[0].summary)
    pairs = {p: {side: [over(results, p)] for side, results in sides.items()} for p in named}
    shown = [p for p in named if any(bars[0].mean for bars in pairs[p].values())]
    if not shown:
        return None
    # There is room for the line below the bars where there is one panel.
    figure, axes = style.panels(1, len(shown), (max(2.1, 3.4 / len(shown)), 2.9))
    for ax, name in zip(axes, shown, strict=True):
        panel(ax, [""], pairs[name], ratio=True)
        ax.set_title(named[name], fontsize=9)
    axes[0].set_ylabel("µs")
    several = any(len(results) > 1 for results in sides.values())
    means = "means over seeds with their 95% intervals" if several else "means"
    figure.supxlabel(f"bars: {means}; dashes: 95th percentiles", fontsize=8)
    if len(sides) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def panel(
    ax: Axes,
    labels: Sequence[str],
    sides: Mapping[str, Sequence[Bar]],
    *,
    ratio: bool = False,
    log: bool = False,
) -> None:
    """Groups of bars from zero, one per side in each group, with a dash at the 95th percentile.

    Parameters
    ----------
    ratio : bool
        Write first over last side's geometric mean over seeds above each group.
    log : bool
        Points on a logarithmic axis, which has no zero for bars to stand on.
    """
    width = 0.8 / len(sides)
    x = np.arange(len(labels))
    for i, (side, values) in enumerate(sides.items()):
        mean, p95, half, _ = (np.array(column, dtype=float) for column in zip(*values, strict=True))
        at = x + (i - (len(sides) - 1) / 2) * width
        colour = style.colour(side, i)
        if log:
            ax.plot(at, mean, "o", color=colour, ms=7, label=side)
        else:
            ax.bar(at, mean, width * 0.92, color=colour, label=side)
        ax.vlines(at, mean, p95, color=style.INK, lw=1)
        ax.plot(at, p95, "_", color=style.INK, ms=7)
        # In the side's colour around a point, which stands out from the line to the tail; dark on a bar.
        ax.vlines(at, mean - half, mean + half, color=colour if log else style.INK, lw=2.5)
    _scale(ax, [v for bars in sides.values() for b in bars for v in (b.mean, b.high) if v], log)
    ax.set_xticks(x, labels)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(labels) - 0.4)
    if ratio and len(sides) == 2:
        first, last = sides.values()
        _write_ratios(ax, first, last)


def share_scale(axes: Sequence[Axes]) -> None:
    """Gives panels of bars the scale of the highest."""
    high = max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(0, high)


def _scale(ax: Axes, values: Sequence[float], log: bool) -> None:
    low, high = min(values, default=1), max(values, default=10)
    if log:
        ax.set_yscale("log")
        ax.set_ylim(low / 1.6, high * 2.2)
        style.log_ticks(ax.yaxis)
    else:
        ax.set_ylim(0, high * 1.15)


def _write_ratios(ax: Axes, first: Sequence[Bar], last: Sequence[Bar]) -> None:
    for i, (before, after) in enumerate(zip(first, last, strict=True)):
        one, other = (b.geometric or b.mean for b in (before, after))
        if one and other:
            ratio = one / other
            height = max(b.high or 0 for b in (before, after))
            ax.annotate(
                f"{ratio:.{decimals(ratio)}f}×",
                (float(i), height),
                (0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                fontweight="bold",
            )
