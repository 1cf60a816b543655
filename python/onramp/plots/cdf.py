"""Completion times as distributions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from onramp.plots import style
from onramp.plots.bars import titles
from onramp.result import Result
from onramp.summary import SIZES, Floats, background, in_class, microseconds


def draw(sides: Mapping[str, Result]) -> Figure | None:
    """One panel per kind of completion time, one line per side; None if nothing completed."""
    times = {side: completion_times(result) for side, result in sides.items()}
    named = titles(next(iter(sides.values())).summary)
    # A logarithmic axis has no place for times of 0: those of collectives of a single rank.
    shown = [p for p in named if any((t[p] > 0).any() for t in times.values())]
    if not shown:
        return None
    figure, axes = style.panels(1, len(shown), (2.3, 2.7), sharey=True)
    for ax, name in zip(axes, shown, strict=True):
        for i, (side, t) in enumerate(times.items()):
            x, share = cdf(t[name])
            ax.step(x, share, where="post", color=style.colour(side, i), label=side, lw=1.6)
        ax.set(xscale="log", ylim=(0, 1.01))
        style.log_ticks(ax.xaxis)
        ax.set_title(named[name], fontsize=9)
        ax.set_xlabel("µs")
    axes[0].set_ylabel("share completed within")
    if len(sides) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def completion_times(result: Result) -> dict[str, Floats]:
    """Times in microseconds by panel."""
    flows = background(result.flows, result.scenario.endless)
    grouped = {group.key: microseconds(result.rows(group)[group.time]) for group in result.scenario.groups}
    return grouped | {size: microseconds(in_class(flows, size)["fct_ps"]) for size in SIZES}


def cdf(values: Floats, points: int = 400) -> tuple[Floats, Floats]:
    """At most `points` points of the distribution of `values`, denser towards its ends."""
    values = np.sort(values)
    n = len(values)
    if n > points:
        share = (1 - np.cos(np.linspace(0, np.pi, points))) / 2
        index = np.unique((share * (n - 1)).astype(int))
    else:
        index = np.arange(n)
    if n == 0:
        return values, values
    return np.append(values[0], values[index]), np.append(0.0, (index + 1) / n)
