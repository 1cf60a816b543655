"""Figure 13: CUBIC on Linux, WebSearch at 40% and large incast requests, 500 KB a flow."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import Case, Claim, Runs, ratio

NAME = "fig13"
ON = ("linux", "sim")
TITLE = "CUBIC, WebSearch at 40% and incast of 500 KB flows at 2% and 20%"

LOADS = {("2%",): (0.02, 13), ("20%",): (0.2, 21)}


def cases(quick: bool) -> list[Case]:
    """Both incast loads, without and with On-Ramp."""
    span = {"traffic.1.size": "500KB", **({"duration": "40ms"} if quick else {})}
    return [
        c
        for key, (load, _) in LOADS.items()
        for c in cluster.pair(key, quick, {**span, "traffic.1.load": load})
    ]


def draw(runs: Runs) -> Figure:
    """RCT and FCT at both loads."""
    return cluster.draw(runs, {key: f"incast at {key[0]}" for key in LOADS})


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the pattern and load level of incast traffic"."""
    found = []
    for key, (_, factor) in LOADS.items():
        name = f"incast at {key[0]}"
        found.append(cluster.fewer(runs, key, name, "timeouts", "timeouts", f"reduced by {factor}×", 10))
        gain = ratio(*cluster.sides(runs, key), cluster.rct("mean"))
        found.append(
            Claim(f"{name}: mean RCT is lower", "without/with above 1", gain.text("×"), gain.mean > 1)
        )
    return found
