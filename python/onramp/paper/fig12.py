"""Figure 12: CUBIC on Linux, WebSearch at 80%; more is gained than at 40%."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import Case, Claim, Runs, ratio

NAME = "fig12"
ON = "linux"
TITLE = "Linux, CUBIC, WebSearch at 80% and incast at 2%: RCT and FCT"

LOW, HIGH = ("40%",), ("80%",)


def cases(quick: bool) -> list[Case]:
    """Both loads, without and with On-Ramp."""
    return [
        c
        for key, load in ((LOW, 0.4), (HIGH, 0.8))
        for c in cluster.pair(key, quick, {"traffic.0.load": load})
    ]


def draw(runs: Runs) -> Figure:
    """RCT and FCT at 80%."""
    return cluster.draw(runs, {HIGH: "80% load"})


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the load level of background traffic"."""
    found = []
    for statistic in cluster.STATISTICS:
        low, high = (ratio(*cluster.sides(runs, key), cluster.rct(statistic)) for key in (LOW, HIGH))
        found.append(
            Claim(
                f"{statistic} incast RCT gains more at 80% than at 40%",
                "without/with is larger",
                f"{low.text('×')} at 40%, {high.text('×')} at 80%",
                high.mean > low.mean,
            )
        )
    stated = {"small": "lower", "medium": "lower", "large": "not worse"}
    return [
        *found,
        *cluster.fct_claims(runs, HIGH, "CUBIC at 80%", stated),
        cluster.retransmitted(runs, HIGH, "CUBIC at 80%", "at least halved", 2),
        cluster.steady(runs, HIGH, "CUBIC at 80%"),
    ]
