"""Figure 10: BBR on Linux, WebSearch at 40% and incast at 2%; and DCTCP, which the paper ran elsewhere."""

from __future__ import annotations

from onramp.paper import cluster, fig9
from onramp.paper.common import WITHOUT, Runs
from onramp.paper.verdict import Claim, ratio

BBR, DCTCP = ("bbr",), ("dctcp-tcp",)


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying congestion control algorithms"; §1 on p99; §3 on DCTCP."""
    most = (4.2, 5.6)
    found = [
        *cluster.rct_claims(runs, BBR, "BBR", {"mean": most, "p90": most, "p95": most, "p99": 5.6}),
        *cluster.fct_claims(runs, BBR, "BBR", {"small": 28.0, "medium": 25.0, "large": "the same"}),
        *cluster.fct_claims(runs, BBR, "BBR", {"small": 51.0, "medium": 37.0}, "p95"),
        *cluster.retransmissions(runs, BBR, "BBR", (0.0105, 0.0005)),
    ]
    for what, of in (
        ("incast RCT", cluster.rct("mean")),
        ("FCT of small flows", cluster.fct("small")),
        ("FCT of medium flows", cluster.fct("medium")),
    ):
        less = ratio(runs[(*fig9.KEY, WITHOUT)], runs[(*BBR, WITHOUT)], of)
        statement = f"without On-Ramp BBR's {what} is below CUBIC's"
        found.append(Claim(statement, "mean, CUBIC over BBR, above 1", less.text("×"), (less.above(1),)))
    for what, of in (("incast RCT", cluster.rct("mean")), ("FCT of large flows", cluster.fct("large"))):
        gain = ratio(*cluster.sides(runs, DCTCP), of)
        statement = f"DCTCP: On-Ramp is a safeguard, mean {what} is not worse"
        criterion, check = f"without/with at least {cluster.KEPT}", gain.at_least(cluster.KEPT)
        found.append(Claim(statement, criterion, gain.text("×"), (check,)))
    return [*found, *(cluster.steady(runs, key, name) for key, name in ((BBR, "BBR"), (DCTCP, "DCTCP")))]


EXPERIMENT = cluster.experiment(
    __name__,
    "BBR and DCTCP, WebSearch at 40% and incast at 2%: RCT and FCT",
    {**{cc: {"transport.kind": cc[0]} for cc in (BBR, DCTCP)}, **fig9.COMPARED},
    {BBR: "BBR", DCTCP: "DCTCP"},
    claims,
)
