"""Figure 11: CUBIC on Linux, FB_Hadoop at 40% and incast at 2%."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import Case, Claim, Runs

NAME = "fig11"
ON = ("linux", "sim")
TITLE = "CUBIC, FB_Hadoop at 40% and incast at 2%: RCT and FCT"

KEY = ("FB_Hadoop",)


def cases(quick: bool) -> list[Case]:
    """Without and with On-Ramp."""
    return cluster.pair(KEY, quick, {"traffic.0.workload": "FB_Hadoop"})


def draw(runs: Runs) -> Figure:
    """RCT and FCT."""
    return cluster.draw(runs, {KEY: "FB_Hadoop at 40%"})


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying background traffic pattern": a figure without a number."""
    stated = {"small": "lower", "medium": "lower", "large": "not worse"}
    return [
        *cluster.rct_claims(runs, KEY, "FB_Hadoop at 40%", dict.fromkeys(cluster.STATISTICS, None)),
        *cluster.fct_claims(runs, KEY, "FB_Hadoop at 40%", stated),
        cluster.steady(runs, KEY, "FB_Hadoop at 40%"),
    ]
