"""Figure 25: CUBIC on Linux, WebSearch at 60%; between 40% and 80%."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import Case, Claim, Runs, ratio

NAME = "fig25"
ON = "linux"
TITLE = "Linux, CUBIC, WebSearch at 60% and incast at 2%: RCT and FCT"

LOW, KEY = ("40%",), ("60%",)


def cases(quick: bool) -> list[Case]:
    """Both loads, without and with On-Ramp."""
    return [
        c
        for key, load in ((LOW, 0.4), (KEY, 0.6))
        for c in cluster.pair(key, quick, {"traffic.0.load": load})
    ]


def draw(runs: Runs) -> Figure:
    """RCT and FCT at 60%."""
    return cluster.draw(runs, {KEY: "60% load"})


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the load level of background traffic"; Appendix."""
    low, high = (ratio(*cluster.sides(runs, key), cluster.rct("p95")) for key in (LOW, KEY))
    gains = Claim(
        "p95 incast RCT gains more at 60% than at 40%",
        "without/with is larger",
        f"{low.text('×')} at 40%, {high.text('×')} at 60%",
        high.mean > low.mean,
    )
    stated = {"small": "lower", "medium": "lower", "large": "not worse"}
    return [
        gains,
        *cluster.fct_claims(runs, KEY, "CUBIC at 60%", stated),
        cluster.steady(runs, KEY, "CUBIC at 60%"),
    ]
