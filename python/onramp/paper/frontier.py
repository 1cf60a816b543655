"""Not in the paper: what T and the rate of OR-ACKs cost large flows, and what they give requests."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import WITH, WITHOUT, Case, Claim, Key, Runs, estimate, ratio
from onramp.plots import style

NAME = "frontier"
ON = ("linux", "sim")
TITLE = "CUBIC, WebSearch at 60%: RCT against the FCT of large flows, over T and the rate of OR-ACKs"

SMALLER: dict[str, object] = {"network.hosts": 24, "traffic.1.fan_out": 20, "traffic.0.load": 0.6}
THRESHOLDS = (50, 75, 100, 150)
#: Least time between two OR-ACKs of a flow, in microseconds; and over which T.
GAPS = {0: (50, 100), 100: THRESHOLDS}
#: T and gap before, and now.
BEFORE, DEFAULT = (50, 0), (100, 100)
FQ = ("fq",)
#: "Large flows lose nothing" is read as at most this.
LOSS = 0.01


def _key(t: int, gap: int) -> Key:
    return (WITH, f"T = {t} µs", f"{gap} µs")


def cases(quick: bool) -> list[Case]:
    """Without On-Ramp under two queueing disciplines, and with it for every T and gap."""
    found = [
        cluster.one((WITHOUT,), WITHOUT, quick, SMALLER),
        cluster.one((WITHOUT, *FQ), WITHOUT, quick, {**SMALLER, "linux.qdisc": "fq"}),
    ]
    for gap, thresholds in GAPS.items():
        for t in thresholds:
            changes = {**SMALLER, "onramp.threshold": f"{t}us", "linux.or_ack_gap": f"{gap}us"}
            found.append(cluster.one(_key(t, gap), WITH, quick, changes))
    return found


def draw(runs: Runs) -> Figure:
    """Mean and p99 of requests over the mean of large flows."""
    figure, axes = style.panels(1, 2, (4.2, 3.0))
    nothing = cluster.mean_of(runs[WITHOUT,], cluster.fct("large"))
    for ax, statistic in zip(axes, ("mean", "p99"), strict=True):
        for i, (gap, thresholds) in enumerate(GAPS.items()):
            keys = [_key(t, gap) for t in thresholds]
            x = [(cluster.mean_of(runs[k], cluster.fct("large")) or 0) / 1e3 for k in keys]
            y = [cluster.mean_of(runs[k], cluster.rct(statistic)) or 0 for k in keys]
            name = "every 16 KiB" + (f", at least {gap} µs apart" if gap else "")
            ax.plot(x, y, "o-", ms=4, lw=1.3, color=style.LAYERS[i], label=f"OR-ACKs {name}")
            for t, at in zip(thresholds, zip(x, y, strict=True), strict=True):
                ax.annotate(f" T = {t} µs", at, fontsize=7, va="bottom")
        ax.axvline((nothing or 0) / 1e3, color=style.INK, lw=0.8, ls=":", label="large flows without On-Ramp")
        ax.set_xlabel("mean FCT of large flows (ms)")
        ax.set_ylabel(f"{statistic} RCT (µs)")
        ax.margins(x=0.12, y=0.12)
        ax.set_ylim(bottom=0)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """What the defaults rest on."""
    found = []
    for key, name in (((WITHOUT,), "fq_codel"), ((WITHOUT, *FQ), "fq")):
        slower = ratio(runs[_key(*DEFAULT)], runs[key], cluster.fct("large"))
        found.append(
            Claim(
                f"the defaults: large flows are not slower than with {name} and no On-Ramp",
                f"mean FCT at most {1 + LOSS:g} times",
                slower.text("×"),
                slower.mean <= 1 + LOSS,
                of_paper=False,
            )
        )
    for statistic in ("mean", "p99"):
        before, now = (
            estimate(runs[_key(*of)], lambda r, s=statistic: cluster.rct(s)(r) or 0.0)  # type: ignore[misc]
            for of in (BEFORE, DEFAULT)
        )
        found.append(
            Claim(
                f"the defaults: {statistic} RCT is near that of T = 50 µs and an OR-ACK for every 16 KiB",
                "at most 1.2 times",
                f"{now.text()} against {before.text(' µs')}",
                now.mean <= 1.2 * before.mean,
                of_paper=False,
            )
        )
    return found
