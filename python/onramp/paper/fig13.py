"""Figure 13: CUBIC on Linux, WebSearch at 40% and large incast requests, 500 KB a flow."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Claim, Runs, ratio

LOADS = {("2%",): (0.02, 13), ("20%",): (0.2, 21)}


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


EXPERIMENT = cluster.experiment(
    __name__,
    "CUBIC, WebSearch at 40% and incast of 500 KB flows at 2% and 20%",
    {key: {"traffic.1.size": "500KB", "traffic.1.load": load} for key, (load, _) in LOADS.items()},
    {key: f"incast at {key[0]}" for key in LOADS},
    claims,
    quickly={"duration": "40ms"},
)
