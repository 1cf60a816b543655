"""Figure 19: how large segments may be that leave a host's stack."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import BOTH_VARIANTS, WITH, WITHOUT, Case, Experiment, Runs
from onramp.paper.verdict import Claim, lower, percent, ratio
from onramp.plots import bars, style

NONE, WHOLE, SMALL, CUT = "no On-Ramp", "64 KB", "16 KB", "64 KB, cut"
KINDS: dict[str, dict[str, object]] = {
    WHOLE: {"linux.cut_segments": False},
    SMALL: {"linux.cut_segments": False, "linux.gso_max_size": "16KiB"},
    CUT: {"linux.cut_segments": True},
}


def cases(quick: bool) -> list[Case]:
    """Without On-Ramp, and with it for every size."""
    without = cluster.one((WITHOUT,), WITHOUT, quick, {})
    return [without, *(cluster.one((WITH, kind), WITH, quick, changes) for kind, changes in KINDS.items())]


def draw(runs: Runs) -> Figure:
    """RCT and FCT over kinds of segments."""
    keys = {NONE: (WITHOUT,), **{kind: (WITH, kind) for kind in KINDS}}
    figure, axes = style.panels(1, 4, (2.9, 2.7))
    titles = {"incast": "Incast RCT", **{s: bars.TITLES[s] for s in ("small", "medium", "large")}}
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        of = cluster.rct if name == "incast" else lambda s, name=name: cluster.fct(name, s)
        values = [cluster.bar(runs[k], of("mean"), of("p95")) for k in keys.values()]
        bars.panel(ax, list(keys), {WITH: values})
        ax.patches[0].set_facecolor(style.WITHOUT)
        ax.set_title(title, fontsize=9)
        ax.tick_params(axis="x", labelsize=7)
    axes[0].set_ylabel("µs")
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Section 7.2; and what cutting does, which is ours."""
    whole, small = runs[WITH, WHOLE], runs[WITH, SMALL]
    found = [
        percent(
            f"16 KB: {statistic} incast RCT is lower still than with 64 KB",
            lower(ratio(whole, small, cluster.rct(statistic))),
            stated,
        )
        for statistic, stated in {"mean": 36.0, "p90": 37.0, "p95": 41.0, "p99": 54.0}.items()
    ]
    found += [
        percent(
            f"16 KB: {statistic} FCT of {size} flows is lower still than with 64 KB",
            lower(ratio(whole, small, cluster.fct(size, statistic))),
            stated,
        )
        for statistic, stated in {"mean": (8.0, 14.0), "p95": (13.0, 22.0)}.items()
        for size in ("small", "medium")
    ]
    large = ratio(whole, small, cluster.fct("large"))
    found.append(
        Claim(
            "16 KB: the throughput of long flows is well maintained",
            f"64 KB over 16 KB at least {cluster.KEPT} for the mean FCT of large flows",
            large.text("×"),
            (large.at_least(cluster.KEPT),),
        )
    )
    cut = lower(ratio(whole, runs[WITH, CUT], cluster.rct("p99")))
    found.append(
        Claim(
            "cutting segments where it is congested gains as 16 KB do",
            "p99 incast RCT at least 20% lower than with whole 64 KB",
            cut.text("%"),
            (cut.at_least(20),),
            of_paper=False,
        )
    )
    return found


EXPERIMENT = Experiment(
    __name__,
    ("linux", "sim"),
    "CUBIC: On-Ramp with segments of 64 KB, of 16 KB, and cut up where it is congested",
    cases,
    draw,
    claims,
    variants=BOTH_VARIANTS,
)
