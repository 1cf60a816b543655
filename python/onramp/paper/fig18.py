"""Figure 18: what inaccurate clocks cost, on the scenarios of figure 15."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.figure import Figure

from onramp.paper import workloads
from onramp.paper.common import WITH, WITHOUT, Case, Experiment, Runs
from onramp.paper.verdict import Claim, Estimate, estimate, ratio
from onramp.plots import bars, style
from onramp.result import Result

SCHEMES = ("dcqcn", "timely", "hpcc")
#: σ in microseconds. At the paper's default of 0.2 its T of 16 µs stays; above, T follows the formula.
SIGMAS = (0.2, 1, 2, 5, 10, 20, 50, 100)
NO_OR = "no OR"
#: Clocks that run on their own: T follows the uncertainty that their synchronisation reports.
REAL: Mapping[str, Mapping[str, str]] = {
    "HW": {"sync": "huygens", "stamps": "hardware"},
    "SW": {"sync": "huygens", "stamps": "software"},
    "NTP": {"sync": "ntp"},
}
#: Shorter windows than 2 s, and one before the load in place of two.
QUICK = {"window": "200ms", "probe_interval": "2ms", "lead": "210ms"}


def cases(quick: bool) -> list[Case]:
    """Every scheme without On-Ramp, and with it for every σ and every kind of synchronisation."""
    duration = {"duration": "1ms", "warmup": "2ms"} if quick else {"duration": "2ms"}
    found = []
    for scheme in SCHEMES:
        file = f"fig15-{scheme}"
        found.append(Case((scheme, WITHOUT), file, {**duration, "onramp.enabled": False}))
        for sigma in SIGMAS:
            threshold = 16 if sigma == 0.2 else 2 * sigma + 6
            clock = {"clock.sigma": f"{sigma * 1000:g}ns", "onramp.threshold": f"{threshold:g}us"}
            found.append(Case((scheme, WITH, str(sigma)), file, {**duration, **clock}))
        for name, sync in REAL.items():
            short = QUICK if quick and sync["sync"] == "huygens" else {}
            real = {"clock": {**sync, **short}, "onramp.threshold": "auto"}
            found.append(Case((scheme, WITH, name), file, {**duration, **real}))
    return found


def draw(runs: Runs) -> Figure:
    """One panel per scheme; the first bar is without On-Ramp, the last ones are with synchronised clocks."""
    figure, axes = style.panels(1, len(SCHEMES), (4.0, 2.8))
    for ax, scheme in zip(axes, SCHEMES, strict=True):
        first = bars.over(runs[scheme, WITHOUT], "incast")
        names = [*map(str, SIGMAS), *REAL]
        others = [bars.over(runs[scheme, WITH, name], "incast") for name in names]
        bars.panel(ax, [NO_OR, *(f"{s:g}" for s in SIGMAS), *REAL], {WITH: [first, *others]})
        ax.patches[0].set_facecolor(style.WITHOUT)
        for patch in ax.patches[-len(REAL) :]:
            patch.set_facecolor(style.LAYERS[2])
        ax.axvline(len(SIGMAS) + 0.5, color=style.INK, lw=0.6, ls=":")
        ax.set_title(workloads.SCHEMES[scheme])
        ax.set_xlabel("σ of the clocks (µs); or synchronised, T auto")
        ax.tick_params(axis="x", labelsize=7.5)
    axes[0].set_ylabel("incast RCT, µs (bar: mean, dash: p95)")
    bars.share_scale(axes)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Section 7.1."""
    found = []
    for scheme in SCHEMES[:2]:
        name = workloads.SCHEMES[scheme]
        for i, statistic in enumerate(("mean", "p95")):
            rct = {s: _rct(runs, scheme, s, i) for s in SIGMAS}
            below, within = rct[10].over(rct[1]), rct[100].over(rct[10])
            found += [
                Claim(
                    f"{name}: {statistic} RCT grows with σ",
                    "larger at 100 µs than at 20 µs than at 0.2 µs",
                    ", ".join(f"{rct[s].text(' µs')} at {s:g}" for s in (0.2, 20, 100)),
                    (rct[20].over(rct[0.2]).above(1), rct[100].over(rct[20]).above(1)),
                ),
                Claim(
                    f"{name}: {statistic} RCT degrades more once σ is comparable to delays under congestion",
                    "a larger factor from 10 to 100 µs than from 1 to 10 µs",
                    f"{within.text('×')} after {below.text('×')}",
                    (within.over(below).above(1),),
                ),
            ]
    for i, statistic in enumerate(("mean", "p95")):
        gains = [
            ratio(runs["hpcc", WITHOUT], runs["hpcc", WITH, str(s)], lambda r, i=i: _time(r, i))  # type: ignore[misc]
            for s in SIGMAS
        ]
        worst = max(gains, key=lambda e: abs(math.log(e.mean)))
        found.append(
            Claim(
                f"HPCC: On-Ramp does not affect {statistic} RCT at any σ",
                f"without/with between {1 / workloads.CLEARLY:.2f} and {workloads.CLEARLY} at every σ",
                f"furthest from 1: {worst.text('×')}",
                tuple(gain.between(1 / workloads.CLEARLY, workloads.CLEARLY) for gain in gains),
            )
        )
    for scheme in SCHEMES[:2]:
        found += _real(runs, scheme)
    return found


def _real(runs: Runs, scheme: str) -> list[Claim]:
    """Clocks synchronised over the network, T as §7.1 has it from the uncertainty they report."""
    name = workloads.SCHEMES[scheme]
    good = _rct(runs, scheme, 0.2, 0)
    rct = {kind: _rct(runs, scheme, kind, 0) for kind in REAL}
    t = {kind: estimate(runs[scheme, WITH, kind], _threshold) for kind in REAL}
    found = [
        Claim(
            f"{name}: the uncertainty that Huygens reports can set T, {what}",
            f"mean RCT at most {workloads.CLEARLY} times that at σ = 0.2 µs",
            f"{rct[kind].text(' µs')} at a mean T of {t[kind].text(' µs')}, against {good.text(' µs')}",
            (rct[kind].over(good).at_most(workloads.CLEARLY),),
        )
        for kind, what in (("HW", "with NIC stamps"), ("SW", "with software stamps"))
    ]
    ntp, huygens = rct["NTP"], rct["SW"]
    found.append(
        Claim(
            f"{name}: On-Ramp is much less effective with NTP (§3.3)",
            f"mean RCT at least {workloads.CLEARLY} times that with Huygens and software stamps",
            f"{ntp.text(' µs')} at a mean T of {t['NTP'].text(' µs')}, against {huygens.text(' µs')}",
            (ntp.over(huygens).at_least(workloads.CLEARLY),),
        )
    )
    return found


def _threshold(result: Result) -> float:
    """Mean T over OR-ACKs in microseconds."""
    return float(result.summary["clock"]["threshold_us"]["mean"])


def _time(result: Result, i: int) -> float | None:
    return bars.bar(result.summary, "incast")[i]


def _rct(runs: Runs, scheme: str, clocks: float | str, i: int) -> Estimate:
    return estimate(runs[scheme, WITH, str(clocks)], lambda r: _time(r, i))


EXPERIMENT = Experiment(
    __name__,
    ("sim",),
    "Incast RCT over the inaccuracy of clocks, T = 2σ + 6 µs, and with clocks that are synchronised",
    cases,
    draw,
    claims,
)
