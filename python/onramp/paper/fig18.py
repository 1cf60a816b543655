"""Figure 18: what inaccurate clocks cost, on the scenarios of figure 15."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import workloads
from onramp.paper.common import WITH, WITHOUT, Case, Claim, Estimate, Runs, estimate, ratio
from onramp.plots import bars, style
from onramp.result import Result

NAME = "fig18"
ON = "sim"
TITLE = "Incast RCT over the inaccuracy of clocks, T = 2σ + 6 µs"

SCHEMES = ("dcqcn", "timely", "hpcc")
#: σ in microseconds. At the paper's default of 0.2 its T of 16 µs stays; above, T follows the formula.
SIGMAS = (0.2, 1, 2, 5, 10, 20, 50, 100)
NO_OR = "no OR"


def cases(quick: bool) -> list[Case]:
    """Every scheme without On-Ramp, and with it for every σ."""
    duration = {"duration": "1ms" if quick else "3ms"}
    found = []
    for scheme in SCHEMES:
        file = f"fig15-{scheme}"
        found.append(Case((scheme, WITHOUT), file, {**duration, "onramp.enabled": False}))
        for sigma in SIGMAS:
            threshold = 16 if sigma == 0.2 else 2 * sigma + 6
            clock = {"clock.sigma": f"{sigma * 1000:g}ns", "onramp.threshold": f"{threshold:g}us"}
            found.append(Case((scheme, WITH, str(sigma)), file, {**duration, **clock}))
    return found


def draw(runs: Runs) -> Figure:
    """One panel per scheme; the first bar is without On-Ramp."""
    figure, axes = style.panels(1, len(SCHEMES), (3.4, 2.8), sharey=True)
    for ax, scheme in zip(axes, SCHEMES, strict=True):
        first = workloads.mean_bar(runs[scheme, WITHOUT], "incast")
        others = [workloads.mean_bar(runs[scheme, WITH, str(s)], "incast") for s in SIGMAS]
        bars.panel(ax, [NO_OR, *(f"{s:g}" for s in SIGMAS)], {WITH: [first, *others]})
        ax.patches[0].set_facecolor(style.WITHOUT)
        ax.set_title(workloads.SCHEMES[scheme])
        ax.set_xlabel("σ of the clocks (µs)")
        ax.tick_params(axis="x", labelsize=8)
    axes[0].set_ylabel("incast RCT (µs)")
    low = min(ax.get_ylim()[0] for ax in axes)
    high = max(v for runs_ in runs.values() for v in workloads.mean_bar(runs_, "incast") if v)
    axes[0].set_ylim(low, high * 1.6)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Section 7.1."""
    found = []
    for scheme in SCHEMES[:2]:
        name = workloads.SCHEMES[scheme]
        for i, statistic in enumerate(("mean", "p95")):
            rct = {s: _rct(runs, scheme, s, i) for s in SIGMAS}
            found += [
                Claim(
                    f"{name}: {statistic} RCT grows with σ",
                    "larger at 100 µs than at 20 µs than at 0.2 µs",
                    ", ".join(f"{rct[s].text(' µs')} at {s:g}" for s in (0.2, 20, 100)),
                    rct[0.2].mean < rct[20].mean < rct[100].mean,
                ),
                Claim(
                    f"{name}: {statistic} RCT degrades more once σ is 20–100 µs",
                    "the step from 10 to 100 µs is larger than that from 0.2 to 10 µs",
                    f"{rct[0.2].text()} to {rct[10].text()} to {rct[100].text(' µs')}",
                    rct[100].mean - rct[10].mean > rct[10].mean - rct[0.2].mean,
                ),
            ]
    for i, statistic in enumerate(("mean", "p95")):
        worst = max(
            (
                ratio(runs["hpcc", WITHOUT], runs["hpcc", WITH, str(s)], lambda r, i=i: _time(r, i))  # type: ignore[misc]
                for s in SIGMAS
            ),
            key=lambda e: abs(e.mean - 1),
        )
        found.append(
            Claim(
                f"HPCC: On-Ramp does not affect {statistic} RCT at any σ",
                f"without/with between {1 / workloads.CLEARLY:.2f} and {workloads.CLEARLY} at every σ",
                f"furthest from 1: {worst.text('×')}",
                1 / workloads.CLEARLY < worst.mean < workloads.CLEARLY,
            )
        )
    return found


def _time(result: Result, i: int) -> float | None:
    return bars.bar(result.summary, "incast")[i]


def _rct(runs: Runs, scheme: str, sigma: float, i: int) -> Estimate:
    return estimate(runs[scheme, WITH, str(sigma)], lambda r: _time(r, i) or 0.0)
