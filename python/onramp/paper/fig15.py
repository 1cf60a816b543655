"""Figure 15: WebSearch and incast under six congestion controls."""

from __future__ import annotations

from onramp.paper import workloads
from onramp.paper.common import Runs
from onramp.paper.verdict import Claim

#: The least mean gain in the clouds, CUBIC's in Fig. 14 (§5.2.2).
CLOUDS = 2.3


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.3; §7.2's remark on the clouds."""
    claims = [workloads.lower(runs, s, "incast", "incast RCT") for s in workloads.SCHEMES if s != "hpcc"]
    claims.append(workloads.same(runs, "hpcc", "incast", "incast RCT"))
    for scheme, name in workloads.SCHEMES.items():
        means = {size: workloads.gains(runs, scheme, size)[0] for size in ("small", "medium", "large")}
        claims.append(
            Claim(
                f"{name}: FCT improved in all size classes, large flows included",
                "without/with above 1 for the mean of each class",
                ", ".join(f"{size} {mean.text('×')}" for size, mean in means.items()),
                tuple(mean.above(1) for mean in means.values()),
            )
        )
    gain, _ = workloads.gains(runs, "dcqcn", "incast")
    claims.append(
        Claim(
            "On-Ramp in NICs improves RCT more than in the clouds",
            f"DCQCN's mean RCT without/with above {CLOUDS:g}, the least of the clouds",
            gain.text("×"),
            (gain.above(CLOUDS),),
        )
    )
    return claims


EXPERIMENT = workloads.experiment(
    __name__, "WebSearch at 60% and incast at 2%: RCT and FCT under six congestion controls", claims
)
