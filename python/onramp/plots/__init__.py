"""Plots of one run, or of the sides of a comparison: one file per kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from onramp.errors import OnRampError
from onramp.plots import bars, cdf, clock, queue, style, throughput
from onramp.result import Result

KINDS: Mapping[str, Callable[[Mapping[str, Result]], Figure | None]] = {
    "bars": bars.draw,
    "cdf": cdf.draw,
    "queue": queue.draw,
    "throughput": throughput.draw,
    "clock": clock.draw,
}


def draw(kind: str, sides: Mapping[str, Result]) -> Figure:
    """A plot of `sides`, label to result.

    Raises
    ------
    OnRampError
        If there is no such kind, or the runs recorded nothing for it.
    """
    if kind not in KINDS:
        raise OnRampError(f"plot {kind!r}: is none of {', '.join(KINDS)}")
    with style.styled():
        figure = KINDS[kind](sides)
    if figure is None:
        raise OnRampError(f"plot {kind!r}: the run has nothing to show for it")
    return figure


def save_all(sides: Mapping[str, Result], folder: Path, kinds: Iterable[str] = KINDS) -> list[Path]:
    """Write every plot of these kinds that has something to show as PNG and SVG; the SVG files."""
    folder.mkdir(exist_ok=True)
    written = []
    for kind in kinds:
        with style.styled():
            figure = KINDS[kind](sides)
        if figure is not None:
            style.save(figure, folder / kind)
            written.append(folder / f"{kind}.svg")
    return written
