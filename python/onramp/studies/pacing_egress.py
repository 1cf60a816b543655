"""One pacer for all flows of a NIC, and On-Ramp in place of pacing (Ghobadi and Ganjali, "Future trends")."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate, ratio
from onramp.plots import style
from onramp.studies import paced
from onramp.studies.paced import HELPS, MEASURES, NONE, PACED, key

NUMBERS = (2, 8, 32, 64, 128, 400)
QUICK_NUMBERS = (8, 32, 128)
BUFFER = 0.034
EGRESS, ONRAMP = "egress", "On-Ramp"
#: One-way delay of the empty path and half of the buffer: 5.01 and 0.17 ms.
SYSTEMS: Mapping[str, Mapping[str, object]] = {
    NONE: {},
    PACED: {"host.pacing": PACED},
    EGRESS: {"host.pacing": EGRESS},
    ONRAMP: {"onramp.enabled": True, "onramp.threshold": "5180us"},
}
LABELS = {**paced.LABELS, ONRAMP: ONRAMP}
#: "Beyond N*" is from twice C·RTT / buffer on.
BEYOND = 2 / BUFFER


def cases(quick: bool) -> list[Case]:
    """Every number of flows of one server."""
    return [
        paced.case(
            key(number, system),
            number,
            NONE,
            quick,
            {**paced.link(1.0, 10.0, BUFFER), **more},
            one_server=True,
        )
        for number in (QUICK_NUMBERS if quick else NUMBERS)
        for system, more in SYSTEMS.items()
    ]


def draw(runs: Runs) -> Figure:
    """The four measures over the number of flows."""
    figure, axes = style.panels(1, len(MEASURES), (2.7, 2.5))
    xs = paced.measured(runs, NUMBERS)
    for ax, (title, of, scale, _) in zip(axes, MEASURES, strict=True):
        for system in SYSTEMS:
            values = [scale * estimate(runs[key(n, system)], of).mean for n in xs]
            ax.plot(xs, values, "o-", ms=3, lw=1.3, color=paced.COLOURS[system], label=LABELS[system])
        ax.axvline(1 / BUFFER, color=style.INK, lw=0.8, ls=":", label="C·RTT / buffer")
        ax.set_xscale("log")
        style.log_ticks(ax.xaxis)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("flows of one NIC")
        ax.set_title(title, fontsize=9)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Does one pacer keep the benefit beyond N*? And is On-Ramp a better answer?"""
    found = []
    xs = paced.measured(runs, NUMBERS)
    beyond = [n for n in xs if n >= BEYOND]
    for title, of, _, more in MEASURES:
        gains = {n: ratio(runs[key(n, EGRESS)], runs[key(n, NONE)], of) for n in beyond}
        found.append(
            Claim(
                f"beyond N*, from {beyond[0]} flows on, one pacer has better {title.split(' (')[0]}",
                f"over not paced {'above' if more else 'below'} 1",
                ", ".join(f"{gain.text('×')} with {n}" for n, gain in gains.items()),
                tuple(gain.above(1) if more else gain.below(1) for gain in gains.values()),
            )
        )
    few = [n for n in xs if n < 1 / BUFFER]
    gains = {n: ratio(runs[key(n, EGRESS)], runs[key(n, PACED)], paced.utilization) for n in few}
    found.append(
        Claim(
            f"up to {few[-1]} flows one pacer for the NIC is as good as one for each flow",
            f"utilization at least {1 - HELPS:g} of it",
            ", ".join(f"{gain.text('×')} with {n}" for n, gain in gains.items()),
            tuple(gain.at_least(1 - HELPS) for gain in gains.values()),
            of_paper=False,
        )
    )
    for title, of, scale, more in MEASURES[:2]:
        sides = {n: [estimate(runs[key(n, system)], of) for system in (PACED, ONRAMP)] for n in xs}
        found.append(
            Claim(
                f"On-Ramp is a better answer than pacing: {title.split(' (')[0]}",
                "higher" if more else "lower",
                ", ".join(
                    f"{a.text('', scale)} to {b.text('', scale)} with {n}" for n, (a, b) in sides.items()
                ),
                tuple(paced.better(b, a, more) for a, b in sides.values()),
                of_paper=False,
            )
        )
    return [*found, paced.steady(runs)]


EXPERIMENT = Experiment(
    __name__,
    ("sim",),
    "One pacer for all flows of a NIC, and On-Ramp in place of pacing",
    cases,
    draw,
    claims,
)
