"""Figure 25: CUBIC on Linux, WebSearch at 60%; between 40% and 80%."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import Case, Claim, Key, Runs

NAME = "fig25"
ON = ("linux", "sim")
TITLE = "CUBIC, WebSearch at 60% and incast at 2%: RCT and FCT"

LOADS: dict[Key, float] = {("40%",): 0.4, ("60%",): 0.6}
LOW, KEY = LOADS


def cases(quick: bool) -> list[Case]:
    """Both loads, without and with On-Ramp."""
    return cluster.at_loads(LOADS, quick)


def draw(runs: Runs) -> Figure:
    """RCT and FCT at 60%."""
    return cluster.draw(runs, {KEY: "60% load"})


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the load level of background traffic"; Appendix."""
    stated = {"small": "lower", "medium": "lower", "large": "not worse"}
    return [
        cluster.gains_more(runs, "p95", LOW, KEY),
        *cluster.fct_claims(runs, KEY, "CUBIC at 60%", stated),
        cluster.steady(runs, KEY, "CUBIC at 60%"),
    ]
