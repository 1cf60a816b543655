"""Errors of the hosts' clocks over time, where they were synchronised over the network."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from onramp.plots import style
from onramp.result import Result

#: Up to here the axis is linear: nanoseconds.
LINEAR = 100


def draw(sides: Mapping[str, Result]) -> Figure | None:
    """One panel per side, one line per host; None if no clocks were synchronised."""
    synchronised = {side: r for side, r in sides.items() if (r.folder / "clock.parquet").is_file()}
    if not synchronised:
        return None
    figure, axes = style.panels(len(synchronised), 1, (7.2, 2.6), sharex=True)
    for ax, (side, result) in zip(axes, synchronised.items(), strict=True):
        table = result.clock
        times, row = np.unique(np.asarray(table["time_ps"]), return_inverse=True)
        hosts, column = np.unique(np.asarray(table["host"]), return_inverse=True)
        # Where a clock is not known, its line has a gap.
        errors, doubts = np.full((2, len(times), len(hosts)), np.nan)
        errors[row, column] = np.asarray(table["error_ns"])
        doubts[row, column] = np.asarray(table["uncertainty_ns"])
        errors -= np.nanmedian(errors, axis=1, keepdims=True)
        t, doubt = times / 1e12, np.nanmedian(doubts, axis=1)
        reported = "±1σ as reported, median"
        ax.fill_between(t, -doubt, doubt, color=style.WITHOUT, alpha=0.45, lw=0, label=reported)
        for i in range(len(hosts)):
            label = "a host" if i == 0 else None
            ax.plot(t, errors[:, i], color=style.WITH, lw=0.7, alpha=0.6, label=label)
        ax.set_yscale("symlog", linthresh=LINEAR)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
        ax.set(ylabel="clock error (ns)", title=f"Clocks, {side}" if len(sides) > 1 else "Clocks")
    axes[-1].set_xlabel("time (s)")
    axes[0].legend(fontsize=7.5, ncols=2, loc="upper right")
    return figure
