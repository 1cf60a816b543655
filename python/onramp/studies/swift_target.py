"""Round trips follow the target delay (the lecture on Swift)."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate
from onramp.plots import style
from onramp.scenario import quantity
from onramp.studies import port

FILE = "swift-target"
#: Target delays of a path without switches, in microseconds.
TARGETS = (10, 20, 40, 80, 160)
#: "Hovers around" is read as: the 1st, 50th and 99th percentile within this share of the target.
AROUND = 0.25
FULL = 0.95


def cases(quick: bool) -> list[Case]:
    """Every target."""
    span = {"warmup": "5ms", "duration": "5ms"} if quick else {}
    return [
        Case((str(target),), FILE, {**span, "transport.base_target": f"{target}us"}) for target in TARGETS
    ]


def target_of(runs: Runs, target: int) -> float:
    """With the path's one switch, in microseconds."""
    return target + 1e6 * quantity(runs[(str(target),)][0].scenario.document["transport"]["hop"])


def draw(runs: Runs) -> Figure:
    """Round trips over the target, and over time."""
    figure, (left, right) = style.panels(1, 2, (3.8, 2.9))
    aims = [target_of(runs, target) for target in TARGETS]
    low, middle, high = (
        [port.percentile(runs[(str(target),)], percent).mean for target in TARGETS] for percent in (1, 50, 99)
    )
    left.plot(aims, aims, color=style.WITHOUT, lw=1, label="target")
    left.vlines(aims, low, high, color=style.WITH, lw=1.5, label="1st to 99th percentile")
    left.plot(aims, middle, "o", ms=4, color=style.WITH, label="median")
    left.set_xlabel("target (µs)")
    left.set_title("round trip (µs)", fontsize=9)
    left.legend(fontsize=7)
    for target, aim in zip(TARGETS, aims, strict=True):
        result = runs[(str(target),)][0]
        t, _ = result.samples(f"queue {port.PORT}", measured=True)
        part = t < t[0] + 1e-3
        right.plot(1e3 * t[part], port.round_trips(result)[part], lw=0.8, color=style.WITH)
        right.axhline(aim, color=style.WITHOUT, lw=0.8)
    right.set_xlabel("time (ms)")
    right.set_title("round trip (µs) over a millisecond", fontsize=9)
    for ax in (left, right):
        ax.set_ylim(bottom=0)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """The lecture: the round trip hovers around the target as it is moved."""
    found = []
    for target in TARGETS:
        results, aim = runs[(str(target),)], target_of(runs, target)
        values = [port.percentile(results, percent) for percent in (1, 50, 99)]
        used = estimate(results, port.utilization)
        found.append(
            Claim(
                f"target {aim:.1f} µs: round trips hover around it",
                f"1st, 50th and 99th percentile within {AROUND:.0%} of it, {FULL:.0%} of the link used",
                f"{', '.join(value.text() for value in values)} µs, {used.text('%', 100)}",
                (
                    *(value.between(aim * (1 - AROUND), aim * (1 + AROUND)) for value in values),
                    used.at_least(FULL),
                ),
            )
        )
    return found


EXPERIMENT = Experiment(
    __name__, ("sim",), "Swift: eight flows, and a target that is moved", cases, draw, claims
)
