"""Figure 12: CUBIC on Linux, WebSearch at 80%; more is gained than at 40%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Claim, Runs

LOW, HIGH = ("40%",), ("80%",)
COMPARED = cluster.at_loads({LOW: 0.4, HIGH: 0.8})


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the load level of background traffic"."""
    stated = {"small": "lower", "medium": "lower", "large": "not worse"}
    requests = [cluster.gains_more(runs, statistic, LOW, HIGH) for statistic in cluster.STATISTICS]
    return requests + cluster.background_claims(runs, HIGH, "CUBIC at 80%", stated, "at least halved")


EXPERIMENT = cluster.experiment(
    __name__, "CUBIC, WebSearch at 80% and incast at 2%: RCT and FCT", COMPARED, {HIGH: "80% load"}, claims
)
