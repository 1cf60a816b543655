"""Figures 1, 2, 22 and 23: 12 senders to one receiver, two from the start, ten more at 200 ms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.paper.common import WITH, WITHOUT, Case, Experiment, Runs, both
from onramp.paper.verdict import Claim, Estimate, estimate
from onramp.plots import style
from onramp.plots.throughput import flow_rates, stack
from onramp.result import Result
from onramp.scenario import quantity
from onramp.summary import Floats

#: Where the queue is.
PORT = "s0->h12"
#: The other senders start here; seconds.
START = 0.200
#: Span that the paper zooms in on as equilibrium [s].
EQUILIBRIUM = (0.237, 0.240)

#: Transience is over once the queueing delay stays below this; microseconds, five times On-Ramp's T.
CALM = 150.0

#: In all figures flows send at 1 Gb/s at least, as in the script of the HPCC simulator that runs its figures.
LOWER_RATE = "a least rate of 100 Mb/s"

#: Least share that the text calls close to the link's rate, or full utilization.
FULL = 0.95


@dataclass(frozen=True)
class Used:
    """Statement of the text on the link's use with the high gain, and its bounds."""

    least: float
    most: float
    text: str
    stated: str = ""


def queues(module: str, control: str, gains: Mapping[str, str], used: Used) -> Experiment:
    """A figure of queues with two gains, the low one first (label to scenario file)."""
    low, high = gains
    title = f"{control}: queueing delay in transience and equilibrium, two gains"
    return _two(module, title, gains, draw_queues, lambda runs: queue_claims(runs, low, high, used))


def throughputs(module: str, control: str, gains: Mapping[str, str]) -> Experiment:
    """A figure of flows' throughputs in the runs of a figure of queues."""
    low, high = gains
    title = f"{control}: throughput by flow, two gains"
    return _two(module, title, gains, draw_throughputs, lambda runs: throughput_claims(runs, low, high))


def _two(
    module: str,
    title: str,
    gains: Mapping[str, str],
    draw: Callable[[Runs], Figure],
    claims: Callable[[Runs], list[Claim]],
) -> Experiment:
    def cases(quick: bool) -> list[Case]:
        """Both gains, without and with On-Ramp; the high one with a lower least rate. Seconds each."""
        cases = [case for gain, file in gains.items() for case in both((gain,), file, {})]
        gain, file = list(gains.items())[1]
        changes = {"onramp.enabled": False, "transport.min_rate": "100Mbps"}
        return [*cases, Case((gain, LOWER_RATE), file, changes)]

    return Experiment(module, ("sim",), title, cases, draw, claims)


def delay(result: Result) -> tuple[Floats, Floats]:
    """Times in seconds and queueing delays in microseconds, both shape (n,)."""
    t, queue = result.samples(f"queue {PORT}")
    return t, queue * 8e6 / quantity(result.scenario.document["network"]["host_rate"])


def _between(t: Floats, values: Floats, span: tuple[float, float]) -> Floats:
    return values[..., (t >= span[0]) & (t < span[1])]


