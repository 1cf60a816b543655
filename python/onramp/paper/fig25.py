"""Figure 25: CUBIC on Linux, WebSearch at 60%; between 40% and 80%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Claim, Runs

LOW, KEY = ("40%",), ("60%",)


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the load level of background traffic"; Appendix."""
    stated = {"small": "lower", "medium": "lower", "large": "not worse"}
    return [
        cluster.gains_more(runs, "p95", LOW, KEY),
        *cluster.fct_claims(runs, KEY, "CUBIC at 60%", stated),
        cluster.steady(runs, KEY, "CUBIC at 60%"),
    ]


EXPERIMENT = cluster.experiment(
    __name__,
    "CUBIC, WebSearch at 60% and incast at 2%: RCT and FCT",
    {LOW: cluster.background(0.4), KEY: cluster.background(0.6)},
    {KEY: "60% load"},
    claims,
)
