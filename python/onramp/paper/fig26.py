"""Figure 26: FB_Hadoop and incast under six congestion controls."""

from __future__ import annotations

from onramp.paper import workloads
from onramp.paper.common import Runs
from onramp.paper.verdict import Claim


def claims(runs: Runs) -> list[Claim]:
    """Appendix 10.2: as figure 15, with the throughput of long flows at least maintained."""
    schemes = [s for s in workloads.SCHEMES if s != "hpcc"]
    claims = [workloads.lower(runs, s, "incast", "incast RCT") for s in schemes]
    claims.append(workloads.same(runs, "hpcc", "incast", "incast RCT"))
    claims += [workloads.lower(runs, s, "small", "FCT of short flows") for s in schemes]
    for scheme, name in workloads.SCHEMES.items():
        mean, _ = workloads.gains(runs, scheme, "large")
        claims.append(
            Claim(
                f"{name}: throughput of long flows well maintained",
                f"without/with at least {workloads.MAINTAINED} for the mean FCT of large flows",
                mean.text("×"),
                (mean.at_least(workloads.MAINTAINED),),
            )
        )
    return claims


EXPERIMENT = workloads.experiment(
    __name__, "FB_Hadoop at 60% and incast at 2%: RCT and FCT under six congestion controls", claims
)