def _smooth(t: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Means over 0.1 ms."""
    n = max(1, round(1e-4 / (t[1] - t[0])))
    whole = len(t) // n * n
    return t[:whole:n], values[..., :whole].reshape(*values.shape[:-1], -1, n).mean(axis=-1)


def utilization(result: Result) -> float:
    """Share of the link used in equilibrium."""
    return float(_between(*result.samples(f"utilization {PORT}"), EQUILIBRIUM).mean())


def oscillation(result: Result) -> float:
    """Standard deviation of the queueing delay in equilibrium, in microseconds."""
    return float(_between(*delay(result), EQUILIBRIUM).std())


def empty(result: Result) -> float:
    """Share of samples in equilibrium at which the queue was empty."""
    return float((_between(*delay(result), EQUILIBRIUM) == 0).mean())


def settling(result: Result) -> float:
    """Milliseconds from the others' start until the queueing delay stays below `CALM`, by means over 0.1 ms.

    If it does not before equilibrium is looked at, the 37 ms until then.
    """
    t, d = _smooth(*delay(result))
    above = t[(t >= START) & (t < EQUILIBRIUM[0]) & (d > CALM)]
    return float((above[-1] - START) * 1e3 + 0.1) if len(above) else 0.0


def fairness(result: Result) -> float:
    """Jain's index of the flows' mean throughputs in equilibrium, 1 if all are equal."""
    x = _between(*flow_rates(result), EQUILIBRIUM).mean(axis=1)
    return float(x.sum() ** 2 / (len(x) * (x**2).sum()))


def roughness(result: Result) -> float:
    """How much a flow's throughput varies in equilibrium: standard deviation over mean, mean of flows.

    Of throughputs over 0.1 ms.
    """
    x = _between(*_smooth(*flow_rates(result)), EQUILIBRIUM)
    return float((x.std(axis=1) / np.maximum(x.mean(axis=1), 1)).mean())


def measured(runs: Runs, gain: str, of: Callable[[Result], float]) -> tuple[Estimate, Estimate]:
    """One of the measures above, without and with On-Ramp."""
    return estimate(runs[gain, WITHOUT], of), estimate(runs[gain, WITH], of)


def queue_claims(runs: Runs, low: str, high: str, used: Used) -> list[Claim]:
    """Statements of the text on queues with a low and a high gain (section 2)."""
    share, _ = measured(runs, low, utilization)
    alone, _ = measured(runs, high, utilization)
    none, _ = measured(runs, low, empty)
    slow, _ = measured(runs, low, settling)
    fast, _ = measured(runs, high, settling)
    claims = [
        Claim(
            f"{low}: the queue stays above zero and the link rate close to 100G in equilibrium",
            f"utilization at least {FULL:.0%}, queue empty in at most 1% of samples",
            f"{share.text('%', 100)} utilization, empty in {none.text('%', 100)}",
            (share.at_least(FULL), none.at_most(0.01)),
        ),
        Claim(
            f"{low}: queues converge very slowly; {high}: much more quickly",
            "settling time at least twice as long",
            f"{slow.text(' ms')} and {fast.text(' ms')}",
            (slow.over(fast).at_least(2),),
        ),
        Claim(
            used.text,
            f"{used.least:.0%} to {used.most:.0%} of the link",
            alone.text("%", 100),
            (alone.between(used.least, used.most),),
            used.stated,
        ),
        Claim(
            f"{high}: the link's use with {LOWER_RATE}",
            "the HPCC simulator's sample configuration has it, in place of its script's 1 Gb/s",
            estimate(runs[high, LOWER_RATE], utilization).text("%", 100),
            (),
            of_paper=False,
        ),
    ]
    for gain in (low, high):
        _, full = measured(runs, gain, utilization)
        wide, narrow = measured(runs, gain, oscillation)
        claims += [
            Claim(
                f"{gain} with On-Ramp: full link utilization in equilibrium",
                f"at least {FULL:.0%}",
                full.text("%", 100),
                (full.at_least(FULL),),
            ),
            Claim(
                f"{gain} with On-Ramp: smaller oscillation of queues in equilibrium",
                "standard deviation of the queueing delay is smaller",
                f"{wide.text(' µs')} without, {narrow.text(' µs')} with",
                (narrow.over(wide).below(1),),
            ),
        ]
    return [*claims, _settles(runs, low)]


def _settles(runs: Runs, gain: str) -> Claim:
    """That On-Ramp ends transience sooner ("react very quickly", and appendix 10.1)."""
    before, after = measured(runs, gain, settling)
    return Claim(
        f"{gain} with On-Ramp: reacts very quickly to transient congestion",
        "settling time at most half",
        f"{before.text(' ms')} without, {after.text(' ms')} with",
        (after.over(before).at_most(0.5),),
    )


def throughput_claims(runs: Runs, low: str, high: str) -> list[Claim]:
    """Statements of the text on flows' throughputs (appendix 10.1); the rest is in the figure of queues."""
    before, after = measured(runs, high, settling)
    claims = [
        Claim(
            f"{high}: shorter time in transience with On-Ramp",
            "settling time is shorter",
            f"{before.text(' ms')} without, {after.text(' ms')} with",
            (after.over(before).below(1),),
        )
    ]
    for gain in (low, high):
        rough, smooth = measured(runs, gain, roughness)
        unfair, fair = measured(runs, gain, fairness)
        claims += [
            Claim(
                f"{gain}: smoother flow throughputs in equilibrium with On-Ramp",
                "coefficient of variation is smaller",
                f"{rough.text()} without, {smooth.text()} with",
                (smooth.over(rough).below(1),),
            ),
            Claim(
                f"{gain}: fairer flow throughputs in equilibrium with On-Ramp",
                "Jain's index is larger",
                f"{unfair.text()} without, {fair.text()} with",
                (fair.minus(unfair).above(0),),
            ),
        ]
    return claims


def draw_queues(runs: Runs) -> Figure:
    """Queueing delay around the others' start, and in equilibrium on a yellow ground."""

    def line(ax: Axes, result: Result, span: tuple[float, float]) -> None:
        t, d = delay(result)
        shown = (t >= span[0]) & (t < span[1])
        ax.plot(*style.envelope(t[shown] * 1e3, d[shown]), color=style.LAYERS[0], lw=0.9)

    return _draw(runs, "queueing delay (µs)", line)


def draw_throughputs(runs: Runs) -> Figure:
    """Throughput of each flow as a stack, and in equilibrium on a yellow ground."""

    def layers(ax: Axes, result: Result, span: tuple[float, float]) -> None:
        t, rates = flow_rates(result)
        shown = (t >= span[0]) & (t < span[1])
        stack(ax, t[shown], rates[:, shown])

    return _draw(runs, "throughput (Gb/s)", layers)


def _draw(runs: Runs, y: str, draw: Callable[[Axes, Result, tuple[float, float]], None]) -> Figure:
    """Both gains without, then both with On-Ramp, as in the paper; runs of the first seed."""
    gains = list(dict.fromkeys(key[0] for key in runs))
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    grid = figure.subplots(2, 4, width_ratios=[2, 1.1, 2, 1.1])
    for row, side in zip(grid, (WITHOUT, WITH), strict=True):
        for i, gain in enumerate(gains):
            ax, zoom = row[2 * i : 2 * i + 2]
            results = runs[gain, side]
            draw(ax, results[0], (0.195, 0.242))
            ax.set_xlim(195, 242)
            ax.set_title(gain if side == WITHOUT else f"{gain}, with On-Ramp", fontsize=9)
            arrow = {"arrowstyle": "-|>", "color": "#c92a2a", "lw": 1.6}
            place = ("data", "axes fraction")
            ax.annotate("", (199.8, 0.95), (196, 0.95), xycoords=place, textcoords=place, arrowprops=arrow)
            draw(zoom, results[0], EQUILIBRIUM)
            zoom.set(xlim=(237, 240), ylim=(0, None), xticks=range(237, 241), facecolor="#fff4c2")
            zoom.set_title(f"{estimate(results, utilization).text('%', 100)} used", fontsize=8, loc="right")
            if i == 0:
                ax.set_ylabel(y)
    for ax in grid[1]:
        ax.set_xlabel("time (ms)")
    top = max(ax.get_ylim()[1] for ax in grid[:, ::2].flat)
    for ax in grid[:, ::2].flat:
        ax.set_ylim(0, 1.12 * top)
    return figure
