"""Figure 23: the throughput of each DCQCN flow of figure 2."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import fig2, star
from onramp.paper.common import Case, Claim, Runs

NAME = "fig23"
ON = ("sim",)
TITLE = "DCQCN: throughput by flow, two gains"


def cases(quick: bool) -> list[Case]:
    """Those of figure 2."""
    return fig2.cases(quick)


def draw(runs: Runs) -> Figure:
    """Four panels of stacked throughput."""
    return star.draw_throughputs(runs)


def claims(runs: Runs) -> list[Claim]:
    """Appendix 10.1."""
    return star.throughput_claims(runs, fig2.LOW, fig2.HIGH)
