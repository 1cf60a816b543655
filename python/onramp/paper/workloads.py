"""Figures 15, 16 and 26: background traffic and incast on the fat tree, under six congestion controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from onramp.paper import common
from onramp.paper.common import WITH, WITHOUT, Case, Experiment, Runs, both
from onramp.paper.verdict import Check, Claim, Estimate, ratio
from onramp.plots import bars, style

#: Scenario file suffix to name.
SCHEMES = {
    "dcqcn": "DCQCN",
    "timely": "TIMELY",
    "dcqcn-w": "DCQCN+w",
    "timely-w": "TIMELY+w",
    "dctcp": "DCTCP",
    "hpcc": "HPCC",
}

#: "Reduced significantly" is read as at least this ratio, "not significantly improved" as less.
CLEARLY = 1.1
#: "Well maintained" is read as at least this ratio.
MAINTAINED = 0.95


#: Panels of a figure: flows by size, unless nearly all are small.
PANELS = ("incast", "small", "medium", "large")


def experiment(
    module: str,
    title: str,
    claims: Callable[[Runs], list[Claim]],
    *,
    panels: Sequence[str] = PANELS,
    duration: str = "5ms",
    quickly: tuple[str, str] = ("1ms", "2ms"),
) -> Experiment:
    """A figure of completion times; its last claims are that they were in steady state.

    Parameters
    ----------
    quickly : (str, str)
        Duration and warm-up of the quick form.
    """

    def cases(quick: bool) -> list[Case]:
        """Every scheme without and with On-Ramp, from a scenario file each."""
        span = dict(zip(("duration", "warmup"), quickly, strict=True)) if quick else {"duration": duration}
        return [c for s in SCHEMES for c in both((s,), f"{common.named(module)}-{s}", span)]

    return Experiment(
        module,
        ("sim",),
        title,
        cases,
        lambda runs: draw(runs, panels),
        lambda runs: claims(runs) + steady(runs),
    )


def steady(runs: Runs) -> list[Claim]:
    """Claim that requests of the first half of the measured time take as long as the others."""
    return [common.steady(name, runs[s, WITHOUT], runs[s, WITH]) for s, name in SCHEMES.items()]


def draw(runs: Runs, panels: Sequence[str]) -> Figure:
    """One panel per kind of completion time, schemes side by side."""
    columns = 2
    figure, axes = style.panels(-(-len(panels) // columns), columns, (4.6, 2.7))
    for ax, name in zip(axes, panels, strict=True):
        sides = {side: [bars.over(runs[s, side], name) for s in SCHEMES] for side in (WITHOUT, WITH)}
        bars.panel(ax, list(SCHEMES.values()), sides, ratio=True)
        ax.set_title(bars.TITLES[name])
        ax.tick_params(axis="x", labelsize=8)
    for ax in axes[::columns]:
        ax.set_ylabel("µs")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


def gains(runs: Runs, scheme: str, panel: str) -> tuple[Estimate, Estimate]:
    """Without over with On-Ramp: of the means, and of the 95th percentiles."""
    sides = runs[scheme, WITHOUT], runs[scheme, WITH]
    return (
        ratio(*sides, lambda r: bars.bar(r.summary, panel)[0]),
        ratio(*sides, lambda r: bars.bar(r.summary, panel)[1]),
    )


def lower(runs: Runs, scheme: str, panel: str, what: str) -> Claim:
    """Both mean and tail are reduced significantly."""
    statement, criterion = f"mean and tail {what} reduced significantly", f"at least {CLEARLY}"
    return judged(runs, scheme, panel, statement, criterion, lambda gain: gain.at_least(CLEARLY))


def same(runs: Runs, scheme: str, panel: str, what: str) -> Claim:
    """Neither mean nor tail changes significantly."""
    least = 1 / CLEARLY
    statement, criterion = f"{what} not significantly improved", f"between {least:.2f} and {CLEARLY}"
    return judged(runs, scheme, panel, statement, criterion, lambda gain: gain.between(least, CLEARLY))


def judged(
    runs: Runs, scheme: str, panel: str, statement: str, criterion: str, check: Callable[[Estimate], Check]
) -> Claim:
    """Claim on the gain of a mean and of its 95th percentile, which has to hold for both."""
    mean, tail = gains(runs, scheme, panel)
    return Claim(
        f"{SCHEMES[scheme]}: {statement}",
        f"without/with {criterion} for mean and p95",
        f"mean {mean.text('×')}, p95 {tail.text('×')}",
        (check(mean), check(tail)),
    )
