"""Figure 16: GoogleSearchRPC and incast under six congestion controls."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import workloads
from onramp.paper.common import Case, Claim, Runs

NAME = "fig16"
ON = ("sim",)
TITLE = "GoogleSearchRPC at 60% and incast at 2%: RCT and FCT of all flows"


def cases(quick: bool) -> list[Case]:
    """Every scheme without and with On-Ramp; half a millisecond has 2.7 million flows."""
    return workloads.cases(NAME, "200us", "300us") if quick else workloads.cases(NAME, "500us")


def draw(runs: Runs) -> Figure:
    """Two panels of bars: nearly all flows are small, so they are not told apart."""
    return workloads.draw(runs, ("incast", "all"))


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.3: better for all, including HPCC."""
    claims = []
    for scheme, name in workloads.SCHEMES.items():
        for panel, what in (("incast", "incast RCT"), ("all", "FCT of all flows")):
            mean, tail = workloads.gains(runs, scheme, panel)
            claims.append(
                Claim(
                    f"{name}: {what} improved, mean and high percentile",
                    "without/with above 1 for mean and p95",
                    f"mean {mean.text('×')}, p95 {tail.text('×')}",
                    mean.mean > 1 and tail.mean > 1,
                )
            )
    return claims + workloads.steady(runs)
