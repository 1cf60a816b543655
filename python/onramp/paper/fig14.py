"""Figure 14: CUBIC on 100 Linux hosts, WebSearch at 60% and incast at 2%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Claim, Runs

KEY = ("60%",)


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.2."""
    stated = {"small": "23% lower", "medium": "20% lower", "large": "4% lower, at least not worse"}
    requests = cluster.rct_claims(runs, KEY, "CUBIC at 60%", dict.fromkeys(cluster.STATISTICS, 2.3))
    return requests + cluster.background_claims(runs, KEY, "CUBIC at 60%", stated, "at least halved")


EXPERIMENT = cluster.experiment(
    __name__,
    "100 hosts, CUBIC, WebSearch at 60% and incast at 2%: RCT and FCT",
    {KEY: {}},
    {KEY: "60% load"},
    claims,
    file="cluster-bare-metal",
)
