"""Figure 11: CUBIC on Linux, FB_Hadoop at 40% and incast at 2%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Claim, Runs

KEY = ("FB_Hadoop",)


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying background traffic pattern": a figure without a number."""
    stated = {"small": "lower", "medium": "lower", "large": "not worse"}
    return [
        *cluster.rct_claims(runs, KEY, "FB_Hadoop at 40%", dict.fromkeys(cluster.STATISTICS, None)),
        *cluster.fct_claims(runs, KEY, "FB_Hadoop at 40%", stated),
        cluster.steady(runs, KEY, "FB_Hadoop at 40%"),
    ]


EXPERIMENT = cluster.experiment(
    __name__,
    "CUBIC, FB_Hadoop at 40% and incast at 2%: RCT and FCT",
    {KEY: {"traffic.0.workload": "FB_Hadoop"}},
    {KEY: "FB_Hadoop at 40%"},
    claims,
)
