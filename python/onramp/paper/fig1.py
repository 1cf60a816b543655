"""Figure 1: TIMELY's queue with a low and a high gain, without and with On-Ramp."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import star
from onramp.paper.common import Case, Claim, Runs

NAME = "fig1"
ON = ("sim",)
TITLE = "TIMELY: queueing delay in transience and equilibrium, two gains"

LOW, HIGH = "TIMELY β = 0.2", "TIMELY β = 0.8"
GAINS = {LOW: "fig1-timely-0.2", HIGH: "fig1-timely-0.8"}


def cases(quick: bool) -> list[Case]:
    """The figure's 245 ms take seconds: the quick form only has fewer seeds."""
    return star.cases(GAINS)


def draw(runs: Runs) -> Figure:
    """Four panels of queueing delay."""
    return star.draw_queues(runs)


def claims(runs: Runs) -> list[Claim]:
    """Section 2."""
    return star.queue_claims(
        runs, LOW, HIGH, (0.56, 0.66), f"{HIGH}: the queue underflows, the link is used to just 61%"
    )
