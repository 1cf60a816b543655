"""Figure 11: CUBIC on Linux, FB_Hadoop at 40% and incast at 2%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Claim, Key, Runs

KEY: Key = ("FB_Hadoop",)
COMPARED = {KEY: {"traffic.0.workload": "FB_Hadoop"}}


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying background traffic pattern": a figure without a number."""
    stated = {"small": "lower", "medium": "lower", "large": "not worse"}
    requests = cluster.rct_claims(runs, KEY, "FB_Hadoop at 40%", dict.fromkeys(cluster.STATISTICS, None))
    return requests + cluster.background_claims(runs, KEY, "FB_Hadoop at 40%", stated)


EXPERIMENT = cluster.experiment(
    __name__,
    "CUBIC, FB_Hadoop at 40% and incast at 2%: RCT and FCT",
    COMPARED,
    {KEY: "FB_Hadoop at 40%"},
    claims,
)
