"""Utilisation of links as heat maps: one for each kind of link and direction, a row for each switch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from onramp.pages import heat
from onramp.plots import style
from onramp.result import Result
from onramp.summary import Floats

#: Rows and columns of a map at most; with more, neighbours share a cell, which has the busiest of them.
ROWS, COLUMNS = 64, 96
#: Kinds of links at most, those with most links.
KINDS = 8
#: Rows that have a name, at most.
NAMED = 8

#: A link: its other end, utilisation, and whether it lost packets.
Link = tuple[int, float, bool]


@dataclass
class Map:
    """Links from nodes of one tier to those of another: by node of the upper tier, which has a row."""

    title: str
    rows: dict[int, list[Link]] = field(default_factory=lambda: defaultdict(list))


def draw(sides: Mapping[str, Result]) -> Figure | None:
    """Two maps for each kind of link, one for each direction, of each side; None without links."""
    shown = {side: maps(r) for side, r in sides.items() if len(r.links)}
    if not shown:
        return None
    pairs = [(side, names, pair) for side, (names, pairs) in shown.items() for pair in pairs]
    heights = [0.5 + 0.025 * min(len(pair[0].rows), ROWS) for _, _, pair in pairs]
    figure = Figure(figsize=(7.2, sum(heights) + 0.3 * len(pairs) + 0.7), layout="constrained")
    axes = figure.subplots(len(pairs), 2, squeeze=False, sharey="row", height_ratios=heights)
    colours = LinearSegmentedColormap.from_list("heat", [(at, [c / 255 for c in rgb]) for at, *rgb in heat()])
    # Up to the busiest: a run that ends with one slow flow uses little of all links.
    links = [link for _, _, pair in pairs for one in pair for row in one.rows.values() for link in row]
    most, lossy = max(share for _, share, _ in links), any(lost for *_, lost in links)
    norm = Normalize(0, max(100 * most, 0.1))
    for (side, names, pair), panels in zip(pairs, axes, strict=True):
        for ax, one in zip(panels, pair, strict=False):
            _map(ax, one, names, (norm, colours), side if len(shown) > 1 else "")
        for ax in panels[len(pair) :]:
            ax.remove()
    bar = figure.colorbar(ScalarMappable(norm, colours), ax=axes, location="bottom", aspect=60, shrink=0.5)
    what = "utilisation (%): a row for each switch, a cell for each of its links"
    bar.set_label(what + "; dot: packets were lost" * lossy, fontsize=7)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_visible(False)
    return figure


def maps(result: Result) -> tuple[list[str], list[list[Map]]]:
    """Names of nodes, and the maps of each kind of link: towards hosts, and from them."""
    table = result.links
    ends = [table[end].to_pylist() for end in ("from", "to")]
    # Hosts come first, then one tier after the other.
    names = list(dict.fromkeys(ends[0]))
    place = {name: number for number, name in enumerate(names)}
    tiers = {tier: number for number, tier in enumerate(dict.fromkeys(map(_tier, names)))}
    losses = (np.asarray(table["drops"]) + np.asarray(table["lost"]) > 0).tolist()
    found: dict[tuple[int, int, bool], Map] = {}
    for a, b, used, loses in zip(*ends, table["utilization"].to_pylist(), losses, strict=True):
        low, high = sorted((a, b), key=lambda name: (tiers[_tier(name)], place[name]))
        down = a == high
        key = (tiers[_tier(low)], tiers[_tier(high)], not down)
        one = found.setdefault(key, Map(f"{_tier(a)} → {_tier(b)}"))
        one.rows[place[high]].append((place[low], used, loses))
    by_kind: dict[tuple[int, int], list[Map]] = defaultdict(list)
    for low, high, up in sorted(found):
        by_kind[low, high].append(found[low, high, up])
    most = sorted(by_kind, key=lambda kind: -_count(by_kind[kind]))[:KINDS]
    return names, [by_kind[kind] for kind in sorted(most)]


def _tier(name: str) -> str:
    """The name of a node without its number."""
    return name.rstrip("0123456789")


def _count(of: Iterable[Map]) -> int:
    return sum(len(row) for one in of for row in one.rows.values())


def cells(rows: Iterable[list[Link]]) -> tuple[Floats, Floats, int]:
    """Utilisation by row and place in it, nan without a link; 1 where packets were lost; rows that share one.

    Places are those of a row's links in the order of their other ends.
    """
    lines = [sorted(row) for row in rows]
    shape = (len(lines), max(map(len, lines)))
    used, loses = np.full(shape, np.nan), np.zeros(shape)
    for line, row in enumerate(lines):
        used[line, : len(row)] = [share for _, share, _ in row]
        loses[line, : len(row)] = [lost for *_, lost in row]
    together = [-(-size // most) for size, most in zip(shape, (ROWS, COLUMNS), strict=True)]
    for axis, step in enumerate(together):
        starts = np.arange(0, shape[axis], step)
        used = np.fmax.reduceat(used, starts, axis=axis)
        loses = np.maximum.reduceat(loses, starts, axis=axis)
    return used, loses, together[0]


def _map(ax: Axes, of: Map, names: list[str], scale: tuple[Normalize, Colormap], side: str) -> None:
    nodes = sorted(of.rows)
    used, loses, together = cells(of.rows[node] for node in nodes)
    # An image is as small as its cells are few, however many links they stand for.
    ax.imshow(used * 100, norm=scale[0], cmap=scale[1], aspect="auto", interpolation="nearest")
    y, x = np.nonzero(loses)
    ax.plot(x, y, linestyle="", marker="o", markersize=2.5, color="black", markeredgewidth=0)
    # Gaps between cells, where those are large enough.
    ax.set_yticks(np.arange(1, used.shape[0]) - 0.5, minor=True)
    ax.set_xticks(np.arange(1, used.shape[1]) - 0.5, minor=True)
    ax.tick_params(which="both", length=0)
    ax.grid(which="minor", axis="both", color=style.PAPER, linewidth=20 / max(20, *used.shape), alpha=1)
    lines = np.unique(np.linspace(0, len(used) - 1, min(NAMED, len(used))).round().astype(int))
    ax.set_yticks(lines, [names[nodes[line * together]] for line in lines], fontsize=6)
    ax.set_xticks([])
    ax.grid(which="major", visible=False)
    ax.spines[:].set_visible(False)
    shares = [share for row in of.rows.values() for _, share, _ in row]
    title = f"{of.title}: {len(shares):,} links, mean {np.mean(shares):.1%}, busiest {max(shares):.1%}"
    if together > 1:
        title += f"; {together} switches in a row"
    ax.set_title("\n".join(filter(None, [side, title])), fontsize=7)
