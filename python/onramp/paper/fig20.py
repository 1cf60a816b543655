"""Figure 20: two groups that share a network, with and without On-Ramp."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow.compute as pc
from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import BOTH_VARIANTS, WITHOUT, Case, Experiment, Runs
from onramp.paper.verdict import Claim, ratio
from onramp.plots import bars, style
from onramp.result import Result
from onramp.summary import microseconds

NEITHER, ONE, BOTH = "neither", "group 1", "both"
#: Traffic sections of the scenario: background and incast of each group.
GROUPS = {"group 1": (0, 1), "group 2": (2, 3)}
#: "Only slight" is read as at most this factor.
SLIGHTLY = 1.25
FIRST = [f"h{i}" for i in range(0, 100, 2)]


def cases(quick: bool) -> list[Case]:
    """On-Ramp nowhere, in one group, in both."""
    span = cluster.span(quick)
    return [
        Case((NEITHER,), "cluster-groups", {**span, "onramp.enabled": False}),
        Case((ONE,), "cluster-groups", {**span, "onramp.hosts": FIRST}),
        Case((BOTH,), "cluster-groups", span),
    ]


def _rct(group: str, statistic: Callable[[np.ndarray], float]) -> Callable[[Result], float | None]:
    def of(result: Result) -> float | None:
        requests = result.requests
        mine = requests.filter(pc.equal(requests["traffic"], GROUPS[group][1]))
        return statistic(microseconds(mine["rct_ps"])) if len(mine) else None

    return of


def _mean(values: np.ndarray) -> float:
    return float(values.mean())


def _p95(values: np.ndarray) -> float:
    return float(np.percentile(values, 95))


def _bar(results: Sequence[Result], group: str) -> bars.Bar:
    return cluster.bar(results, _rct(group, _mean), _rct(group, _p95))


def draw(runs: Runs) -> Figure:
    """RCT of each group over who has On-Ramp."""
    figure, axes = style.panels(1, 2, (3.6, 2.7))
    for ax, group in zip(axes, GROUPS, strict=True):
        bars.panel(ax, [NEITHER, ONE, BOTH], {WITHOUT: [_bar(runs[k,], group) for k in (NEITHER, ONE, BOTH)]})
        for patch, colour in zip(ax.patches, (style.WITHOUT, *style.LAYERS[:2]), strict=False):
            patch.set_facecolor(colour)
        ax.set_title(f"Incast RCT, {group}")
        ax.set_xlabel("who has On-Ramp")
    bars.share_scale(axes)
    axes[0].set_ylabel("µs (bar: mean, dash: p95)")
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Section 7.3."""
    found = []
    for name, statistic in (("mean", _mean), ("p95", _p95)):
        for group in GROUPS:
            gain = ratio(runs[NEITHER,], runs[ONE,], _rct(group, statistic))
            found.append(
                Claim(
                    f"{group}'s {name} RCT is lower when group 1 uses On-Ramp than when neither does",
                    "neither over group 1 above 1",
                    gain.text("×"),
                    (gain.above(1),),
                )
            )
        more = ratio(runs[ONE,], runs[BOTH,], _rct("group 1", statistic))
        found.append(
            Claim(
                f"group 1's {name} RCT is only slightly lower when group 2 uses On-Ramp, too",
                f"group 1 over both 1 to {SLIGHTLY:g}",
                more.text("×"),
                (more.between(1, SLIGHTLY),),
            )
        )
    for name in ("mean", "p95"):
        for size in ("small", "medium"):
            gain = ratio(runs[NEITHER,], runs[BOTH,], cluster.fct(size, name))
            found.append(
                Claim(
                    f"{name} FCT of both groups' {size} flows is lower when both use On-Ramp",
                    "neither over both above 1",
                    gain.text("×"),
                    (gain.above(1),),
                    of_paper=False,
                )
            )
    return found


EXPERIMENT = Experiment(
    __name__,
    ("linux", "sim"),
    "CUBIC: two groups share a network, neither, one or both with On-Ramp",
    cases,
    draw,
    claims,
    variants=BOTH_VARIANTS,
)
