"""Computation and collectives of the ranks of distributed programs over time, a line for each rank."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow.compute as pc
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from onramp.plots import style
from onramp.programs import COMPUTATION, KINDS
from onramp.result import Result

#: Ranks shown, evenly chosen among all, and operations of each.
RANKS = 32
OPERATIONS = 2000

#: Colours by kind of operation.
_COLOURS = {kind: style.LAYERS[(code - 1) % len(style.LAYERS)] for code, kind in enumerate(KINDS)}
_COLOURS["computation"] = style.WITHOUT


def draw(sides: Mapping[str, Result]) -> Figure | None:
    """One panel per side, one line per rank; None if no program was run."""
    shown = {side: r for side, r in sides.items() if len(r.operations)}
    if not shown:
        return None
    figure, axes = style.panels(len(shown), 1, (7.2, 3.2), sharex=True)
    kinds: set[str] = set()
    for ax, (side, result) in zip(axes, shown.items(), strict=True):
        operations = result.operations
        hosts = np.unique(operations["host"].to_numpy())
        few = hosts[np.unique(np.linspace(0, len(hosts) - 1, min(RANKS, len(hosts))).round().astype(int))]
        for line, host in enumerate(few.tolist()):
            own = operations.filter(pc.equal(operations["host"], host)).slice(0, OPERATIONS)
            start = own["start_ps"].to_numpy() / 1e9
            took = own["duration_ps"].to_numpy() / 1e9
            kind = own["kind"].to_numpy()
            # Computation above, communication below: they overlap.
            for code in np.unique(kind):
                of_kind = kind == code
                kinds.add(KINDS[code])
                computes = code == COMPUTATION
                bars = list(zip(start[of_kind].tolist(), took[of_kind].tolist(), strict=True))
                ax.broken_barh(
                    bars,
                    (line + (0.5 if computes else 0.05), 0.45),
                    color=_COLOURS[KINDS[code]],
                    linewidth=0,
                )
        ax.set_yticks(np.arange(len(few)) + 0.5, [f"h{host}" for host in few], fontsize=6)
        ax.set_ylim(len(few), 0)
        ax.grid(False)
        ax.set_title(f"Ranks over time, {side}" if len(shown) > 1 else "Ranks over time")
    axes[-1].set_xlabel("time (ms)")
    patches = [Patch(color=_COLOURS[kind], label=kind) for kind in KINDS if kind in kinds]
    figure.legend(handles=patches, loc="outside upper right", ncols=3)
    return figure
