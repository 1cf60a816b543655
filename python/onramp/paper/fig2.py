"""Figure 2: DCQCN's queue with a low and a high gain, without and with On-Ramp."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import star
from onramp.paper.common import Case, Claim, Runs

NAME = "fig2"
ON = ("sim",)
TITLE = "DCQCN: queueing delay in transience and equilibrium, two gains"

LOW, HIGH = "DCQCN Ti = 55 µs, Td = 50 µs", "DCQCN Ti = 300 µs, Td = 4 µs"
GAINS = {LOW: "fig2-dcqcn-55-50", HIGH: "fig2-dcqcn-300-4"}


def cases(quick: bool) -> list[Case]:
    """The figure's 245 ms take seconds: the quick form only has fewer seeds."""
    return star.cases(GAINS)


def draw(runs: Runs) -> Figure:
    """Four panels of queueing delay."""
    return star.draw_queues(runs)


def claims(runs: Runs) -> list[Claim]:
    """Section 2."""
    return star.queue_claims(
        runs, LOW, HIGH, (0.0, star.FULL), f"{HIGH}: the opposite behaviour, the link is under-utilized"
    )
