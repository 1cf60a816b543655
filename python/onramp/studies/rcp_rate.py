"""RCP's rate follows the number of flows (the lecture's two equations)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from onramp.paper.common import WITH, WITHOUT, Case, Experiment, Runs, both
from onramp.paper.verdict import Claim, Estimate, estimate
from onramp.plots import style
from onramp.result import Result
from onramp.studies import rcp

FILE = "rcp-rate"
#: Flows in each phase of 10 ms.
FLOWS = (1, 2, 4, 8, 4, 2, 1)
PHASE = 10e-3
#: A network has had time to follow in the later half of a phase: 25 round trips.
SETTLED = 0.5

SYSTEMS: Mapping[str, Mapping[str, object]] = {
    "RCP, refined": {"measure.rates": [rcp.PORT]},
    "RCP, estimate": {"measure.rates": [rcp.PORT], "transport.form": "estimate"},
    "XCP": {"transport.kind": "xcp"},
}
REFINED, ESTIMATE, XCP = SYSTEMS
#: Target of the port, as a share of its link.
AIM = {REFINED: 0.95, ESTIMATE: 1.0, XCP: 1.0}
#: "Follows C/N" is read as: within this share of it.
AROUND = 0.1
#: Shares of γC/N in a run, given γ.
Measure = Callable[[Result, float], np.ndarray]
#: A short queue, as a share of the bandwidth-delay product.
SHORT = 0.1


def cases(quick: bool) -> list[Case]:
    """Both of RCP's equations, and XCP; it takes a second either way."""
    return [case for name, more in SYSTEMS.items() for case in both((name,), FILE, more)]


def _spans() -> list[tuple[int, float, float]]:
    """Number of flows in each phase, and its later half."""
    return [(n, (i + SETTLED) * PHASE, (i + 1) * PHASE) for i, n in enumerate(FLOWS)]


def _rates(result: Result) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each flow on the wire, over time, in bit/s."""
    names = [name for name in result.series_names if name.startswith("rate flow")]
    return [(t, rate * rcp.OVERHEAD) for t, rate in map(result.samples, names)]


def _smooth(samples: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Means over 0.4 ms, two round trips: a window leaves in a burst."""
    t, rate = samples
    whole = len(t) // 8 * 8
    return t[:whole:8], rate[:whole].reshape(-1, 8).mean(axis=1)


def _of_share(result: Result, aim: float) -> np.ndarray:
    """Rate of the port over γC/N, in each phase."""
    samples, full = result.samples(f"rate {rcp.PORT}"), aim * rcp.capacity(result)
    return np.array([rcp.between(samples, a, b).mean() * n / full for n, a, b in _spans()])


def _flows_of_share(result: Result, aim: float) -> np.ndarray:
    """Rate of each flow over γC/N, in each phase it is alive in."""
    rates, full = _rates(result), aim * rcp.capacity(result)
    got = []
    for n, a, b in _spans():
        means = [values.mean() for values in (rcp.between(rate, a, b) for rate in rates) if len(values)]
        got += [mean * n / full for mean in sorted(means)[-n:]]
    return np.array(got)


def _furthest(results: Sequence[Result], name: str, measure: Measure) -> tuple[Estimate, Estimate]:
    """The smallest and the largest share."""
    least = estimate(results, lambda r: float(measure(r, AIM[name]).min()))
    return least, estimate(results, lambda r: float(measure(r, AIM[name]).max()))


def _queue(result: Result) -> float:
    """The longest mean queue of a settled phase over the bandwidth-delay product."""
    samples = result.samples(f"queue {rcp.PORT}")
    product = rcp.capacity(result) * rcp.base_rtt(result) / 8
    return float(max(rcp.between(samples, a, b).mean() for _, a, b in _spans()) / product)


def _peak(result: Result) -> float:
    """The longest queue over the bandwidth-delay product."""
    samples = result.samples(f"queue {rcp.PORT}")
    return float(samples[1].max() / (rcp.capacity(result) * rcp.base_rtt(result) / 8))


