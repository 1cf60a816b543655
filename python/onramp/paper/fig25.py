"""Figure 25: CUBIC on Linux, WebSearch at 60%; between 40% and 80%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Claim, Runs

LOW, KEY = ("40%",), ("60%",)
COMPARED = cluster.at_loads({LOW: 0.4, KEY: 0.6})


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the load level of background traffic"; Appendix."""
    stated = {"small": "lower", "medium": "lower", "large": "not worse"}
    more = cluster.gains_more(runs, "p95", LOW, KEY)
    return [more, *cluster.background_claims(runs, KEY, "CUBIC at 60%", stated)]


EXPERIMENT = cluster.experiment(
    __name__, "CUBIC, WebSearch at 60% and incast at 2%: RCT and FCT", COMPARED, {KEY: "60% load"}, claims
)
