"""Up to how many flows pacing helps, against C·RTT/B_max (Ghobadi and Ganjali, "N* vs. buffer")."""

from __future__ import annotations

import math
from itertools import pairwise

from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Key, Runs
from onramp.paper.verdict import Claim, Estimate, ratio
from onramp.plots import style
from onramp.studies import paced
from onramp.studies.paced import HELPS, NONE, PACED, PACKET

#: Buffers as shares of the bandwidth-delay product, and numbers of flows.
BUFFERS = (0.017, 0.034, 0.068, 0.136, 0.272)
NUMBERS = (2, 4, 8, 16, 32, 64, 128, 256, 400)
QUICK_BUFFERS, QUICK_NUMBERS = (0.034, 0.136), (2, 8, 32, 128)
#: Earlier studies: BDP and buffer in packets, flows, their advice, and the N* on the slide.
STUDIES = {
    "Aggarwal et al.": (1250, 312, 50, "do not pace", 8),
    "Kulik et al.": (91, 10, 1, "pace", 9),
}
#: The law is an order of magnitude: measured and C·RTT/B_max at most this factor apart.
APART = 3.0


def key(share: float, number: int, pacing: str) -> Key:
    """Of a case."""
    return (f"{100 * share:g}%", str(number), pacing)


def cases(quick: bool) -> list[Case]:
    """Every buffer and number of flows, and the two earlier studies, not paced and paced."""
    found = []
    for pacing in (NONE, PACED):
        for share in QUICK_BUFFERS if quick else BUFFERS:
            more = paced.link(1.0, 10.0, share)
            for number in QUICK_NUMBERS if quick else NUMBERS:
                found.append(paced.case(key(share, number, pacing), number, pacing, quick, more))
        for study, (product, room, number, _, _) in STUDIES.items():
            rtt_ms = product * PACKET * 8 / 1e9 * 1e3
            more = {**paced.link(1.0, rtt_ms, 1.0), "linux.buffer": f"{room * PACKET}B"}
            found.append(paced.case((study, str(number), pacing), number, pacing, quick, more))
    return found


def gains(runs: Runs, share: float) -> dict[int, list[float]]:
    """Utilization paced over not paced by number of flows, of each seed."""
    found = {}
    for number in NUMBERS:
        if key(share, number, NONE) in runs:
            sides = (runs[key(share, number, pacing)] for pacing in (PACED, NONE))
            found[number] = [paced.utilization(a) / paced.utilization(b) for a, b in zip(*sides, strict=True)]
    return found


def inflections(runs: Runs, share: float) -> list[float]:
    """N* of each seed."""
    found = gains(runs, share)
    seeds = range(len(next(iter(found.values()))))
    return [paced.inflection(list(found), [values[i] for values in found.values()]) for i in seeds]


def measured(runs: Runs) -> list[float]:
    """Buffers that were."""
    return [share for share in BUFFERS if key(share, NUMBERS[0], NONE) in runs]


def draw(runs: Runs) -> Figure:
    """Gains of pacing, and N* over the law."""
    figure, (left, right) = style.panels(1, 2, (4.0, 3.0))
    for colour, share in zip(style.LAYERS, measured(runs), strict=False):
        found = gains(runs, share)
        means = [sum(values) / len(values) for values in found.values()]
        left.plot(list(found), means, "o-", ms=3, lw=1.3, color=colour, label=f"{100 * share:g}% of C·RTT")
        left.axvline(1 / share, color=colour, lw=0.8, ls=":")
    left.axhline(1 + HELPS, color=style.INK, lw=0.8)
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("flows (dotted: C·RTT / buffer)")
    left.set_title("utilization, paced over not paced", fontsize=9)
    style.log_ticks(left.xaxis)
    style.log_ticks(left.yaxis)
    left.legend(fontsize=7)
    for share in measured(runs):
        stars = [n for n in inflections(runs, share) if not math.isnan(n)]
        right.plot([1 / share] * len(stars), stars, "o", ms=4, color=style.WITH)
    low, high = 1 / max(measured(runs)), 1 / min(measured(runs))
    right.plot([low, high], [low, high], color=style.WITHOUT, lw=1, label="N* = C·RTT / buffer")
    right.set_xscale("log")
    right.set_yscale("log")
    style.log_ticks(right.xaxis)
    style.log_ticks(right.yaxis)
    right.set_xlabel("C·RTT / buffer")
    right.set_title(f"N*: pacing gains less than {HELPS:.0%} from here on", fontsize=9)
    right.legend(fontsize=7)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """N* = Ω(C·RTT/B_max), and the advice of two earlier studies."""
    found = []
    found_stars: list[Estimate] = []
    for share in measured(runs):
        stars = inflections(runs, share)
        star, predicted = Estimate(tuple(stars)), 1 / share
        found_stars.append(star)
        found.append(
            Claim(
                f"a buffer of {100 * share:g}% of C·RTT: N*",
                f"at most {APART:g} times apart",
                star.text(),
                (star.between(predicted / APART, predicted * APART),),
                f"{predicted:.1f}",
            )
        )
    found.append(
        Claim(
            "N* falls as the buffer grows",
            "in order of the buffers",
            ", ".join(star.text() for star in found_stars),
            tuple(a.minus(b).above(0) for a, b in pairwise(found_stars)),
        )
    )
    for study, (product, room, number, advice, printed) in STUDIES.items():
        sides = [runs[(study, str(number), pacing)] for pacing in (PACED, NONE)]
        value = ratio(sides[0], sides[1], paced.utilization)
        found.append(
            Claim(
                f"{study}: {advice} ({number} flows, {product} packets, room for {room}: N* {printed}, "
                f"by the law {product / room:.1f})",
                f"utilization, paced over not, {'above' if advice == 'pace' else 'at most'} {1 + HELPS:g}",
                value.text("×"),
                (value.above(1 + HELPS) if advice == "pace" else value.at_most(1 + HELPS),),
            )
        )
    return [*found, paced.steady(runs)]


EXPERIMENT = Experiment(__name__, ("sim", "linux"), "The point of inflection of pacing", cases, draw, claims)
