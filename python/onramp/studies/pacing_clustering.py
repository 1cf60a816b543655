"""How flows' packets mix at a link (Ghobadi and Ganjali, "Clustering effect", "Inter-flow bursts")."""

from __future__ import annotations

from math import comb

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate
from onramp.plots import style
from onramp.result import Result
from onramp.studies import paced
from onramp.studies.paced import NONE, PACED, key
from onramp.summary import Floats

NUMBERS = (2, 8, 32, 128, 400)
QUICK_NUMBERS = (8, 32, 128)
SYSTEMS = (NONE, PACED, "burst")
#: Shown beside the model; by then slow start of single flows no longer makes the window of one differ much.
SHOWN = (8, 128)
BUFFER = 0.034


def cases(quick: bool) -> list[Case]:
    """Every number of flows."""
    return paced.ordered(QUICK_NUMBERS if quick else NUMBERS, SYSTEMS, BUFFER, quick)


def other(result: Result) -> float:
    """Probability that a packet is followed by one of another flow."""
    order = result.summary["order"][paced.PORT]
    return float(order["changes"] / max(1, order["packets"] - 1))


def slots(result: Result) -> Floats:
    """Share of slots by packets that came, shape (n,)."""
    order = result.summary["order"][paced.PORT]
    counts = np.zeros(int(max((n for n, _ in order["slots"]), default=0)) + 1)
    for n, count in order["slots"]:
        counts[int(n)] = count
    return np.asarray(counts / counts.sum())


def spread(result: Result) -> float:
    """Variance of packets in a slot over that of the model, Binomial(N, Wδ/RTT) with W as measured."""
    shares = slots(result)
    n = np.arange(len(shares))
    mean = float((n * shares).sum())
    variance = float((n**2 * shares).sum() - mean**2)
    flows = len(result.scenario.document["traffic"][0]["from"]) * int(
        result.scenario.document["traffic"][0]["connections"]
    )
    return variance / (mean * (1 - min(mean / flows, 0.999)))


def model(flows: int, mean: float, most: int) -> Floats:
    """Shares of slots with 0, 1, … packets by Binomial(N, p) with N·p packets a slot, shape (most + 1,)."""
    p = mean / flows
    return np.array(
        [comb(flows, k) * p**k * (1 - p) ** (flows - k) if k <= flows else 0.0 for k in range(most + 1)]
    )


def draw(runs: Runs) -> Figure:
    """The probability over the number of flows, and packets in a slot beside the model."""
    figure, axes = style.panels(1, 1 + len(SHOWN), (3.5, 2.7))
    xs = paced.measured(runs, NUMBERS)
    for system in SYSTEMS:
        values = [estimate(runs[key(n, system)], other).mean for n in xs]
        axes[0].plot(xs, values, "o-", ms=3, lw=1.3, color=paced.COLOURS[system], label=paced.LABELS[system])
    axes[0].plot(xs, [1 - 1 / n for n in xs], color=style.INK, lw=0.8, ls=":", label="at random")
    axes[0].set_xscale("log")
    style.log_ticks(axes[0].xaxis)
    axes[0].set_ylim(0, 1.02)
    axes[0].set_xlabel("flows")
    axes[0].set_title("next packet is another flow's (probability)", fontsize=9)
    for ax, number in zip(axes[1:], SHOWN, strict=True):
        for system in (NONE, PACED):
            shares = slots(runs[key(number, system)][0])
            n = np.arange(len(shares))
            ax.plot(n, shares, "o-", ms=2.5, lw=1, color=paced.COLOURS[system])
            mean = float((n * shares).sum())
            if mean < number:
                expected = model(number, mean, len(shares) - 1)
                ax.plot(n, expected, lw=1, ls=":", color=paced.COLOURS[system])
        ax.set_yscale("log")
        ax.set_ylim(1e-5, 1)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("packets that come in the time of one")
        ax.set_title(f"share of slots, {number} flows (dotted: model)", fontsize=9)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Not paced, packets of a flow are clustered; paced, those of different flows are multiplexed."""
    xs = paced.measured(runs, NUMBERS)
    mixed = [
        Claim(
            f"{number} flows: pacing multiplexes packets of different flows",
            "a packet is more often followed by another flow's",
            f"{plain.text('', 100)} to {spaced.text('%', 100)}",
            (spaced.minus(plain).above(0),),
        )
        for number, plain, spaced in paced.compared(runs, xs, other)
    ]
    binomial = [
        Claim(
            f"{number} flows: paced, packets in a slot are Binomial(N, Wδ/RTT)",
            "variance over the model's 0.5 to 2",
            f"{spaced.text()} (not paced {plain.text()})",
            (spaced.between(0.5, 2),),
        )
        for number, plain, spaced in paced.compared(runs, xs, spread)
    ]
    return [*mixed, *binomial, paced.steady(runs)]


EXPERIMENT = Experiment(
    __name__, ("sim", "linux"), "Pacing, and how flows' packets follow each other", cases, draw, claims
)
