"""Figure 22: the throughput of each TIMELY flow of figure 1."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import fig1, star
from onramp.paper.common import Case, Claim, Runs

NAME = "fig22"
ON = ("sim",)
TITLE = "TIMELY: throughput by flow, two gains"


def cases(quick: bool) -> list[Case]:
    """Those of figure 1."""
    return fig1.cases(quick)


def draw(runs: Runs) -> Figure:
    """Four panels of stacked throughput."""
    return star.draw_throughputs(runs)


def claims(runs: Runs) -> list[Claim]:
    """Appendix 10.1."""
    return star.throughput_claims(runs, fig1.LOW, fig1.HIGH)
