"""Figure 21: sensitivity to T and g on Linux."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import BOTH_VARIANTS, WITH, WITHOUT, Case, Experiment, Runs
from onramp.paper.verdict import Claim, Estimate, ratio
from onramp.plots import bars, style

THRESHOLDS = (50, 100, 150, 200, 300, 500)
GAINS = {"1/4": 0.25, "1/16": 0.0625, "1/64": 0.015625}
#: The scenario's own T and g: the same runs.
DEFAULT_T, DEFAULT = "150", "1/16"
#: "Noticeably" is read as at least this factor, "mildly" and "relatively insensitive" as at most these.
NOTICEABLY, MILDLY, INSENSITIVE = 1.15, 1.25, 1.15
KINDS = ("incast", "small", "medium", "large")


def cases(quick: bool) -> list[Case]:
    """Without On-Ramp, and with it for every T and g."""
    without = cluster.one((WITHOUT,), WITHOUT, quick, {})
    changes: dict[tuple[str, str], dict[str, object]] = {
        **{("T", str(t)): {"onramp.threshold": f"{t}us"} for t in THRESHOLDS},
        **{("g", g): {"onramp.gain": value} for g, value in GAINS.items() if g != DEFAULT},
    }
    return [without, *(cluster.one(key, WITH, quick, overrides) for key, overrides in changes.items())]


def _relative(runs: Runs, key: tuple[str, str], kind: str, statistic: str) -> Estimate:
    if key == ("g", DEFAULT):
        key = ("T", DEFAULT_T)
    of = cluster.rct(statistic) if kind == "incast" else cluster.fct(kind, statistic)
    return ratio(runs[key], runs[WITHOUT,], of)


def draw(runs: Runs) -> Figure:
    """Means over no On-Ramp, by kind of completion time."""
    figure, axes = style.panels(1, 2, (4.8, 2.7), sharey=True, width_ratios=(len(THRESHOLDS), len(GAINS)))
    for ax, name, values in zip(axes, "Tg", ([str(t) for t in THRESHOLDS], list(GAINS)), strict=True):
        for i, kind in enumerate(KINDS):
            y = [_relative(runs, (name, v), kind, "mean").mean for v in values]
            ax.plot(values, y, "o-", ms=4, lw=1.3, color=style.LAYERS[i], label=bars.TITLES[kind])
        ax.axhline(1, color=style.INK, lw=0.8, ls=":")
        ax.set_xlabel("T (µs)" if name == "T" else "g")
        ax.set_ylim(bottom=0)
    axes[0].set_ylabel("mean over no On-Ramp's")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Section 7.4; §5.1.4 on "mildly"."""
    found = []
    for what, kind in (("RCT", "incast"), ("FCT of small flows", "small"), ("FCT of medium flows", "medium")):
        for statistic in ("mean", "p95"):
            at = {t: _relative(runs, ("T", str(t)), kind, statistic) for t in THRESHOLDS}
            shown = ", ".join(f"{e.text()} at {t} µs" for t, e in at.items())
            worse, mild = at[500].over(at[300]), at[300].over(at[50])
            found += [
                Claim(
                    f"{statistic} {what} worsens noticeably as T grows beyond 300 µs",
                    f"at 500 µs at least {NOTICEABLY:g} times that at 300 µs",
                    f"{worse.text('×')} (over no On-Ramp's: {shown})",
                    (worse.at_least(NOTICEABLY),),
                ),
                Claim(
                    f"{statistic} {what} is only mildly sensitive to T up to 300 µs",
                    f"at 300 µs {1 / MILDLY:g} to {MILDLY:g} times that at 50 µs",
                    mild.text("×"),
                    (mild.between(1 / MILDLY, MILDLY),),
                ),
            ]
    for statistic in ("mean", "p95"):
        gains = {g: _relative(runs, ("g", g), "incast", statistic) for g in GAINS}
        others = [gains[g].over(gains[DEFAULT]) for g in GAINS if g != DEFAULT]
        found.append(
            Claim(
                f"{statistic} RCT is relatively insensitive to g from 1/4 to 1/64",
                f"{1 / INSENSITIVE:.3g} to {INSENSITIVE:g} times that at {DEFAULT}",
                ", ".join(f"{e.text()} at {g}" for g, e in gains.items()),
                tuple(e.between(1 / INSENSITIVE, INSENSITIVE) for e in others),
            )
        )
    return found


EXPERIMENT = Experiment(
    __name__,
    ("linux", "sim"),
    "CUBIC: RCT and FCT over T and g, normalised by no On-Ramp",
    cases,
    draw,
    claims,
    variants=BOTH_VARIANTS,
)
