"""Figure 15: WebSearch and incast under six congestion controls."""

from __future__ import annotations

from onramp.paper import workloads
from onramp.paper.common import Claim, Runs


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.3."""
    claims = [workloads.lower(runs, s, "incast", "incast RCT") for s in workloads.SCHEMES if s != "hpcc"]
    claims.append(workloads.same(runs, "hpcc", "incast", "incast RCT"))
    for scheme, name in workloads.SCHEMES.items():
        means = {size: workloads.gains(runs, scheme, size)[0] for size in ("small", "medium", "large")}
        claims.append(
            Claim(
                f"{name}: FCT improved in all size classes, large flows included",
                "without/with above 1 for the mean of each class",
                ", ".join(f"{size} {mean.text('×')}" for size, mean in means.items()),
                all(mean.mean > 1 for mean in means.values()),
            )
        )
    return claims


EXPERIMENT = workloads.experiment(
    __name__, "WebSearch at 60% and incast at 2%: RCT and FCT under six congestion controls", claims
)
