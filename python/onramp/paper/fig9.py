"""Figure 9: CUBIC on Linux, WebSearch at 40% and incast at 2%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Runs
from onramp.paper.verdict import Claim

KEY = ("40%",)
COMPARED = cluster.at_loads({KEY: 0.4})
NAME = "CUBIC at 40%"


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, basic scenario."""
    factors = {"mean": 2.6, "p90": 3.0, "p95": 3.1, "p99": 2.8}
    flows = {"small": 21.0, "medium": 19.0, "large": 7.0}
    return [
        *cluster.rct_claims(runs, KEY, NAME, factors),
        *cluster.fct_claims(runs, KEY, NAME, flows),
        *cluster.fct_claims(runs, KEY, NAME, flows, "p95"),  # "similar improvements"
        *cluster.retransmissions(runs, KEY, NAME, (0.0693, 0.0314)),
        cluster.steady(runs, KEY, NAME),
    ]


EXPERIMENT = cluster.experiment(
    __name__, "CUBIC, WebSearch at 40% and incast at 2%: RCT and FCT", COMPARED, {KEY: "40% load"}, claims
)
