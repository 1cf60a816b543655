"""What a forecast gains, by threshold: how many times as long requests and flows take without On-Ramp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from onramp.plots import style

if TYPE_CHECKING:
    from onramp.forecast import Forecast


def draw(forecast: Forecast) -> Figure:
    """Ratios of mean and 95th percentile with their intervals, a panel for each kind of time."""
    lines = [
        line for line in forecast.rows if line.metric.sample and line.metric.statistic in ("mean", "p95")
    ]
    samples = list(dict.fromkeys(line.metric.sample for line in lines if line.metric.sample != "all"))
    figure, axes = style.panels(1, max(len(samples), 1), (2.4, 2.6), sharey=True)
    places = range(len(forecast.comparisons))
    for axis, sample in zip(axes, samples, strict=False):
        for shift, line in enumerate(line for line in lines if line.metric.sample == sample):
            axis.set_title(line.metric.group)
            rows = [line.with_.get(t) for t in forecast.comparisons]
            shown = [
                (place + 0.2 * shift - 0.1, row)
                for place, row in zip(places, rows, strict=True)
                if row and row.ratio
            ]
            x = [place for place, _ in shown]
            y = [row.ratio for _, row in shown]
            errors = [
                [row.ratio - row.interval[0] if row.interval else 0 for _, row in shown],
                [row.interval[1] - row.ratio if row.interval else 0 for _, row in shown],
            ]
            colour = (style.WITH, style.INK)[shift % 2]
            axis.errorbar(
                x,
                y,
                [[max(e, 0) for e in side] for side in errors],
                fmt="o",
                color=colour,
                label=line.metric.label,
            )
        axis.axhline(1, color=style.WITHOUT, linewidth=1)
        axis.set_xticks(list(places), list(forecast.comparisons))
        axis.set_xlim(-0.5, len(forecast.comparisons) - 0.5)
        axis.set_xlabel("threshold T")
    axes[0].set_yscale("log")
    axes[0].set_ylabel("without over with On-Ramp")
    style.log_ticks(axes[0].yaxis)
    axes[0].legend()
    return figure
