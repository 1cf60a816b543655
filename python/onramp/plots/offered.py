"""Traffic that a scenario offers, before its run: who sends to whom, and the share of each link."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from onramp.plots import style

UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))
#: Rows that have their names beside them, at most.
NAMED = 20


def draw(facts: dict[str, Any]) -> Figure:
    """Payload between hosts or switches on the left, links by offered load on the right."""
    figure, (left, right) = style.panels(1, 2, (4.6, 3.6))
    names = facts["rows"]
    payload = np.array(facts["matrix"], dtype=float).reshape(len(names), len(names))
    scale, unit = next(((s, u) for s, u in UNITS if payload.max(initial=0) >= s), UNITS[-1])
    shown = np.ma.masked_less_equal(payload / scale, 0)
    low, high = (shown.min(), shown.max()) if shown.count() else (1e-9, 1.0)
    norm = LogNorm(low, max(high, low * 1.01)) if high > 20 * low else None
    image = left.imshow(shown, cmap="Blues", norm=norm, vmin=None if norm else 0, interpolation="nearest")
    figure.colorbar(image, ax=left, label=f"payload ({unit})", shrink=0.8)
    step = -(-len(names) // NAMED)
    for axis in (left.xaxis, left.yaxis):
        axis.set_ticks(range(0, len(names), step), names[::step], fontsize=6)
    left.tick_params(axis="x", rotation=90)
    left.set_xlabel("to")
    left.set_ylabel("from")
    left.grid(False)
    left.set_title("Traffic matrix")

    kinds: dict[str, list[float]] = {}
    for link in facts["loads"]:
        kinds.setdefault(link["kind"], []).append(100 * link["load"])
    for n, (kind, loads) in enumerate(sorted(kinds.items(), key=lambda item: -max(item[1]))):
        label = f"{kind} ({len(loads)})"
        share = (np.arange(len(loads)) + 1) / len(loads) * 100
        right.step(share, sorted(loads, reverse=True), color=style.LAYERS[n % len(style.LAYERS)], label=label)
    most = max((max(loads) for loads in kinds.values()), default=1.0)
    if most > 80:
        right.axhline(100, color=style.INK, linewidth=0.8, linestyle=":")
    right.set_ylim(0, most * 1.1)
    right.set_xlim(0, 100)
    right.set_xlabel("links of the kind, the most loaded first (%)")
    right.set_ylabel("offered load (%)")
    right.set_title("Links")
    if kinds:
        right.legend(fontsize=7)
    return figure
