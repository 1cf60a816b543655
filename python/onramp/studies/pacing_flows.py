"""Pacing with more and more flows (Ghobadi and Ganjali, "Multiple flows")."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Key, Runs
from onramp.paper.verdict import Claim, estimate, ratio
from onramp.plots import style
from onramp.studies import paced
from onramp.studies.paced import HELPS, MEASURES, NONE, PACED

#: Gb/s, ms, buffer as a share of the bandwidth-delay product; and numbers of flows.
BUFFERS = (0.017, 0.034, 0.068)
NUMBERS = (2, 4, 8, 16, 32, 64, 128, 256, 400)
OTHERS = ((3.0, 10.0, 0.034), (1.0, 1.0, 0.5), (1.0, 100.0, 0.034))
FEW_NUMBERS = (2, 8, 32, 128)
LINKS = {**{(1.0, 10.0, b): NUMBERS for b in BUFFERS}, **dict.fromkeys(OTHERS, FEW_NUMBERS)}

#: "Few flows" are at most this part of C·RTT over the buffer, "many" at least the inverse of it.
FEW = 0.25


def name(link: tuple[float, float, float]) -> str:
    """Such as "1 Gb/s, 10 ms, 3.4%"."""
    rate, rtt, share = link
    return f"{rate:g} Gb/s, {rtt:g} ms, {100 * share:g}%"


def key(link: tuple[float, float, float], number: int, pacing: str) -> Key:
    """Of a case."""
    return (name(link), str(number), pacing)


def numbers(runs: Runs, link: tuple[float, float, float]) -> list[int]:
    """Numbers of flows that were measured."""
    return [n for n in LINKS[link] if key(link, n, NONE) in runs]


def cases(quick: bool) -> list[Case]:
    """Every link and number of flows, not paced and paced."""
    found = []
    for link, all_numbers in LINKS.items():
        for number in FEW_NUMBERS if quick else all_numbers:
            for pacing in (NONE, PACED):
                more = paced.link(*link)
                found.append(paced.case(key(link, number, pacing), number, pacing, quick, more))
    return found


def draw(runs: Runs) -> Figure:
    """One column per link, one row per measure."""
    links = list(LINKS)
    figure, axes = style.panels(len(MEASURES), len(links), (2.5, 1.75), sharex=True)
    for column, link in enumerate(links):
        for row, (title, of, scale, _) in enumerate(MEASURES):
            ax = axes[row * len(links) + column]
            xs = numbers(runs, link)
            for pacing in (NONE, PACED):
                values = [estimate(runs[key(link, n, pacing)], of) for n in xs]
                ax.errorbar(
                    xs,
                    [scale * v.mean for v in values],
                    yerr=[scale * (v.half if v.half == v.half else 0) for v in values],
                    color=paced.COLOURS[pacing],
                    lw=1.3,
                    marker="o",
                    ms=2.5,
                    elinewidth=0.8,
                    label=paced.LABELS[pacing],
                )
            ax.axvline(1 / link[2], color=style.INK, lw=0.8, ls=":", label="C·RTT / buffer")
            ax.set_xscale("log")
            style.log_ticks(ax.xaxis)
            ax.set_ylim(bottom=0)
            if row == 0:
                ax.set_title(name(link), fontsize=8.5)
            if column == 0:
                ax.set_ylabel(title, fontsize=8)
    for ax in axes[-len(links) :]:
        ax.set_xlabel("flows")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """With few flows pacing is better in all four; beyond a number of them the benefit diminishes."""
    found = []
    for link in LINKS:
        xs = numbers(runs, link)
        few = [n for n in xs if n <= FEW / link[2]]
        many = [n for n in xs if n >= 1 / FEW / link[2]]
        for title, of, scale, more in MEASURES:
            if few:
                sides = {n: [estimate(runs[key(link, n, p)], of) for p in (NONE, PACED)] for n in few}
                found.append(
                    Claim(
                        f"{name(link)}, up to {few[-1]} flows: pacing has better {title.split(' (')[0]}",
                        "higher" if more else "lower",
                        ", ".join(
                            f"{a.text('', scale)} to {b.text('', scale)} with {n}"
                            for n, (a, b) in sides.items()
                        ),
                        tuple(paced.better(b, a, more) for a, b in sides.values()),
                    )
                )
        if many:
            gains = {
                n: ratio(runs[key(link, n, PACED)], runs[key(link, n, NONE)], paced.utilization) for n in many
            }
            found.append(
                Claim(
                    f"{name(link)}, from {many[0]} flows on: the benefit of pacing has diminished",
                    f"utilization paced over not paced at most {1 + HELPS:g}",
                    ", ".join(f"{gain.text('×')} with {n}" for n, gain in gains.items()),
                    tuple(gain.at_most(1 + HELPS) for gain in gains.values()),
                )
            )
    return [*found, paced.steady(runs)]


EXPERIMENT = Experiment(
    __name__, ("sim", "linux"), "Pacing, and how many flows share a link", cases, draw, claims
)
