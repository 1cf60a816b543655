"""Figure 25: CUBIC on Linux, WebSearch at 60%; more is gained than at 40%."""

from __future__ import annotations

from onramp.paper import cluster, fig9
from onramp.paper.common import Runs
from onramp.paper.verdict import Claim

KEY = ("60%",)
COMPARED = {**fig9.COMPARED, **cluster.at_loads({KEY: 0.6})}


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the load level of background traffic"; appendix 10.2."""
    return cluster.loaded(runs, fig9.KEY, KEY)


EXPERIMENT = cluster.experiment(
    __name__, "CUBIC, WebSearch at 60% and incast at 2%: RCT and FCT", COMPARED, {KEY: "60% load"}, claims
)
