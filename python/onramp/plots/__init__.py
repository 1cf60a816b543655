"""Plots of one run, or of the sides of a comparison: one file per kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from matplotlib.figure import Figure

from onramp.errors import OnRampError
from onramp.plots import bars, cdf, clock, links, queue, style, throughput, timeline
from onramp.result import Result

#: Sides of a comparison, or the only one, by label: results by seed.
Sides = Mapping[str, Sequence[Result]]


def _of_one_seed(draw: Callable[[Mapping[str, Result]], Figure | None]) -> Callable[[Sides], Figure | None]:
    return lambda sides: draw({side: results[0] for side, results in sides.items()})


S = TypeVar("S")
D = TypeVar("D")

KINDS: Mapping[str, Callable[[Sides], Figure | None]] = {
    "bars": bars.draw,
    "cdf": _of_one_seed(cdf.draw),
    "queue": _of_one_seed(queue.draw),
    "links": _of_one_seed(links.draw),
    "throughput": _of_one_seed(throughput.draw),
    "clock": _of_one_seed(clock.draw),
    "timeline": _of_one_seed(timeline.draw),
}


def draw(kind: str, sides: Sides) -> Figure:
    """A plot of `sides`.

    Raises
    ------
    OnRampError
        If there is no such kind, or the runs recorded nothing for it.
    """
    with style.styled():
        return drawn("plot", kind, KINDS, sides)


def drawn(what: str, kind: str, kinds: Mapping[str, Callable[[S], D | None]], sides: S) -> D:
    """The drawing of a kind, such as a plot; errors as of `draw`."""
    if kind not in kinds:
        raise OnRampError(f"{what} {kind!r}: is none of {', '.join(kinds)}")
    if (made := kinds[kind](sides)) is None:
        raise OnRampError(f"{what} {kind!r}: the run has nothing to show for it")
    return made


def save_all(sides: Sides, folder: Path, kinds: Iterable[str] = KINDS) -> list[Path]:
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
