"""Figure 24: twelve long CUBIC flows on Linux."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import flows
from onramp.paper.common import Case, Claim, Runs

NAME = "fig24"
ON = ("linux", "sim")
TITLE = "Twelve long CUBIC flows share a link; strawman and final version"

#: When all flows are there and have settled; seconds.
SPAN = (0.1, 0.4)


def cases(quick: bool) -> list[Case]:
    """Without, strawman, final."""
    return flows.cases("cluster-twelve-flows", quick)


def draw(runs: Runs) -> Figure:
    """Queueing delay and throughputs."""
    return flows.draw(runs)


def claims(runs: Runs) -> list[Claim]:
    """Section 3.2."""
    return flows.claims(runs, SPAN)
