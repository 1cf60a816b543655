"""Figure 9: CUBIC on Linux, WebSearch at 40% and incast at 2%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Claim, Runs

KEY = ("40%",)


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, basic scenario."""
    factors = {"mean": 2.6, "p90": 3.0, "p95": 3.1, "p99": 2.8}
    stated = {"small": "21% lower", "medium": "19% lower", "large": "7% lower, at least not worse"}
    return [
        *cluster.rct_claims(runs, KEY, "CUBIC at 40%", factors),
        *cluster.fct_claims(runs, KEY, "CUBIC at 40%", stated),
        cluster.retransmitted(runs, KEY, "CUBIC at 40%", "from 0.0693% to 0.0314%", 2),
        cluster.steady(runs, KEY, "CUBIC at 40%"),
    ]


EXPERIMENT = cluster.experiment(
    __name__,
    "CUBIC, WebSearch at 40% and incast at 2%: RCT and FCT",
    {KEY: cluster.background(0.4)},
    {KEY: "40% load"},
    claims,
)
