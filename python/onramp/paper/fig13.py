"""Figure 13: CUBIC on Linux, WebSearch at 40% and large incast requests, 500 KB a flow."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import WITHOUT, Key, Runs
from onramp.paper.verdict import Claim, estimate

LOW: Key = ("2%",)
HIGH: Key = ("20%",)
LOADS = {LOW: (0.02, 13), HIGH: (0.2, 21)}
#: "About one order of magnitude" below 800 ms is what requests take, and "comparable" to 80 ms [ms].
TOOK = 80.0


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying the pattern and load level of incast traffic"."""
    found = []
    for key, (_, factor) in LOADS.items():
        name = f"incast at {key[0]}"
        found.append(cluster.fewer(runs, key, name, "timeouts", "timeouts", factor))
        found += cluster.rct_claims(runs, key, name, {"mean": None})
        took = estimate(runs[(*key, WITHOUT)], cluster.rct("mean")).each(lambda us: us / 1e3)
        low, high = TOOK / 2, TOOK * 2
        found.append(
            Claim(
                f"{name}: a request of 20 MB takes some {TOOK:g} ms without On-Ramp",
                f"mean RCT {low:g} to {high:g} ms",
                took.text(" ms"),
                (took.between(low, high),),
                f"some {TOOK:g} ms",
            )
        )
    return [*found, cluster.gains_more(runs, "mean", LOW, HIGH)]


EXPERIMENT = cluster.experiment(
    __name__,
    "CUBIC, WebSearch at 40% and incast of 500 KB flows at 2% and 20%",
    {
        # Requests are few: at 2% one in 16 ms.
        key: {"traffic.1.size": "500KB", "traffic.1.load": load, "duration": "300ms"}
        for key, (load, _) in LOADS.items()
    },
    {key: f"incast at {key[0]}" for key in LOADS},
    claims,
    quickly={"duration": "40ms"},
)
