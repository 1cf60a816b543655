"""Figure 19: how large segments may be that leave a host's stack."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import WITH, WITHOUT, Case, Claim, Experiment, Runs, ratio
from onramp.plots import bars, style

NONE, WHOLE, SMALL, CUT = "no On-Ramp", "64 KB", "16 KB", "64 KB, cut"
KINDS: dict[str, dict[str, object]] = {
    WHOLE: {"linux.cut_segments": False},
    SMALL: {"linux.cut_segments": False, "linux.gso_max_size": "16KiB"},
    CUT: {},
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
        values = [
            bars.Bar(cluster.mean_of(runs[k], of("mean")), cluster.mean_of(runs[k], of("p95")))
            for k in keys.values()
        ]
        bars.panel(ax, list(keys), {WITH: values})
        ax.patches[0].set_facecolor(style.WITHOUT)
        ax.set_title(title, fontsize=9)
        ax.tick_params(axis="x", labelsize=7)
    axes[0].set_ylabel("µs")
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Section 7.2; and what cutting does, which is ours."""
    found = []
    for statistic, percent in {"mean": 36, "p90": 37, "p95": 41, "p99": 54}.items():
        gain = ratio(runs[WITH, WHOLE], runs[WITH, SMALL], cluster.rct(statistic))
        found.append(
            Claim(
                f"16 KB: {statistic} incast RCT is lower by another {percent}%",
                "at least 20% lower than with 64 KB",
                f"{(1 - 1 / gain.mean) * 100:.0f}% lower ({gain.text('×')})",
                gain.mean >= 1.25,
            )
        )
    for size in ("small", "medium"):
        gain = ratio(runs[WITH, WHOLE], runs[WITH, SMALL], cluster.fct(size))
        found.append(
            Claim(
                f"16 KB: mean FCT of {size} flows is lower by another 8–14%",
                "at least 5% lower than with 64 KB",
                f"{(1 - 1 / gain.mean) * 100:.0f}% lower ({gain.text('×')})",
                gain.mean >= 1.05,
            )
        )
    large = ratio(runs[WITH, WHOLE], runs[WITH, SMALL], cluster.fct("large"))
    found.append(
        Claim(
            "16 KB: the throughput of long flows is well maintained",
            f"64 KB over 16 KB at least {cluster.KEPT} for the mean FCT of large flows",
            large.text("×"),
            large.mean >= cluster.KEPT,
        )
    )
    cut = ratio(runs[WITH, WHOLE], runs[WITH, CUT], cluster.rct("p99"))
    found.append(
        Claim(
            "not in the paper: cutting where it is congested gains as 16 KB do",
            "p99 incast RCT at least 20% lower than with whole 64 KB",
            f"{(1 - 1 / cut.mean) * 100:.0f}% lower ({cut.text('×')})",
            cut.mean >= 1.25,
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
)