def draw(runs: Runs) -> Figure:
    """Rates and queues over time."""
    figure, axes = style.panels(2, len(SYSTEMS), (3.0, 2.1), sharex=True)
    edges = 1e3 * PHASE * np.arange(len(FLOWS) + 1)
    for i, name in enumerate(SYSTEMS):
        top, bottom = axes[i], axes[len(SYSTEMS) + i]
        full = AIM[name] * rcp.capacity(runs[(name, WITHOUT)][0]) / 1e9
        for side, colour, width in ((WITHOUT, style.LAYERS[1], 1.6), (WITH, style.WITH, 0.9)):
            result = runs[(name, side)][0]
            if name == XCP:
                for j, (t, rate) in enumerate(map(_smooth, _rates(result))):
                    top.plot(
                        1e3 * t,
                        rate / 1e9,
                        lw=0.5 * width,
                        color=colour,
                        label=None if j else f"each flow, {side}",
                    )
            else:
                t, rate = result.samples(f"rate {rcp.PORT}")
                top.plot(1e3 * t, rate / 1e9, lw=width, color=colour, label=side)
            t, queue = result.samples(f"queue {rcp.PORT}")
            bottom.plot(1e3 * t, queue / 1e3, lw=0.7 * width, color=colour)
        top.stairs(
            [full / n for n in FLOWS], edges, baseline=None, color=style.INK, lw=0.9, ls="--", label="γC/N"
        )
        top.set_title(f"{name}: {'rate of each flow' if name == XCP else 'R'} (Gb/s)", fontsize=9)
        bottom.set_title("queue (KB)", fontsize=9)
        bottom.set_xlabel("time (ms)")
        bottom.set_xlim(0, edges[-1])
        top.set_ylim(0, 11)
    low, high = 0, max(ax.get_ylim()[1] for ax in axes[len(SYSTEMS) :])
    for ax in axes[len(SYSTEMS) :]:
        ax.set_ylim(low, high)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return figure


def _around(
    results: Sequence[Result], name: str, measure: Measure, statement: str, what: str, *, of_paper: bool
) -> Claim:
    """Claim that all shares are near 1."""
    least, most = _furthest(results, name, measure)
    near = least.at_least(1 - AROUND), most.at_most(1 + AROUND)
    criterion = f"{what} within {AROUND:.0%} of γC/N"
    return Claim(statement, criterion, f"{least.text()} to {most.text('×')}", near, of_paper=of_paper)


def claims(runs: Runs) -> list[Claim]:
    """R is C/N, and flows get it."""
    found = []
    for name in (REFINED, ESTIMATE):
        statement, what = (
            f"{name}: R follows C/N as flows come and go",
            "mean R in the later half of each 10 ms",
        )
        found.append(_around(runs[(name, WITHOUT)], name, _of_share, statement, what, of_paper=True))
    for name in SYSTEMS:
        for side in (WITHOUT, WITH):
            statement, what = f"{name}, {side}: N flows get C/N each", "each flow's throughput there"
            found.append(_around(runs[(name, side)], name, _flows_of_share, statement, what, of_paper=False))
    for name in SYSTEMS:
        queue = estimate(runs[(name, WITHOUT)], _queue)
        peaks = [estimate(runs[(name, side)], _peak) for side in (WITHOUT, WITH)]
        found.append(
            Claim(
                f"{name}: the queue is short while flows stay",
                f"mean there at most {SHORT:.0%} of the bandwidth-delay product",
                f"{queue.text('%', 100)}; longest as they come {peaks[0].text('%', 100)}, "
                f"with On-Ramp {peaks[1].text('%', 100)}",
                (queue.at_most(SHORT),),
                of_paper=False,
            )
        )
    return found


EXPERIMENT = Experiment(__name__, ("sim",), "RCP: long flows come and go", cases, draw, claims)
