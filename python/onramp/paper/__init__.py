"""The paper's figures; one on its clocks, one on the defaults, one on every transport.

Each is a module with `NAME`, `ON`, `TITLE`, `cases`, `draw` and `claims`; see `common.Figure`.
"""

from __future__ import annotations

from onramp.paper import common
from onramp.paper.common import Figure

FIGURES = (
    *("fig1", "fig2", "fig5", "fig6", "fig8", "fig9", "fig10", "fig11", "fig12", "fig13", "fig14"),
    *("fig15", "fig16", "fig17", "fig18", "fig19", "fig20", "fig21", "fig22", "fig23", "fig24", "fig25"),
    *("fig26", "fig27", "clock", "frontier", "all-cc"),
)


def figure(name: str) -> Figure:
    """A figure by its name, such as "fig15"."""
    return common.find(__name__, FIGURES, name)
