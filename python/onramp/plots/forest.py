"""Equivalence tests as a forest plot: ratios with their intervals, and the margins behind them."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from onramp.agreement import SIDES
from onramp.equivalence import MARGINS, Test
from onramp.plots import style

COLOURS = {"equivalent": style.WITH, "different": "#c92a2a", "inconclusive": style.WITHOUT}
TITLES = {
    "waits": "share that waits for a timer",
    **{name: f"{name} of the rest" for name in ("mean", "p95", "p99")},
}


def draw(found: Sequence[Test]) -> Figure:
    """A panel for each statistic, a line for each transport, side and sample."""
    names = list(dict.fromkeys((test.transport, test.side, test.sample) for test in found))
    place = {name: -i for i, name in enumerate(names)}
    # Titles and legend leave no room in a lower figure.
    figure, axes = style.panels(1, len(MARGINS), (2.4, max(1.6, 0.8 + 0.17 * len(names))))
    for ax, (statistic, margin) in zip(axes, MARGINS.items(), strict=True):
        ax.axvspan(1 - margin, 1 + margin, color=style.INK, alpha=0.08, linewidth=0)
        ax.axvline(1, color=style.INK, linewidth=0.6)
        for test in found:
            if test.statistic != statistic or test.ratio is None:
                continue
            y, colour = place[test.transport, test.side, test.sample], COLOURS[test.verdict]
            if test.interval is not None:
                ax.plot(test.interval, [y, y], color=colour, linewidth=1.2)
            ax.plot([test.ratio], [y], "o", color=colour, markersize=3)
        # What is far off is at the edge, with its number in the table.
        ax.set_xlim(1 - 3 * margin, 1 + 3 * margin)
        ax.set_yticks([])
        ax.set_title(f"{TITLES[statistic]}, ±{margin:.0%}", fontsize=8)
        ax.set_xlabel("simulator / Linux")
    handles = [
        Line2D([], [], color=colour, marker="o", markersize=3, label=verdict)
        for verdict, colour in COLOURS.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    axes[0].set_yticks(
        list(place.values()), [f"{t}, {SIDES[side]}, {sample}" for t, side, sample in names], fontsize=6
    )
    return figure
