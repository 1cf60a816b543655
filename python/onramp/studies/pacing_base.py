"""One flow and two, paced and not, with 64 KB of buffer (Ghobadi and Ganjali, "Base-case experiment")."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate, ratio
from onramp.plots import style
from onramp.result import Result
from onramp.studies import paced
from onramp.studies.paced import MEASURES, NONE, PACED, key

ONRAMP = "On-Ramp"
#: One-way delay of the empty path plus half of the buffer: 5.04 ms and 0.26 ms.
HELD = {"onramp.enabled": True, "onramp.threshold": "5300us"}
SYSTEMS: Mapping[str, Mapping[str, object]] = {
    NONE: {},
    PACED: {"host.pacing": PACED},
    "burst": {"host.pacing": "burst"},
    ONRAMP: HELD,
}
BUFFER = {"linux.buffer": "64KB"}
#: The first flow is alone for half of the time.
JOINS = "pacing-joins"
LABELS = {**paced.LABELS, ONRAMP: ONRAMP}


def cases(quick: bool) -> list[Case]:
    """Flows one after the other on one and on two connections; and a flow without end that a second joins."""
    span = paced.QUICK_SPAN if quick else {}
    found = []
    for system, more in SYSTEMS.items():
        for number in (1, 2):
            own = {**span, **paced.flows(number), **BUFFER, **more}
            found.append(Case((str(number), system), paced.FILE, own))
        found.append(Case(("joins", system), JOINS, dict(more)))
    return found


def halves(result: Result) -> tuple[float, float]:
    """Utilization before and after the second flow joins, at 5 of 10 s, but for a second each."""
    t, used = result.samples(f"utilization {paced.PORT}", measured=True)
    before, after = (t > 1) & (t <= 5), t > 6
    return float(used[before].mean()), float(used[after].mean())


def draw(runs: Runs) -> Figure:
    """The four measures with one flow and two, and the link as the second joins."""
    figure, axes = style.panels(2, 3, (3.3, 2.3))
    for ax, (title, of, scale, _) in zip(axes, MEASURES, strict=False):
        for i, system in enumerate(SYSTEMS):
            values = [scale * estimate(runs[key(n, system)], of).mean for n in (1, 2)]
            places = [n + (i - 1.5) * 0.2 for n in (0, 1)]
            ax.bar(places, values, 0.19, color=paced.COLOURS[system], label=LABELS[system])
        ax.set_xticks([0, 1], ["one flow", "two flows"])
        ax.set_title(title, fontsize=9)
    for ax, what, scale, title in (
        (axes[4], "utilization", 100, "link used (%) as a second joins at 5 s"),
        (axes[5], "queue", 1e-3, "largest queue (KB) in 100 ms"),
    ):
        for system in SYSTEMS:
            t, value = runs[("joins", system)][0].samples(f"{what} {paced.PORT}", measured=True)
            step = 100
            cut = len(t) // step * step
            blocks = value[:cut].reshape(-1, step)
            y = blocks.mean(axis=1) if what == "utilization" else blocks.max(axis=1)
            ax.plot(t[:cut:step], scale * y, lw=1, color=paced.COLOURS[system])
        ax.axvline(5, color=style.INK, lw=0.8, ls=":")
        ax.set_xlabel("time (s)")
        ax.set_ylim(bottom=0)
        ax.set_title(title, fontsize=9)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Pacing is better with one flow and with two, in utilization, drops and FCT."""
    found = []
    for number in (1, 2):
        for title, of, scale, more in MEASURES:
            sides = [runs[key(number, system)] for system in (PACED, NONE)]
            values = [estimate(side, of) for side in sides]
            found.append(
                Claim(
                    f"{number} flow{'s' if number > 1 else ''}: pacing has better {title.split(' (')[0]}",
                    "higher" if more else "lower",
                    f"{values[1].text('', scale)} to {values[0].text('', scale)}",
                    (paced.better(values[0], values[1], more),),
                )
            )
    for system in (NONE, PACED):
        results = runs[("joins", system)]
        before = estimate(results, lambda r: halves(r)[0])
        after = estimate(results, lambda r: halves(r)[1])
        found.append(
            Claim(
                f"{LABELS[system]}: a second flow that joins changes what is used of the link",
                "no congestion, then congestion: more is used with two",
                f"{before.text('', 100)} to {after.text('%', 100)}",
                (after.minus(before).above(0),),
            )
        )
    for number in (1, 2):
        gains = {
            system: ratio(runs[key(number, system)], runs[key(number, NONE)], paced.utilization)
            for system in (PACED, ONRAMP)
        }
        found.append(
            Claim(
                f"{number} flow{'s' if number > 1 else ''}: On-Ramp is a better answer than pacing",
                "more of the link is used",
                f"{gains[ONRAMP].text('×')} for {gains[PACED].text('×')}",
                (gains[ONRAMP].over(gains[PACED]).above(1),),
                of_paper=False,
            )
        )
    # A flow that another joins does not come to rest.
    return [*found, paced.steady({case: results for case, results in runs.items() if case[0] != "joins"})]


EXPERIMENT = Experiment(
    __name__,
    ("sim", "linux"),
    "Pacing: one flow, and a second that joins, with 64 KB of buffer",
    cases,
    draw,
    claims,
)
