"""HPCC's queues, fairness and completion times beside DCQCN, TIMELY and DCTCP (Li et al., SIGCOMM 2019)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, Estimate, estimate, steady
from onramp.plots import style
from onramp.result import Result
from onramp.scenario import quantity
from onramp.studies import port
from onramp.summary import Floats, background, slowdowns

HPCC, DCQCN, TIMELY, DCQCN_W, TIMELY_W, DCTCP = "HPCC", "DCQCN", "TIMELY", "DCQCN+win", "TIMELY+win", "DCTCP"
#: W_AI of 80 B a round trip of 13 µs, which the paper sets for simulations, is 49 Mb/s.
SYSTEMS: Mapping[str, Mapping[str, object]] = {
    HPCC: {"transport.kind": "hpcc", "transport.additive_increase": "49Mbps"},
    DCQCN: {"transport.kind": "dcqcn"},
    TIMELY: {"transport.kind": "timely"},
    DCQCN_W: {"transport.kind": "dcqcn", "transport.window": True},
    TIMELY_W: {"transport.kind": "timely", "transport.window": True},
    DCTCP: {"transport.kind": "dctcp"},
}
COLOURS = dict(zip(SYSTEMS, (style.LAYERS[i] for i in (0, 3, 1, 9, 7, 2)), strict=True))
#: The same 80 B in a round trip of 9 µs, the paper's on its testbed.
TESTBED: Mapping[str, Mapping[str, object]] = {
    HPCC: {**SYSTEMS[HPCC], "transport.additive_increase": "71Mbps"},
    DCQCN: SYSTEMS[DCQCN],
}

LOADED, HALF = "30% and incast", "50%"
LOADS = (LOADED, HALF)
INCAST, FAIR, ALONE, WINDOW = "incast", "fair", "one flow", "window"

#: Milliseconds at which seven flows join, and from which on their beginning is over: 100 µs, ten round trips.
JOIN, SETTLED = 1.0, 1.1
#: Milliseconds of a phase in which as many flows share the port, and how many in each.
PHASE, SHARING = 10.0, (1, 2, 3, 4, 3, 2, 1)
#: Utilization that HPCC aims at: the paper's, and what its authors advise on their page since.
ETAS = (0.95, 0.99)
ONE = {"kind": "long", "src": ["h1"], "dst": "h0"}
#: Flows that grow together, their link [bit/s], and the sums of their increases over the spare W(1 - η).
TOGETHER, LINK = 16, 100e9
SPARE = (0.1, 0.3, 1.0, 4.0, 16.0)
#: Milliseconds after which what came with their beginning is over.
BEGUN = 0.5

#: The abstract: completion times are up to 95% shorter.
SHORTER = 95.0
#: "Near zero": at most this share of a bandwidth-delay product.
NEAR_ZERO = 0.1
#: "Fair": Jain's index at least; "about η": at most so far from it.
EVEN, ABOUT = 0.95, 0.02


def cases(quick: bool) -> list[Case]:
    """Loads on the fat tree; an incast, joining flows, one flow, and flows that grow together."""
    short = {"warmup": "300us", "duration": "300us", "time_limit": "6ms"} if quick else {}
    found = []
    for system, own in SYSTEMS.items():
        if quick and system not in (HPCC, DCQCN, DCQCN_W):
            continue
        found.append(Case((LOADED, system), "hpcc-loads", {**own, **short}))
        found.append(Case((HALF, system), "hpcc-half", {**own, **short}))
    for system, own in TESTBED.items():
        found.append(Case((INCAST, system), "hpcc-incast", own))
        found.append(Case((FAIR, system), "hpcc-fair", own))
    for eta in ETAS:
        own = {**SYSTEMS[HPCC], "transport.eta": eta}
        found.append(Case((ALONE, f"{eta:g}"), "hpcc-window", {**own, "traffic": [ONE]}))
    for spare in SPARE:
        increase = spare * (1 - ETAS[0]) * LINK / TOGETHER
        own = {**SYSTEMS[HPCC], "transport.additive_increase": f"{round(increase / 1e3)}Kbps"}
        found.append(Case((WINDOW, f"{spare:g}"), "hpcc-window", own))
    return found


def small(result: Result, percentile: str) -> float | None:
    """A percentile of the slowdown of flows up to 10 KB."""
    value: float | None = result.summary["background"]["small"]["slowdown"][percentile]
    return value


def large(result: Result) -> float | None:
    """Mean slowdown of flows above 1 MB."""
    value: float | None = result.summary["background"]["large"]["slowdown"]["mean"]
    return value


def waits(result: Result) -> float:
    """99th percentile over time and switch ports of the time to drain the queue, in microseconds."""
    return float(result.summary["network"]["queue_us"]["p99"])


def paused(result: Result) -> float:
    """Milliseconds that PFC paused links, in all."""
    return float(result.summary["network"]["pfc_paused_us"]) / 1e3


def halves(result: Result) -> float:
    """Mean slowdown of flows of the later half of arrivals over that of the first."""
    flows = background(result.flows, result.scenario.endless).sort_by("start_ps")
    half = len(flows) // 2
    first, later = (slowdowns(flows.slice(*part)).mean() for part in ((0, half), (half, len(flows) - half)))
    return float(later / first)


def queue(result: Result) -> tuple[Floats, Floats]:
    """Times in milliseconds and bytes that wait at the port, each shape (n,)."""
    t, value = result.samples(f"queue {port.PORT}", measured=True)
    return 1e3 * t, value


def bdp(result: Result) -> float:
    """Bytes that the port's link sends in a base round trip of the star without packets' own times."""
    delay = quantity(result.scenario.document["network"]["link_delay"])
    return 4 * delay * port.rate(result) / 8


def standing(result: Result) -> float:
    """Mean queue after the beginning of an incast is over, over the bandwidth-delay product."""
    t, value = queue(result)
    return float(value[t > SETTLED].mean() / bdp(result))


def mean_queue(result: Result) -> float:
    """Mean queue of flows that grow together over the bandwidth-delay product."""
    t, value = queue(result)
    return float(value[t > BEGUN].mean() / bdp(result))


def shares(result: Result) -> list[Floats]:
    """Mean Gb/s of the flows that share the port, in the later half of each phase."""
    found = []
    flows = port.long_rates(result)
    for phase, sharing in enumerate(SHARING):
        low, high = (phase + 0.5) * PHASE, (phase + 1) * PHASE
        found.append(np.array([v[(t > low) & (t <= high)].mean() for _, t, v in flows[:sharing]]))
    return found


def fairness(result: Result) -> float:
    """Lowest Jain's index of all phases."""
    return min(port.jain(values) for values in shares(result))


