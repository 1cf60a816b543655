"""Every transport on one scenario, in the lecture's taxonomy: loss, delay, explicit feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.paper.common import WITH, WITHOUT, Case, Experiment, Key, Runs
from onramp.paper.verdict import Claim, estimate
from onramp.plots import style
from onramp.result import Result
from onramp.summary import Floats, background, microseconds

FILE = "transports"
PORT = "s0->s1"
LOSS, DELAY, EXPLICIT = "loss", "delay", "explicit feedback"
#: Kind of transport to what it is called, and what tells it of congestion.
TRANSPORTS: Mapping[str, tuple[str, str]] = {
    "newreno": ("NewReno", LOSS),
    "cubic": ("CUBIC", LOSS),
    "vegas": ("Vegas", DELAY),
    "bbr": ("BBR", DELAY),
    "timely": ("TIMELY", DELAY),
    "swift": ("Swift", DELAY),
    "dctcp-tcp": ("DCTCP", EXPLICIT),
    "dctcp": ("DCTCP, a rate", EXPLICIT),
    "dcqcn": ("DCQCN", EXPLICIT),
    "hpcc": ("HPCC", EXPLICIT),
    "rcp": ("RCP", EXPLICIT),
    "xcp": ("XCP", EXPLICIT),
}
TCP = ("newreno", "cubic", "vegas", "bbr", "dctcp-tcp")
#: Seconds from which on all four flows are there, and that it takes them to share.
ALL_AT = 0.16
#: Bytes of a short flow at most.
SHORT = 100_000
#: "The link is in use", "fair" (Jain's index of four flows), "short" queues.
USED, FAIR = 0.85, 0.8


def key(kind: str, side: str) -> Key:
    """Of a case."""
    return (kind, side)


def cases(quick: bool) -> list[Case]:
    """Every transport, without and with On-Ramp. Nothing is left out where it is quick."""
    found = []
    for kind in TRANSPORTS:
        own: dict[str, object] = {"transport.kind": kind}
        if kind in TCP:
            own["linux.buffer"] = "500KB"
        found += [
            Case(key(kind, side), FILE, {**own, "onramp.enabled": side == WITH}) for side in (WITHOUT, WITH)
        ]
    return found


def rates(result: Result) -> list[tuple[Floats, Floats]]:
    """Of the four flows in the order of their start: times in seconds and Gb/s over a millisecond."""
    names = sorted((n for n in result.series_names if n.startswith("rate flow")), key=lambda n: n.split()[-1])
    found = []
    for name in names:
        t, value = result.samples(name, measured=True)
        cut = len(t) // 20 * 20
        found.append((t[:cut:20], value[:cut].reshape(-1, 20).mean(axis=1) / 1e9))
    return found


def utilization(result: Result) -> float:
    """Of the link, once all are there."""
    t, used = result.samples(f"utilization {PORT}", measured=True)
    return float(used[t > ALL_AT].mean())


def queue(result: Result) -> float:
    """Mean once all are there, in KB."""
    t, value = result.samples(f"queue {PORT}", measured=True)
    return float(value[t > ALL_AT].mean() / 1e3)


def fairness(result: Result) -> float:
    """Jain's index of the four flows' rates, once all are there."""
    shares = np.array([value[t > ALL_AT].mean() for t, value in rates(result)])
    return float(shares.sum() ** 2 / (len(shares) * (shares**2).sum()))


def times(results: Sequence[Result]) -> Floats:
    """Completion times of the short flows of all runs in microseconds, sorted, shape (n,)."""
    flows = [background(r.flows, r.scenario.endless) for r in results]
    short = [f.filter(pc.less_equal(f["bytes"], SHORT)) for f in flows]
    return np.sort(np.concatenate([microseconds(f["fct_ps"]) for f in short]))


def _panels(axes: Sequence[Axes], kind: str, runs: Runs) -> None:
    left, middle, right = axes
    first = runs[key(kind, WITHOUT)][0]
    for colour, (t, value) in zip(style.LAYERS, rates(first), strict=False):
        left.plot(1e3 * t, value, lw=1, color=colour)
    left.set_ylim(0, 10.5)
    for side in (WITHOUT, WITH):
        t, value = runs[key(kind, side)][0].samples(f"queue {PORT}", measured=True)
        x, y = style.envelope(1e3 * t, value / 1e3, 400)
        middle.plot(x, y, lw=0.8, color=style.colour(side, 0), label=side)
        fct = times(runs[key(kind, side)])
        right.plot(
            fct, np.arange(1, len(fct) + 1) / len(fct), lw=1.3, color=style.colour(side, 0), label=side
        )
    middle.set_ylim(bottom=0)
    right.set_xscale("log")
    right.set_xlim(15, 1e4)
    right.set_ylim(0, 1.02)
    style.log_ticks(right.xaxis)


HEADS = (
    "flows' rates (Gb/s) over time (ms)",
    "queue (KB) over time (ms)",
    "FCT up to 100 KB (µs), share of flows",
)


def draw(runs: Runs) -> Figure:
    """A row for each transport."""
    figure, axes = style.panels(len(TRANSPORTS), 3, (3.2, 1.35))
    for i, (kind, (name, _)) in enumerate(TRANSPORTS.items()):
        row = axes[3 * i : 3 * i + 3]
        _panels(row, kind, runs)
        row[0].set_ylabel(name, fontsize=8)
        for ax in row:
            ax.tick_params(labelsize=6.5)
    for ax, head in zip(axes[:3], HEADS, strict=True):
        ax.set_title(head, fontsize=8.5)
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8)
    return figure


def each(runs: Runs) -> dict[str, Figure]:
    """A picture for each transport."""
    found = {}
    for kind in TRANSPORTS:
        figure, axes = style.panels(1, 3, (3.3, 2.0))
        _panels(axes, kind, runs)
        for ax, head in zip(axes, HEADS, strict=True):
            ax.set_title(head, fontsize=9)
        axes[2].legend(fontsize=7, loc="lower right")
        found[kind] = figure
    return found


def claims(runs: Runs) -> list[Claim]:
    """Claims on what each does with the link, the flows and the queue, and On-Ramp to short flows."""
    found = []
    for kind, (name, signal) in TRANSPORTS.items():
        plain, held = (runs[key(kind, side)] for side in (WITHOUT, WITH))
        used, fair = estimate(plain, utilization), estimate(plain, fairness)
        found.append(
            Claim(
                f"{name} ({signal}): uses the link, and shares it",
                f"at least {USED:.0%} used, Jain's index of four flows at least {FAIR:g}",
                f"{used.text('%', 100)}, {fair.text()}; queue {estimate(plain, queue).text(' KB')}",
                (used.at_least(USED), fair.at_least(FAIR)),
                of_paper=False,
            )
        )
        sides = [estimate(results, lambda r: float(times([r]).mean())) for results in (plain, held)]
        found.append(
            Claim(
                f"{name}: On-Ramp helps short flows",
                "lower mean FCT, and at least 95% of the use without",
                f"{sides[0].text()} to {sides[1].text(' µs')}, {estimate(held, utilization).text('%', 100)}, "
                f"queue {estimate(held, queue).text(' KB')}",
                (sides[1].over(sides[0]).below(1), estimate(held, utilization).over(used).at_least(0.95)),
                of_paper=False,
            )
        )
    longest = {
        signal: [
            estimate(runs[key(kind, WITHOUT)], queue)
            for kind, (_, own) in TRANSPORTS.items()
            if own == signal
        ]
        for signal in (LOSS, DELAY, EXPLICIT)
    }
    found.append(
        Claim(
            "loss needs longer queues than delay and explicit feedback",
            "each of the first has a longer one than any of the others",
            "; ".join(
                f"{signal} {min(means):.3g} to {max(means):.3g} KB"
                for signal, own in longest.items()
                for means in [[value.mean for value in own]]
            ),
            tuple(
                long.over(short).above(1)
                for long in longest[LOSS]
                for short in (*longest[DELAY], *longest[EXPLICIT])
            ),
        )
    )
    return found


EXPERIMENT = Experiment(__name__, ("sim",), "Every transport on one scenario", cases, draw, claims, each)
