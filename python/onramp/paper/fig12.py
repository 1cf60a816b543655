"""Figure 12: CUBIC on Linux, WebSearch at 80%; more is gained than at 40%."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import Case, Claim, Key, Runs

NAME = "fig12"
ON = ("linux", "sim")
TITLE = "CUBIC, WebSearch at 80% and incast at 2%: RCT and FCT"

LOADS: dict[Key, float] = {("40%",): 0.4, ("80%",): 0.8}
LOW, HIGH = LOADS


def cases(quick: bool) -> list[Case]:
    """Both loads, without and with On-Ramp."""
    return cluster.at_loads(LOADS, quick)


def draw(runs: Runs) -> Figure:
    """RCT and FCT at 80%."""
    return cluster.draw(runs, {HIGH: "80% load"})


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the load level of background traffic"."""
    stated = {"small": "lower", "medium": "lower", "large": "not worse"}
    return [
        *(cluster.gains_more(runs, statistic, LOW, HIGH) for statistic in cluster.STATISTICS),
        *cluster.fct_claims(runs, HIGH, "CUBIC at 80%", stated),
        cluster.retransmitted(runs, HIGH, "CUBIC at 80%", "at least halved", 2),
        cluster.steady(runs, HIGH, "CUBIC at 80%"),
    ]