def together(result: Result) -> float:
    """Jain's index of the mean rates of flows that grow together."""
    return port.jain(np.array([value[t > BEGUN].mean() for _, t, value in port.long_rates(result)]))


def _present(runs: Runs, load: str) -> list[str]:
    return [system for system in SYSTEMS if (load, system) in runs]


def _bars(ax: Axes, values: Mapping[str, Sequence[Estimate]], *, least: float = 0) -> None:
    """Bars of each system, from 0 or from the least there can be; the lighter ones are the earlier values."""
    for at, (system, ones) in enumerate(values.items()):
        width = 0.8 / len(ones)
        for i, value in enumerate(ones):
            x = at + (i - (len(ones) - 1) / 2) * width
            alpha = 1 if i == len(ones) - 1 else 0.5
            ax.bar(x, value.mean, 0.92 * width, color=COLOURS[system], alpha=alpha)
            ends = [[max(0.0, value.mean - value.low)], [max(0.0, value.high - value.mean)]]
            ax.errorbar(
                x, value.mean, np.nan_to_num(ends), fmt="none", ecolor=style.INK, elinewidth=0.9, capsize=2
            )
    ax.set_xticks(range(len(values)), [system.replace("+", "\n+") for system in values])
    ax.tick_params(axis="x", length=0, labelsize=7.5)
    if least:
        ax.set_yscale("log")
        ax.set_ylim(least, 2 * max(value.mean for ones in values.values() for value in ones))
        style.log_ticks(ax.yaxis)


