"""Figure 26: FB_Hadoop and incast under six congestion controls."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import workloads
from onramp.paper.common import Case, Claim, Runs

NAME = "fig26"
ON = ("sim",)
TITLE = "FB_Hadoop at 60% and incast at 2%: RCT and FCT under six congestion controls"


def cases(quick: bool) -> list[Case]:
    """Every scheme without and with On-Ramp."""
    return workloads.cases(NAME, "1ms", "2ms") if quick else workloads.cases(NAME, "5ms")


def draw(runs: Runs) -> Figure:
    """Four panels of bars."""
    return workloads.draw(runs, ("incast", "small", "medium", "large"))


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
                mean.mean >= workloads.MAINTAINED,
            )
        )
    return claims + workloads.steady(runs)
