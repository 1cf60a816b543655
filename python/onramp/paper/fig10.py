"""Figure 10: BBR on Linux, WebSearch at 40% and incast at 2%; and DCTCP, which the paper ran elsewhere."""

from __future__ import annotations

from onramp.paper import cluster
from onramp.paper.common import Claim, Runs, ratio

BBR, DCTCP = ("bbr",), ("dctcp-tcp",)


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.1, "Varying congestion control algorithms"; §3 on DCTCP."""
    stated = {"small": "28% lower", "medium": "25% lower", "large": "the same"}
    found = [
        *cluster.rct_claims(runs, BBR, "BBR", dict.fromkeys(cluster.STATISTICS, 4.2)),
        *cluster.fct_claims(runs, BBR, "BBR", stated),
        cluster.retransmitted(runs, BBR, "BBR", "21 times fewer", 2),
    ]
    for what, of in (
        ("mean incast RCT", cluster.rct("mean")),
        ("mean FCT of large flows", cluster.fct("large")),
    ):
        gain = ratio(*cluster.sides(runs, DCTCP), of)
        statement, criterion = f"On-Ramp is a safeguard, {what} is not worse", f"at least {cluster.KEPT}"
        kept = gain.mean >= cluster.KEPT
        found.append(Claim(f"DCTCP: {statement}", f"without/with {criterion}", gain.text("×"), kept))
    return found


EXPERIMENT = cluster.experiment(
    __name__,
    "BBR and DCTCP, WebSearch at 40% and incast at 2%: RCT and FCT",
    {cc: {"transport.kind": cc[0]} for cc in (BBR, DCTCP)},
    {BBR: "BBR", DCTCP: "DCTCP"},
    claims,
)
