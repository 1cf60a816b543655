"""Figure 21: sensitivity to T and g on Linux."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import WITH, WITHOUT, Case, Claim, Estimate, Experiment, Runs, ratio
from onramp.plots import bars, style

THRESHOLDS = (50, 100, 150, 200, 300, 500)
GAINS = {"1/4": 0.25, "1/16": 0.0625, "1/64": 0.015625}
#: The scenario's own T and g: the same runs.
DEFAULT_T, DEFAULT = "150", "1/16"
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
    """Section 7.4."""
    rct = {t: _relative(runs, ("T", str(t)), "incast", "p95") for t in THRESHOLDS}
    gains = {g: _relative(runs, ("g", g), "incast", "mean") for g in GAINS}
    spread = max(e.mean for e in gains.values()) / min(e.mean for e in gains.values())
    return [
        Claim(
            "performance worsens noticeably as T goes beyond 300 µs",
            "p95 RCT at 500 µs at least 1.15 times that at 50 µs",
            ", ".join(f"{e.text()} at {t}" for t, e in rct.items()),
            rct[500].mean >= 1.15 * rct[50].mean,
        ),
        Claim(
            "performance is relatively insensitive to g from 1/4 to 1/64",
            "largest mean RCT at most 1.15 times the smallest",
            ", ".join(f"{e.text()} at {g}" for g, e in gains.items()),
            spread <= 1.15,
        ),
    ]


EXPERIMENT = Experiment(
    __name__,
    ("linux", "sim"),
    "CUBIC: RCT and FCT over T and g, normalised by no On-Ramp",
    cases,
    draw,
    claims,
)
