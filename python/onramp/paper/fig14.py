"""Figure 14: CUBIC on 100 Linux hosts, WebSearch at 60% and incast at 2%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Runs
from onramp.paper.verdict import Claim

KEY = ("60%",)
NAME = "CUBIC at 60%"


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.2: "the mean and tail RCTs … by 2.3 to 4.1"; §1 on the tail."""
    most = (2.3, 4.1)
    return [
        *cluster.rct_claims(runs, KEY, NAME, dict.fromkeys(cluster.STATISTICS, most)),
        *cluster.fct_claims(runs, KEY, NAME, {"small": 23.0, "medium": 20.0, "large": 4.0}),
        cluster.steady(runs, KEY, NAME),
    ]


EXPERIMENT = cluster.experiment(
    __name__,
    "100 hosts, CUBIC, WebSearch at 60% and incast at 2%: RCT and FCT",
    {KEY: {}},
    {KEY: "60% load"},
    claims,
    file="cluster-bare-metal",
)
