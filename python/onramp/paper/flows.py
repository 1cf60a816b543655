"""Figures 5 and 24: long CUBIC flows share a link; the strawman and the final version."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from onramp.paper.common import BOTH_VARIANTS, WITHOUT, Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate
from onramp.plots import style
from onramp.plots.throughput import flow_rates, stack
from onramp.result import Result
from onramp.scenario import quantity

STRAWMAN, FINAL = "strawman", "final"
#: T in microseconds.
THRESHOLD = 50.0
#: "Around T" is read as within this factor.
AROUND = 2.0
#: Throughput within this share of the baseline's.
WITHIN = 0.98


def experiment(module: str, number: str, file: str, span: tuple[float, float]) -> Experiment:
    """A figure of long flows.

    Parameters
    ----------
    span : (float, float)
        Time in which all flows are there and have settled [s].
    """
    return Experiment(
        module,
        ("linux", "sim"),
        f"{number} long CUBIC flows share a link; strawman and final version",
        lambda quick: cases(file),
        draw,
        lambda runs: claims(runs, span),
        variants=BOTH_VARIANTS,
    )


def cases(file: str) -> list[Case]:
    """Without On-Ramp, with the strawman, with the final version; seconds each, quick or not."""
    return [
        Case((WITHOUT,), file, {"onramp.enabled": False}),
        Case((STRAWMAN,), file, {"onramp.version": "strawman"}),
        Case((FINAL,), file, {}),
    ]


def port(result: Result) -> str:
    """The shared link."""
    return str(result.scenario.document["measure"]["queues"][0])


def delay(result: Result, span: tuple[float, float]) -> np.ndarray:
    """Queueing delay in microseconds between two times in seconds, shape (n,)."""
    t, queue = result.samples(f"queue {port(result)}")
    rate = quantity(result.scenario.document["network"]["host_rate"])
    return np.asarray((queue * 8e6 / rate)[(t >= span[0]) & (t < span[1])])


def used(result: Result, span: tuple[float, float]) -> float:
    """Share of the link that is used between two times."""
    t, share = result.samples(f"utilization {port(result)}")
    return float(share[(t >= span[0]) & (t < span[1])].mean())


def fairness(result: Result, span: tuple[float, float]) -> float:
    """Jain's index of mean rates over stretches of 20 ms, averaged; 1 if all are equal."""
    t, rates = flow_rates(result)
    edges = np.arange(max(span[0], t[0]), min(span[1], t[-1]) - 0.0199, 0.02)
    shares = [rates[:, (t >= a) & (t < a + 0.02)].mean(axis=1) for a in edges]
    return float(np.mean([x.sum() ** 2 / (len(x) * (x**2).sum()) for x in shares]))


def draw(runs: Runs) -> Figure:
    """Queueing delay above, throughput of each flow below; runs of the first seed."""
    titles = {WITHOUT: "no On-Ramp", STRAWMAN: "strawman", FINAL: "final"}
    figure, axes = style.panels(2, 3, (3.6, 2.3), sharex=True)
    for i, (side, title) in enumerate(titles.items()):
        result = runs[side,][0]
        t, queue = result.samples(f"queue {port(result)}")
        rate = quantity(result.scenario.document["network"]["host_rate"])
        axes[i].plot(*style.envelope(t * 1e3, queue * 8e6 / rate), color=style.LAYERS[0], lw=0.7)
        axes[i].axhline(THRESHOLD, color=style.LAYERS[3], lw=0.8, ls="--")
        axes[i].set_title(title)
        stack(axes[3 + i], *flow_rates(result))
        axes[3 + i].set_xlabel("time (ms)")
    axes[0].set_ylabel("queueing delay (µs)")
    axes[3].set_ylabel("throughput (Gb/s)")
    for row in (axes[:3], axes[3:]):
        top = max(ax.get_ylim()[1] for ax in row)
        for ax in row:
            ax.set_ylim(0, top)
    return figure


def claims(runs: Runs, span: tuple[float, float]) -> list[Claim]:
    """Section 3.2, between two times in seconds; §4.1 on what follows a pause."""
    share = {side: estimate(runs[side,], lambda r: used(r, span)) for side in (WITHOUT, STRAWMAN, FINAL)}
    queue = {side: estimate(runs[side,], lambda r: float(delay(r, span).mean())) for side in share}
    peak = {side: estimate(runs[side,], lambda r: float(delay(r, span).max())) for side in share}
    swing = {side: estimate(runs[side,], lambda r: float(delay(r, span).std())) for side in share}
    low = {side: estimate(runs[side,], lambda r: float((delay(r, span) < 1).mean())) for side in share}
    fair = {side: estimate(runs[side,], lambda r: fairness(r, span)) for side in share}
    kept, calmer = share[FINAL].over(share[WITHOUT]), swing[FINAL].over(swing[STRAWMAN])
    return [
        Claim(
            "the strawman undershoots T and under-utilizes the link",
            "queue empty more often than with the final version, and less of the link used",
            f"empty in {low[STRAWMAN].text('%', 100)} of samples and {share[STRAWMAN].text('%', 100)} used; "
            f"final {low[FINAL].text('%', 100)} and {share[FINAL].text('%', 100)}",
            (low[STRAWMAN].minus(low[FINAL]).above(0), share[FINAL].minus(share[STRAWMAN]).above(0)),
        ),
        Claim(
            "the final version fixes that",
            f"throughput at least {WITHIN:.0%} of that without On-Ramp",
            f"{share[WITHOUT].text('%', 100)} without, {share[FINAL].text('%', 100)} with",
            (kept.at_least(WITHIN),),
        ),
        Claim(
            "the OWD is around T",
            f"mean queueing delay {THRESHOLD / AROUND:g} to {THRESHOLD * AROUND:g} µs",
            f"{queue[FINAL].text(' µs')}; without On-Ramp {queue[WITHOUT].text(' µs')}",
            (queue[FINAL].between(THRESHOLD / AROUND, THRESHOLD * AROUND),),
            f"{THRESHOLD:g} µs",
        ),
        Claim(
            "the final version removes most fluctuations of the queue",
            "standard deviation of the queueing delay at most half of the strawman's",
            f"{swing[FINAL].text(' µs')}; strawman {swing[STRAWMAN].text()}, without {swing[WITHOUT].text()}",
            (calmer.at_most(0.5),),
        ),
        Claim(
            "flows share the link more fairly",
            "Jain's index over 20 ms is larger than without On-Ramp",
            f"{fair[WITHOUT].text()} without, {fair[STRAWMAN].text()} strawman, {fair[FINAL].text()} final",
            (fair[FINAL].minus(fair[WITHOUT]).above(0),),
        ),
        Claim(
            "no burst that follows a pause makes the queueing delay spike",
            "highest queueing delay below that without On-Ramp",
            f"{peak[FINAL].text(' µs')}; strawman {peak[STRAWMAN].text()}, without {peak[WITHOUT].text()}",
            (peak[FINAL].over(peak[WITHOUT]).below(1),),
        ),
    ]
