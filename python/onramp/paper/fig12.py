"""Figure 12: CUBIC on Linux, WebSearch at 80%; more is gained than at 40%."""

from __future__ import annotations

from onramp.paper import cluster, fig9
from onramp.paper.common import Runs
from onramp.paper.verdict import Claim

KEY = ("80%",)
COMPARED = {**fig9.COMPARED, **cluster.at_loads({KEY: 0.8})}


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the load level of background traffic"."""
    return cluster.loaded(runs, fig9.KEY, KEY)


EXPERIMENT = cluster.experiment(
    __name__, "CUBIC, WebSearch at 80% and incast at 2%: RCT and FCT", COMPARED, {KEY: "80% load"}, claims
)
