"""Figure 16: GoogleSearchRPC and incast under six congestion controls."""

from __future__ import annotations

from onramp.paper import workloads
from onramp.paper.common import Runs
from onramp.paper.verdict import Claim


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.3: better for all, including HPCC."""
    return [
        workloads.judged(
            runs,
            scheme,
            panel,
            f"{what} improved, mean and high percentile",
            "above 1",
            lambda gain: gain.above(1),
        )
        for scheme in workloads.SCHEMES
        for panel, what in (("incast", "incast RCT"), ("all", "FCT of all flows"))
    ]


# Half a millisecond has 2.7 million flows; nearly all are small, so they are not told apart.
EXPERIMENT = workloads.experiment(
    __name__,
    "GoogleSearchRPC at 60% and incast at 2%: RCT and FCT of all flows",
    claims,
    panels=("incast", "all"),
    duration="500us",
    quickly=("200us", "300us"),
)