def draw(runs: Runs) -> Figure:
    """Short flows and pauses on the fat tree; queue of an incast, joining flows, flows that grow together."""
    figure, axes = style.panels(2, 3, (3.5, 2.7))
    for ax, load in zip(axes, LOADS, strict=False):
        values = {
            system: [estimate(runs[load, system], partial(small, percentile=p)) for p in ("p95", "p99")]
            for system in _present(runs, load)
        }
        _bars(ax, values, least=1)
        ax.set_title(f"{load}: slowdown up to 10 KB, p95 and p99", fontsize=9)
    pauses = {system: [estimate(runs[LOADED, system], paused)] for system in _present(runs, LOADED)}
    _bars(axes[2], pauses)
    axes[2].set_title(f"{LOADED}: paused by PFC (ms, all links)", fontsize=9)
    for system in (DCQCN, HPCC):
        t, value = queue(runs[INCAST, system][0])
        axes[3].plot(t, value / 1e3, lw=1.1, color=COLOURS[system], label=system)
    axes[3].set_title("seven flows join one: queue (KB)", fontsize=9)
    axes[3].set_xlabel("time (ms)")
    axes[3].legend(fontsize=8)
    for colour, (_, t, value) in zip(style.LAYERS, port.long_rates(runs[FAIR, HPCC][0]), strict=False):
        axes[4].plot(t, value, lw=1.1, color=colour)
    axes[4].set_title("HPCC: rates of four flows (Gb/s)", fontsize=9)
    axes[4].set_xlabel("time (ms)")
    measures: Sequence[tuple[Callable[[Result], float], str]] = (
        (mean_queue, "queue (% of BDP)"),
        (together, "Jain's index (%)"),
    )
    for line, (of, label) in zip(style.LAYERS, measures, strict=False):
        values_at = [estimate(runs[WINDOW, f"{spare:g}"], of) for spare in SPARE]
        half = np.nan_to_num([100 * value.half for value in values_at])
        mean = [100 * value.mean for value in values_at]
        axes[5].errorbar(SPARE, mean, half, fmt="o-", ms=4, lw=1.3, capsize=2, color=line, label=label)
    axes[5].axvline(1, color=style.INK, lw=0.8, ls=":")
    axes[5].set_xscale("log")
    style.log_ticks(axes[5].xaxis)
    axes[5].set_title("sixteen flows: queue and fairness", fontsize=9)
    axes[5].set_xlabel("sum of W_AI over W(1 - η)")
    axes[5].legend(fontsize=8)
    for ax in axes[2:]:
        ax.set_ylim(bottom=0)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """The abstract, sections 3.3, 5.2 and 5.3."""
    return [*_loads(runs), *_port(runs), *_rests_on(runs)]


def _over(runs: Runs, load: str, system: str, percentile: str) -> Estimate:
    """A percentile of short flows' slowdown over HPCC's, in pairs of runs with the same arrivals."""
    own, other = (
        estimate(runs[load, name], partial(small, percentile=percentile)) for name in (HPCC, system)
    )
    return other.over(own)


def _loads(runs: Runs) -> list[Claim]:
    """The fat tree."""
    gains = [
        _over(runs, load, system, percentile)
        for load in LOADS
        for system in (DCQCN, TIMELY)
        if (load, system) in runs
        for percentile in ("p95", "p99")
    ]
    most = Estimate(tuple(100 * (1 - 1 / max(seed)) for seed in zip(*(g.values for g in gains), strict=True)))
    low, high = SHORTER - 5, SHORTER + 5
    found = [
        Claim(
            "completion times are up to 95% shorter than with DCQCN and TIMELY",
            f"largest reduction of p95 and p99 of slowdowns up to 10 KB, {low:g}% to {high:g}%",
            most.text("%"),
            (most.between(low, high),),
            f"{SHORTER:g}%",
        )
    ]
    for load in LOADS:
        for percentile in ("p95", "p99"):
            values = {s: _over(runs, load, s, percentile) for s in _present(runs, load) if s != HPCC}
            found.append(
                Claim(
                    f"{load}: HPCC's short flows are the fastest, {percentile}",
                    "slowdown up to 10 KB over HPCC's, each above 1",
                    ", ".join(f"{value.text('×')} {system}" for system, value in values.items()),
                    tuple(value.above(1) for value in values.values()),
                )
            )
    pauses = {system: estimate(runs[LOADED, system], paused) for system in _present(runs, LOADED)}
    without = [system for system in (DCQCN, TIMELY) if system in pauses]
    shown = ", ".join(f"{value.text()} {system}" for system, value in pauses.items())
    found.append(
        Claim(
            f"{LOADED}: HPCC has no PFC pauses, DCQCN and TIMELY have",
            "milliseconds paused, of all links: 0 with HPCC, more with these",
            shown,
            (pauses[HPCC].at_most(0), *(pauses[system].above(0) for system in without)),
        )
    )
    for system, limited in ((DCQCN, DCQCN_W), (TIMELY, TIMELY_W)):
        if system not in pauses:
            continue
        less = pauses[system].minus(pauses[limited])
        tail = _over(runs, LOADED, system, "p99").over(_over(runs, LOADED, limited, "p99"))
        found.append(
            Claim(
                f"{LOADED}: a window helps {system}",
                "fewer milliseconds paused, and p99 of slowdowns up to 10 KB lower",
                f"{less.text(' ms')} fewer, {tail.text('×')}",
                (less.above(0), tail.above(1)),
            )
        )
    others = [system for system in _present(runs, HALF) if system != HPCC]
    longest = {s: estimate(runs[HALF, s], waits).over(estimate(runs[HALF, HPCC], waits)) for s in others}
    found.append(
        Claim(
            f"{HALF}: HPCC's queues are the shortest",
            "99th percentile of all switch ports over HPCC's, each above 1",
            f"{estimate(runs[HALF, HPCC], waits).text(' µs')}; "
            + ", ".join(f"{value.text('×')} {system}" for system, value in longest.items()),
            tuple(value.above(1) for value in longest.values()),
        )
    )
    slower = {
        s: estimate(runs[HALF, HPCC], large).over(estimate(runs[HALF, s], large))
        for s in (DCQCN_W, TIMELY_W, DCTCP)
        if s in others
    }
    found.append(
        Claim(
            f"{HALF}: HPCC's large flows are slower, for INT and η",
            "mean slowdown above 1 MB over that of these, each above 1",
            ", ".join(f"{value.text('×')} {system}" for system, value in slower.items()),
            tuple(value.above(1) for value in slower.values()),
        )
    )
    return found


