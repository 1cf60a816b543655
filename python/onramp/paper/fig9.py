"""Figure 9: CUBIC on Linux, WebSearch at 40% and incast at 2%."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Claim, Runs

KEY = ("40%",)
COMPARED = cluster.at_loads({KEY: 0.4})


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, basic scenario."""
    factors = {"mean": 2.6, "p90": 3.0, "p95": 3.1, "p99": 2.8}
    stated = {"small": "21% lower", "medium": "19% lower", "large": "7% lower, at least not worse"}
    requests = cluster.rct_claims(runs, KEY, "CUBIC at 40%", factors)
    fewer = "from 0.0693% to 0.0314%"
    return requests + cluster.background_claims(runs, KEY, "CUBIC at 40%", stated, fewer)


EXPERIMENT = cluster.experiment(
    __name__, "CUBIC, WebSearch at 40% and incast at 2%: RCT and FCT", COMPARED, {KEY: "40% load"}, claims
)
