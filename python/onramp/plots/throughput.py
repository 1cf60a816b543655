"""The throughput of each long flow, stacked."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.plots import style
from onramp.result import Result
from onramp.summary import Floats


def draw(sides: Mapping[str, Result]) -> Figure | None:
    """One panel per side; None if no flow's rate was recorded."""
    if not any(n.startswith("rate flow ") for r in sides.values() for n in r.series_names):
        return None
    figure, axes = style.panels(len(sides), 1, (7.2, 2.4), sharex=True, sharey=True)
    for ax, (side, result) in zip(axes, sides.items(), strict=True):
        t, rates = flow_rates(result)
        stack(ax, t, rates)
        ax.set_title(f"Throughput by flow, {side}" if side else "Throughput by flow")
        ax.set_ylabel("Gb/s")
    axes[-1].set_xlabel("time (ms)")
    return figure


def flow_rates(result: Result) -> tuple[Floats, Floats]:
    """Times in seconds, shape (n,), and rates in bit/s, shape (flows, n), by flow number."""
    names = [n for n in result.series_names if n.startswith("rate flow ")]
    names.sort(key=lambda name: int(re.findall(r"\d+", name)[0]))
    samples = [result.samples(name) for name in names]
    times = np.unique(np.concatenate([t for t, _ in samples]))
    rates = np.zeros((len(names), len(times)))
    for row, (t, rate) in zip(rates, samples, strict=True):
        row[np.searchsorted(times, t)] = rate
    return times, rates


def stack(ax: Axes, seconds: Floats, rates: Floats, bins: int = 600) -> None:
    """Layers of throughput in Gb/s over milliseconds, averaged over at most `bins` stretches."""
    n = max(1, len(seconds) // bins)
    whole = len(seconds) // n * n
    t = seconds[:whole].reshape(-1, n)[:, 0]
    layers = rates[:, :whole].reshape(len(rates), -1, n).mean(axis=2)
    colours = [style.LAYERS[i % len(style.LAYERS)] for i in range(len(rates))]
    ax.stackplot(t * 1e3, layers / 1e9, colors=colours, lw=0)
    ax.set_ylim(bottom=0)