def _port(runs: Runs) -> list[Claim]:
    """One port: incast, fairness, η, and W_AI."""
    waiting = {system: estimate(runs[INCAST, system], standing) for system in TESTBED}
    found = [
        Claim(
            "seven flows join one: HPCC's queue is near zero ten round trips later",
            f"mean from then on at most {NEAR_ZERO:.0%} of the bandwidth-delay product",
            waiting[HPCC].text("%", 100),
            (waiting[HPCC].at_most(NEAR_ZERO),),
        ),
        Claim(
            "seven flows join one: DCQCN builds a queue",
            "mean from then on above the bandwidth-delay product",
            waiting[DCQCN].text("%", 100),
            (waiting[DCQCN].above(1),),
        ),
    ]
    even = {system: estimate(runs[FAIR, system], fairness) for system in TESTBED}
    found.append(
        Claim(
            "flows that join and leave share fairly with HPCC",
            f"Jain's index in the later half of each phase at least {EVEN:g}",
            f"{even[HPCC].text()} at least ({even[DCQCN].text()} DCQCN)",
            (even[HPCC].at_least(EVEN),),
        )
    )
    for eta in ETAS:
        used = estimate(runs[ALONE, f"{eta:g}"], port.utilization)
        low, high = eta - ABOUT, eta + ABOUT
        found.append(
            Claim(
                f"η = {eta:.0%} is the utilization of a link",
                f"{low:.0%} to {min(1, high):.0%} with one flow",
                used.text("%", 100),
                (used.between(low, min(1, high)),),
                f"{eta:.0%}" if eta == ETAS[0] else "",
            )
        )
    grown = {spare: estimate(runs[WINDOW, f"{spare:g}"], mean_queue) for spare in SPARE}
    few, many = [s for s in SPARE if s <= 1], [s for s in SPARE if s > 1]
    found += [
        Claim(
            "queues stay near zero as long as all W_AI together are at most W(1 - η)",
            f"mean at most {NEAR_ZERO:.0%} of the bandwidth-delay product; sums {_list(few)}",
            ", ".join(grown[s].text("%", 100) for s in few),
            tuple(grown[s].at_most(NEAR_ZERO) for s in few),
        ),
        Claim(
            "queues grow where all W_AI together are more",
            f"mean above that at 1; sums {_list(many)}",
            ", ".join(grown[s].text("%", 100) for s in many),
            tuple(grown[s].over(grown[1.0]).above(1) for s in many),
        ),
    ]
    index = [estimate(runs[WINDOW, f"{spare:g}"], together) for spare in (SPARE[0], SPARE[2])]
    found.append(
        Claim(
            "a larger W_AI shares faster",
            f"Jain's index, {BEGUN:g} to 3 ms: higher with a sum of {SPARE[2]:g} than of {SPARE[0]:g}",
            f"{index[0].text()} to {index[1].text()}",
            (index[1].over(index[0]).above(1),),
        )
    )
    return found


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _rests_on(runs: Runs) -> list[Claim]:
    """Claims that loads had come to rest."""
    measure = "mean slowdown of the later half of the flows over that of the first"
    return [
        steady(load, measure, {s: estimate(runs[load, s], halves) for s in _present(runs, load)})
        for load in LOADS
    ]


EXPERIMENT = Experiment(
    __name__,
    ("sim",),
    "HPCC beside DCQCN, TIMELY and DCTCP: queues, fairness, completion times, PFC",
    cases,
    draw,
    claims,
)
