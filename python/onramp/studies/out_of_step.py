"""Collectives whose ranks are not in step: messages are handed over up to a microsecond late."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, Estimate, estimate, ratio
from onramp.plots import style
from onramp.result import Result

FILE = "out-of-step"
TRANSPORTS: Mapping[str, Mapping[str, object]] = {
    "CUBIC": {"transport.kind": "cubic"},
    "DCQCN": {"transport.kind": "dcqcn"},
    "HPCC": {"transport.kind": "hpcc"},
    "Swift": {"transport.kind": "swift"},
}
HELD = "DCQCN, On-Ramp"
COLLECTIVES: Mapping[str, tuple[str, str]] = {
    "pairwise": ("all-to-all", "pairwise"),
    "pairwise, rendezvous": ("all-to-all", "pairwise-rendezvous"),
    "all to all at once": ("all-to-all", "direct"),
    "ring": ("all-reduce", "ring"),
    "halving and doubling": ("all-reduce", "halving-doubling"),
}
PAIRWISE, RENDEZVOUS, DIRECT, RING, HALVING = COLLECTIVES
#: Messages are handed over up to so much late.
IN_STEP, LEAST, NOISE, MOST = "0ns", "100ns", "1us", "10us"
#: Times within this factor are the same.
SAME = 1.05


def _case(name: str, system: str, noise: str, quick: bool, own: Mapping[str, object]) -> Case:
    operation, algorithm = COLLECTIVES[name]
    keys = {"traffic.0.operation": operation, "traffic.0.algorithm": algorithm, "traffic.0.noise": noise}
    short = {"traffic.0.repeat": 12} if quick else {}
    return Case((name, system, noise), FILE, {**keys, **short, **own})


def cases(quick: bool) -> list[Case]:
    """Every collective over every transport, in step and not; pairwise exchanges with other noise, too."""
    more = {PAIRWISE: (LEAST, MOST), RENDEZVOUS: (LEAST, MOST)}
    found = [
        _case(name, system, noise, quick, own)
        for name in COLLECTIVES
        for system, own in TRANSPORTS.items()
        for noise in (IN_STEP, NOISE, *more.get(name, ()))
    ]
    return [*found, _case(PAIRWISE, HELD, NOISE, quick, {"onramp.enabled": True})]


def late(result: Result) -> float:
    """Mean time of the later half of the collectives, in microseconds."""
    times = result.collectives["duration_ps"].to_numpy()
    return float(np.mean(times[len(times) // 2 :])) / 1e6


def slower(runs: Runs, name: str, system: str, noise: str = NOISE) -> Estimate:
    """Time with noise over that without."""
    return ratio(runs[(name, system, noise)], runs[(name, system, IN_STEP)], late)


def draw(runs: Runs) -> Figure:
    """Times over those in step, and pairwise exchanges one after the other."""
    figure, axes = style.panels(1, 2, (4.6, 3.0))
    colours = style.LAYERS
    width = 0.8 / len(TRANSPORTS)
    for i, system in enumerate(TRANSPORTS):
        values = [slower(runs, name, system) for name in COLLECTIVES]
        at = np.arange(len(values)) + (i - (len(TRANSPORTS) - 1) / 2) * width
        mean = [value.mean for value in values]
        axes[0].bar(at, mean, 0.92 * width, color=colours[i], label=system)
        axes[0].errorbar(
            at,
            mean,
            np.nan_to_num([value.half for value in values]),
            fmt="none",
            ecolor=style.INK,
            capsize=1.5,
        )
        for name, line in ((PAIRWISE, "-"), (RENDEZVOUS, ":")):
            times = np.mean(
                [r.collectives["duration_ps"].to_numpy() for r in runs[(name, system, NOISE)]], axis=0
            )
            axes[1].plot(np.arange(1, len(times) + 1), times / 1e6, line, color=colours[i], lw=1.3)
    axes[0].set_ylim(0, 5)
    axes[0].axhline(1, color=style.INK, lw=0.8, ls=":")
    axes[0].set_xticks(
        range(len(COLLECTIVES)), [name.replace(", ", ",\n") for name in COLLECTIVES], fontsize=7
    )
    axes[0].set_title("time with noise of 1 µs over that without", fontsize=9)
    axes[0].legend(fontsize=7, loc="upper center")
    axes[1].set_title("all-to-all, pairwise (dotted: rendezvous), noise 1 µs", fontsize=9)
    axes[1].set_xlabel("repetition")
    axes[1].set_ylabel("µs")
    axes[1].set_ylim(bottom=0)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Costs of noise by collective, and whether a rendezvous or On-Ramp mend it."""

    def all_of(name: str, noise: str = NOISE) -> dict[str, Estimate]:
        return {system: slower(runs, name, system, noise) for system in TRANSPORTS}

    def shown(of: Mapping[str, Estimate]) -> str:
        return ", ".join(f"{system} {value.text('×')}" for system, value in of.items())

    found = []
    for noise in (LEAST, NOISE, MOST):
        of = all_of(PAIRWISE, noise)
        found.append(
            Claim(
                f"noise of {noise.replace('us', ' µs').replace('ns', ' ns')} makes pairwise exchanges slower",
                "the later half's time over that in step: at least 2, each transport",
                shown(of),
                tuple(value.at_least(2) for value in of.values()),
                of_paper=False,
            )
        )
    for name in (RENDEZVOUS, DIRECT, RING, HALVING):
        of = all_of(name)
        found.append(
            Claim(
                f"{name}: noise of 1 µs costs nearly nothing",
                f"the later half's time over that in step: at most {SAME:g}, each transport",
                shown(of),
                tuple(value.at_most(SAME) for value in of.values()),
                of_paper=False,
            )
        )
    of = {
        system: ratio(runs[(PAIRWISE, system, MOST)], runs[(RENDEZVOUS, system, MOST)], late)
        for system in TRANSPORTS
    }
    found.append(
        Claim(
            "with noise of 10 µs a rendezvous is faster than pairwise exchange without",
            "pairwise over rendezvous: above 1, each transport",
            shown(of),
            tuple(value.above(1) for value in of.values()),
            of_paper=False,
        )
    )
    held = ratio(runs[(PAIRWISE, "DCQCN", NOISE)], runs[(PAIRWISE, HELD, NOISE)], late)
    found.append(
        Claim(
            "On-Ramp brings ranks back into step",
            "pairwise, DCQCN, noise of 1 µs: without On-Ramp over with it: at least 2",
            f"{held.text('×')} ({estimate(runs[(PAIRWISE, HELD, NOISE)], late).text(' µs')} with On-Ramp)",
            (held.at_least(2),),
            of_paper=False,
        )
    )
    return found


EXPERIMENT = Experiment(
    __name__,
    ("sim",),
    "Collectives whose ranks fall out of step",
    cases,
    draw,
    claims,
)
