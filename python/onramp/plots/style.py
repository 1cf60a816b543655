"""Style that all plots share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    ScalarFormatter,
)

from onramp.folders import replacing
from onramp.summary import Floats

#: Text and axes; pages replace it by their own text colour.
INK = "#1f2933"
#: Gaps; pages replace it by their own background.
PAPER = "#fefefe"
WITHOUT, WITH = "#a3adb8", "#1c6dd0"
#: Decades below which 1, 2 and 5 may all lie outside a logarithmic axis.
NARROW = 0.5
#: For many lines or layers.
LAYERS = [
    *("#1c6dd0", "#f08c00", "#2b8a3e", "#c92a2a", "#7048e8", "#0b7285"),
    *("#74a9e8", "#f7c56b", "#8bc99a", "#ee9a9a", "#b7a3f5", "#7cc3cf"),
]

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Inter", "Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#8a94a0",
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.dpi": 110,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "onramp",
    "path.simplify_threshold": 0.5,
    **{f"{name}.color": INK for name in ("text", "xtick", "ytick")},
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
}


@contextmanager
def styled() -> Iterator[None]:
    """Matplotlib with our style, for drawing and saving."""
    # Fonts that are not installed are only names in an SVG: no warning for them.
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with matplotlib.rc_context(_STYLE):
            yield
    finally:
        logger.setLevel(level)


def panels(rows: int, columns: int, size: tuple[float, float], **kwargs: Any) -> tuple[Figure, list[Axes]]:
    """A figure of `rows` by `columns` panels, each `size` inches; the panels row by row."""
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **kwargs)
    return figure, list(axes.flat)


def save(figure: Figure, stem: Path) -> None:
    """Write `stem`.png and `stem`.svg, the same bytes for the same figure."""
    with styled():
        with replacing(stem.with_suffix(".png")) as path:
            figure.savefig(path, format="png", facecolor="white")
        with replacing(stem.with_suffix(".svg")) as path:
            figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})


def save_as(figure: Figure, path: Path) -> None:
    """Write one file, `.png` or `.svg` by its name, the same bytes for the same figure."""
    metadata: dict[str, str | None] | None = {"Date": None} if path.suffix == ".svg" else None
    with styled(), replacing(path) as target:
        figure.savefig(target, format=path.suffix[1:], facecolor="white", metadata=metadata)


def log_ticks(axis: Axis) -> None:
    """Plain numbers at 1, 2 and 5 times powers of ten, fewer if there are many, even steps within one."""
    low, high = sorted(axis.get_view_interval())
    decades = np.log10(max(high, 1e-30) / max(low, 1e-30))
    if decades < NARROW:
        axis.set_major_locator(MaxNLocator(3))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(ScalarFormatter(useOffset=False))
        return
    subs = (1.0,) if decades > 2.5 else (1.0, 3.0) if decades > 1.3 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(LogLocator(subs="all"))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}" if v >= 100 else f"{v:.3g}"))
    axis.set_minor_formatter(NullFormatter())


def colour(side: str, index: int) -> str:
    """Colour of a side of a comparison."""
    return {"without On-Ramp": WITHOUT, "with On-Ramp": WITH}.get(side, LAYERS[index % len(LAYERS)])


def envelope(x: Floats, y: Floats, bins: int = 1500) -> tuple[Floats, Floats]:
    """At most 2 · `bins` points that draw the same line: smallest and largest `y` of each stretch."""
    if len(x) <= 2 * bins:
        return x, y
    # Up to the last point, however many a stretch has.
    starts = np.arange(bins) * len(x) // bins
    ends = np.column_stack([np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)])
    return np.repeat(x[starts], 2), ends.ravel()
