"""Figure 11: CUBIC on Linux, FB_Hadoop at 40% and incast at 2%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Key, Runs
from onramp.paper.verdict import Claim

KEY: Key = ("FB_Hadoop",)
COMPARED = {KEY: {"traffic.0.workload": "FB_Hadoop"}}
NAME = "FB_Hadoop at 40%"


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying background traffic pattern": a figure without a number."""
    return [
        *cluster.rct_claims(runs, KEY, NAME, dict.fromkeys(cluster.STATISTICS)),
        *cluster.fct_claims(runs, KEY, NAME, cluster.GAINS),
        cluster.steady(runs, KEY, NAME),
    ]


EXPERIMENT = cluster.experiment(
    __name__, "CUBIC, FB_Hadoop at 40% and incast at 2%: RCT and FCT", COMPARED, {KEY: NAME}, claims
)
