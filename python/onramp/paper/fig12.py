"""Figure 12: CUBIC on Linux, WebSearch at 80%; more is gained than at 40%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Claim, Runs

LOW, HIGH = ("40%",), ("80%",)


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the load level of background traffic"."""
    stated = {"small": "lower", "medium": "lower", "large": "not worse"}
    return [
        *(cluster.gains_more(runs, statistic, LOW, HIGH) for statistic in cluster.STATISTICS),
        *cluster.fct_claims(runs, HIGH, "CUBIC at 80%", stated),
        cluster.retransmitted(runs, HIGH, "CUBIC at 80%", "at least halved", 2),
        cluster.steady(runs, HIGH, "CUBIC at 80%"),
    ]


EXPERIMENT = cluster.experiment(
    __name__,
    "CUBIC, WebSearch at 80% and incast at 2%: RCT and FCT",
    {LOW: cluster.background(0.4), HIGH: cluster.background(0.8)},
    {HIGH: "80% load"},
    claims,
)
