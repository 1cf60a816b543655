"""Bandwidths and times of collectives, and bars of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from onramp.paper.verdict import Estimate
from onramp.plots import style
from onramp.result import Result


def bandwidth(result: Result) -> float:
    """Mean bandwidth on the bus in GB/s, as nccl-tests have it."""
    return float(result.summary["collective"]["busbw"])


def iteration(result: Result) -> float:
    """Time until the slowest collective of an iteration is done, in milliseconds."""
    return float(result.summary["collective"]["iteration_ms"])


def bars(ax: Axes, values: Mapping[str, Estimate], title: str, colours: Sequence[str] | str) -> None:
    """A horizontal bar for each value, with its interval and its number."""
    mean, half = ([getattr(value, part) for value in values.values()] for part in ("mean", "half"))
    ax.barh(range(len(values)), mean, 0.7, color=colours)
    ax.errorbar(
        mean,
        range(len(values)),
        xerr=np.nan_to_num(half),
        fmt="none",
        ecolor=style.INK,
        elinewidth=0.9,
        capsize=2,
    )
    for at, value in enumerate(values.values()):
        end = value.mean + float(np.nan_to_num(value.half))
        ax.annotate(
            f"{value.mean:.3g}", (end, at), (3, 0), textcoords="offset points", va="center", fontsize=7.5
        )
    ax.set_yticks(range(len(values)), list(values))
    ax.tick_params(axis="y", length=0, labelsize=8)
    ax.set_xlim(0, 1.15 * ax.get_xlim()[1])
    ax.invert_yaxis()
    ax.set_title(title, fontsize=9)
