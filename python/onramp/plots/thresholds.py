"""Gains of a forecast by threshold: how many times as long requests and flows take without On-Ramp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from onramp.metrics import number
from onramp.plots import style

if TYPE_CHECKING:
    from onramp.forecast import Forecast


def draw(forecast: Forecast) -> Figure:
    """Ratios of mean and 95th percentile with their intervals, a panel for each kind of time.

    A panel says where the replay does not fit the recording: what it shows says little.
    """
    lines = [
        line for line in forecast.rows if line.metric.sample and line.metric.statistic in ("mean", "p95")
    ]
    samples = list(dict.fromkeys(line.metric.sample for line in lines if line.metric.sample != "all"))
    figure, axes = style.panels(1, max(len(samples), 1), (2.4, 2.6), sharey=True)
    for axis, sample in zip(axes, samples, strict=False):
        for shift, line in enumerate(line for line in lines if line.metric.sample == sample):
            far = forecast.unfaithful.get(sample or "")
            axis.set_title(line.metric.group + (f"\nreplay {number(far)}× the recording" if far else ""))
            rows = [line.with_.get(t) for t in forecast.comparisons]
            points = [
                (place + 0.2 * shift - 0.1, row.ratio, row.interval or (row.ratio, row.ratio))
                for place, row in enumerate(rows)
                if row and row.ratio
            ]
            axis.errorbar(
                [x for x, _, _ in points],
                [y for _, y, _ in points],
                [
                    [max(0.0, y - low) for _, y, (low, _) in points],
                    [max(0.0, high - y) for _, y, (_, high) in points],
                ],
                fmt="o",
                color=(style.WITH, style.INK)[shift % 2],
                label=line.metric.label,
            )
        axis.axhline(1, color=style.WITHOUT, linewidth=1)
        axis.set_xticks(range(len(forecast.comparisons)), list(forecast.comparisons))
        axis.set_xlim(-0.5, len(forecast.comparisons) - 0.5)
        axis.set_xlabel("threshold T")
    axes[0].set_yscale("log")
    axes[0].set_ylabel("without over with On-Ramp")
    style.log_ticks(axes[0].yaxis)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2)
    return figure
