"""RDMA's loss recovery with and without PFC: go-back-N (RoCE) and selective repeat (IRN, SIGCOMM 2018)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.paper.common import WITH, Case, Experiment, Key, Runs
from onramp.paper.verdict import Check, Claim, Estimate, estimate, ratio, steady
from onramp.plots import style
from onramp.result import Result
from onramp.scenario import quantity
from onramp.summary import Floats

FILE = "irn"
RATE = "40Gbps"
#: Share of a buffer that never fills: 222 MB make it 220 KB, 242 MB make it 240 KB, within 0.7%.
FIXED = {"switch.alpha": [{"rate": RATE, "alpha": 0.001}]}
#: An input port pauses at 220 KB. No timeout is early then: the paper has none.
PAUSED: Mapping[str, object] = {**FIXED, "switch.buffer": "222MB", "host.rto": "1s"}
#: An input port drops from 240 KB on. Timeouts are fixed: RTO_high.
DROPPED: Mapping[str, object] = {
    **FIXED,
    "switch.loss": "lossy-ingress",
    "switch.buffer": "242MB",
    "host.rto": "320us",
    "host.rto_doublings": 0,
}
SELECTIVE = {"host.recovery": {"kind": "selective-repeat"}}
NO_TIMEOUT = {"host.recovery": {"kind": "selective-repeat", "rto_low": "1s", "rto_high": "1s"}}
SYSTEMS: Mapping[str, Mapping[str, object]] = {
    "RoCE, PFC": PAUSED,
    "RoCE": DROPPED,
    "IRN, PFC": {**PAUSED, **NO_TIMEOUT},
    "IRN": {**DROPPED, **SELECTIVE},
}
ROCE_PFC, ROCE, IRN_PFC, IRN = SYSTEMS
#: IRN without one of its two parts.
PARTS: Mapping[str, Mapping[str, object]] = {
    "IRN, go-back-N": {**DROPPED, "transport.window": True},
    "IRN, no BDP-FC": {**DROPPED, **SELECTIVE, "host.max_window": "100MB"},
}
GO_BACK_N, NO_CAP = PARTS
COLOURS = dict(zip(SYSTEMS, (style.LAYERS[i] for i in (1, 7, 6, 0)), strict=True))

#: DCQCN's state without a mark is line rate. Its values are its paper's (SIGCOMM 2015), at 40 Gb/s.
CONTROLS: Mapping[str, Mapping[str, object]] = {
    "no CC": {"switch.ecn": []},
    "DCQCN": {
        "transport.rate_increase_timer": "55us",
        "transport.rate_decrease_timer": "50us",
        "transport.alpha_timer": "55us",
        "transport.fast_recovery": 5,
        "transport.additive_increase": "40Mbps",
        "transport.hyper_increase": "200Mbps",
        "transport.min_rate": "40Mbps",
        "switch.ecn": [{"rate": RATE, "kmin": "5KB", "kmax": "200KB", "pmax": 0.01}],
    },
    "TIMELY": {"transport.kind": "timely", "switch.ecn": []},
}
NO_CC, DCQCN, TIMELY = CONTROLS

INCAST, TWO = "incast", "two flows"
FAN_INS = (10, 30, 50)
#: Bytes that an incast's answers are together.
STRIPED = 150_000_000
#: An egress queue of 480 KB for all, in place of two input ports with 240 KB each.
SHARED = "RoCE, shared egress queue"
TWO_SYSTEMS: Mapping[str, Mapping[str, object]] = {
    **SYSTEMS,
    SHARED: {**DROPPED, "switch.loss": "lossy", "switch.buffer": "484MB"},
}

#: The abstract: RoCE's values are lowered by 6 to 83%.
LEAST, MOST = 0.06, 0.83
#: "PFC does not improve IRN" by more than this share.
IMPROVES = 0.05
#: RoCE's values without PFC over those with it, and how far from these bounds is still as stated.
WORSE, APART = (1.5, 3.0), 1.5
#: An incast with IRN takes as long as with RoCE and PFC if at most this share longer.
LONGER = 0.05


def cases(quick: bool) -> list[Case]:
    """Every recovery and control, incasts, and two flows."""
    short = {"warmup": "1ms", "duration": "4ms", "time_limit": "12ms"} if quick else {}
    found = [
        Case((control, system), FILE, {**short, **more, **own})
        for control, more in CONTROLS.items()
        for system, own in SYSTEMS.items()
    ]
    found += [Case((NO_CC, part), FILE, {**short, **CONTROLS[NO_CC], **own}) for part, own in PARTS.items()]
    found += [
        Case((control, system, WITH), FILE, {**short, **more, **SYSTEMS[system], "onramp.enabled": True})
        for control, more in CONTROLS.items()
        for system in (ROCE_PFC, IRN)
    ]
    for fan_in in FAN_INS[1:2] if quick else FAN_INS:
        striped = {"traffic.0.fan_out": fan_in, "traffic.0.size": f"{STRIPED // fan_in}B"}
        if quick:
            striped |= {"duration": "500ms"}
        found += [
            Case(
                (INCAST, control, system, str(fan_in)),
                f"{FILE}-incast",
                {**striped, **more, **SYSTEMS[system]},
            )
            for control, more in CONTROLS.items()
            for system in (ROCE_PFC, IRN)
        ]
    found += [
        Case((TWO, system), f"{FILE}-two", {**CONTROLS[NO_CC], **own}) for system, own in TWO_SYSTEMS.items()
    ]
    return found


def times(result: Result) -> tuple[Floats, Floats]:
    """Completion times in microseconds and slowdowns of all flows, each shape (n,), by arrival.

    A flow that had not ended with the run counts as if it had: these are lower bounds.
    """
    table = result.flows.sort_by("start_ps")
    start, fct, ideal = (np.asarray(table[name], float) for name in ("start_ps", "fct_ps", "ideal_ps"))
    end = 1e12 * quantity(result.scenario.document["time_limit"])
    fct = np.where(np.isnan(fct), end - start, fct)
    return fct / 1e6, np.maximum(1.0, fct / np.maximum(ideal, 1))


#: The paper's three metrics.
METRICS: Mapping[str, Callable[[Result], float]] = {
    "mean slowdown": lambda result: float(times(result)[1].mean()),
    "mean FCT (µs)": lambda result: float(times(result)[0].mean()),
    "99th percentile of FCT (µs)": lambda result: float(np.percentile(times(result)[0], 99)),
}
SLOWDOWN, FCT, TAIL = METRICS
ALL_METRICS = "mean slowdown, mean and 99th percentile of FCT"


def over(runs: Runs, first: Key, second: Key) -> list[Estimate]:
    """Each metric of one case over another's, in pairs of runs with the same arrivals."""
    return [ratio(runs[first], runs[second], of) for of in METRICS.values()]


def halves(result: Result) -> float:
    """Mean slowdown of the flows that came in the later half of the time over that of the others."""
    own = np.array_split(times(result)[1], 2)
    return float(own[1].mean() / own[0].mean())


def lost(result: Result) -> float:
    """Packets dropped of all that were sent."""
    network = result.summary["network"]
    return float(network["drops"] / network["packets_sent"])


def pauses(result: Result) -> float:
    """Pauses that PFC made."""
    return float(result.summary["network"]["pfc_pauses"])


def unfinished(result: Result) -> float:
    """Share of flows that had not ended with the run."""
    return float(result.summary["unfinished"]["flows"] / max(1, result.flows.num_rows))


def rct(result: Result) -> float | None:
    """Mean completion time of requests in microseconds; None if none completed."""
    mean: float | None = result.summary["incast"]["rct_us"]["mean"]
    return mean


def goodput(result: Result) -> float:
    """Payload that two flows deliver in Gb/s."""
    names = [name for name in result.series_names if name.startswith("rate flow")]
    return sum(float(result.samples(name, measured=True)[1].mean()) / 1e9 for name in names)


def _bars(
    ax: Axes, groups: Sequence[str], bars: Mapping[str, Sequence[Estimate]], colours: Sequence[str]
) -> None:
    """Groups of bars with their intervals."""
    width = 0.8 / len(bars)
    for i, (name, values) in enumerate(bars.items()):
        at = np.arange(len(groups)) + (i - (len(bars) - 1) / 2) * width
        half = np.nan_to_num([value.half for value in values])
        mean = [value.mean for value in values]
        ax.bar(at, mean, 0.92 * width, color=colours[i], label=name)
        ax.errorbar(at, mean, half, fmt="none", ecolor=style.INK, elinewidth=0.9, capsize=2)
    ax.set_xticks(range(len(groups)), groups)
    ax.tick_params(axis="x", length=0)


def draw(runs: Runs) -> Figure:
    """The three metrics, drops, IRN's parts, two flows that meet, and incasts."""
    figure, axes = style.panels(2, 3, (3.4, 2.7))
    controls = list(CONTROLS)
    for ax, (name, of) in zip(axes, METRICS.items(), strict=False):
        sides = {
            s if "PFC" in s else f"{s}, no PFC": [estimate(runs[(c, s)], of) for c in controls]
            for s in SYSTEMS
        }
        _bars(ax, controls, sides, list(COLOURS.values()))
        ax.set_title(name, fontsize=9)
        ax.set_yscale("log")
        low, high = (f([v.mean for side in sides.values() for v in side]) for f in (min, max))
        ax.set_ylim(low / 2.5, high * 1.6)
        style.log_ticks(ax.yaxis)
    parts = {IRN: COLOURS[IRN], GO_BACK_N: style.LAYERS[3], NO_CAP: style.LAYERS[2]}
    for i, (part, colour) in enumerate(parts.items()):
        value = estimate(runs[(NO_CC, part)], METRICS[FCT])
        _bars_one(axes[3], i, value, colour)
    axes[3].set_xticks(range(len(parts)), [part.replace(", ", "\n") for part in parts])
    axes[3].set_title("no CC, no PFC: mean FCT (µs)", fontsize=9)
    for i, system in enumerate(TWO_SYSTEMS):
        _bars_one(axes[4], i, estimate(runs[(TWO, system)], goodput), COLOURS.get(system, style.LAYERS[3]))
    labels = [
        system.replace(", shared egress queue", "\nshared\nqueue").replace(", ", "\n")
        for system in TWO_SYSTEMS
    ]
    axes[4].set_xticks(range(len(labels)), labels)
    axes[4].set_title("two flows at line rate: payload (Gb/s)", fontsize=9)
    for ax in axes[3:5]:
        ax.tick_params(axis="x", length=0, labelsize=7.5)
        ax.set_ylim(top=1.15 * ax.get_ylim()[1])
    fan_ins = sorted({int(key[3]) for key in runs if key[0] == INCAST})
    for i, control in enumerate(controls):
        values = [_incast(runs, control, str(m)) for m in fan_ins]
        axes[5].errorbar(
            [m + 0.8 * (i - 1) for m in fan_ins],
            [value.mean for value in values],
            np.nan_to_num([value.half for value in values]),
            fmt="o-",
            ms=4,
            lw=1.3,
            capsize=2,
            color=style.LAYERS[(9, 2, 4)[i]],
            label=control,
        )
    axes[5].axhline(1, color=style.INK, lw=0.8, ls=":")
    axes[5].set_xlabel("fan-in")
    axes[5].set_xticks(fan_ins)
    axes[5].set_xlim(fan_ins[0] - 5, fan_ins[-1] + 5)
    axes[5].set_title("RCT of IRN over that of RoCE with PFC", fontsize=9)
    axes[5].legend(fontsize=7.5)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8.5)
    return figure


def _bars_one(ax: Axes, at: int, value: Estimate, colour: str) -> None:
    ax.bar(at, value.mean, 0.65, color=colour)
    ax.errorbar(
        at, value.mean, np.nan_to_num(value.half), fmt="none", ecolor=style.INK, elinewidth=0.9, capsize=2
    )
    text = f"{value.mean:,.0f}" if value.mean >= 100 else f"{value.mean:.3g}"
    top = value.mean + float(np.nan_to_num(value.half))
    ax.annotate(text, (at, top), (0, 2), textcoords="offset points", ha="center", fontsize=7.5)


def _incast(runs: Runs, control: str, fan_in: str) -> Estimate:
    """IRN's mean RCT over that of RoCE with PFC."""
    irn, roce = (runs[(INCAST, control, system, fan_in)] for system in (IRN, ROCE_PFC))
    return ratio(irn, roce, rct)


def _texts(values: Sequence[Estimate], unit: str = "×") -> str:
    return ", ".join(value.text(unit) for value in values)


def _all(
    runs: Runs,
    statement: str,
    pair: tuple[Key, Key],
    criterion: str,
    check: Callable[[Estimate], Check],
    *,
    of_paper: bool = True,
) -> Claim:
    """Claim that has to hold for every metric of one case over another's."""
    values = over(runs, *pair)
    return Claim(statement, criterion, _texts(values), tuple(map(check, values)), of_paper=of_paper)


def claims(runs: Runs) -> list[Claim]:
    """Sections 4.2 to 4.4: IRN does without PFC and is better for it; RoCE needs it."""
    found = []
    for control in CONTROLS:
        values = over(runs, (control, IRN), (control, ROCE_PFC))
        found.append(
            Claim(
                f"{control}: IRN without PFC outperforms RoCE with PFC",
                f"{ALL_METRICS} lower by these, each",
                ", ".join(v.each(lambda x: 1 - x).text("%", 100) for v in values),
                tuple(v.between(1 - MOST, 1 - LEAST) for v in values),
                f"{LEAST:.0%}–{MOST:.0%}",
            )
        )
    for control in CONTROLS:
        values = over(runs, (control, IRN_PFC), (control, IRN))
        drops = estimate(runs[(control, IRN)], lost)
        found.append(
            Claim(
                f"{control}: IRN does not need PFC",
                f"{ALL_METRICS} with PFC over without, none below {1 - IMPROVES:g}",
                f"{_texts(values)}; {drops.text('%', 100)} dropped without",
                tuple(value.at_least(1 - IMPROVES) for value in values),
            )
        )
    irn, roce = ((NO_CC, IRN_PFC), (NO_CC, IRN)), ((NO_CC, ROCE), (NO_CC, ROCE_PFC))
    above = f"{ALL_METRICS} with PFC over without, each above 1"
    found.append(_all(runs, "no CC: PFC makes IRN worse", irn, above, lambda x: x.above(1)))
    above = f"{ALL_METRICS} without PFC over with, each above 1"
    for control in CONTROLS:
        pair = (control, ROCE), (control, ROCE_PFC)
        found.append(_all(runs, f"{control}: RoCE needs PFC", pair, above, lambda x: x.above(1)))
    found.append(
        _all(
            runs,
            "no CC: without PFC RoCE is 1.5 to 3 times worse",
            roce,
            f"the same, at most {APART:g} times beyond these",
            lambda x: x.between(WORSE[0] / APART, WORSE[1] * APART),
        )
    )
    slower = {part: ratio(runs[(NO_CC, part)], runs[(NO_CC, IRN)], METRICS[FCT]) for part in PARTS}
    found += [
        Claim(
            f"no CC: {part.removeprefix('IRN, ')} makes IRN worse",
            "mean FCT over IRN's above 1",
            value.text("×"),
            (value.above(1),),
        )
        for part, value in slower.items()
    ]
    found.append(
        Claim(
            "no CC: recovery counts more than BDP-FC",
            "mean FCT with go-back-N above that with no BDP-FC",
            f"{slower[GO_BACK_N].text()} to {slower[NO_CAP].text('×')}",
            (slower[GO_BACK_N].over(slower[NO_CAP]).above(1),),
        )
    )
    fan_ins = sorted({key[3] for key in runs if key[0] == INCAST})
    for control in CONTROLS:
        values = [_incast(runs, control, fan_in) for fan_in in fan_ins]
        found.append(
            Claim(
                f"{control}: incasts take as long with IRN as with RoCE and PFC",
                f"mean RCT over RoCE's at most {1 + LONGER:g}; fan-in {', '.join(fan_ins)}",
                _texts(values),
                tuple(value.at_most(1 + LONGER) for value in values),
            )
        )
    return [*found, *_rests_on(runs)]


def _rests_on(runs: Runs) -> list[Claim]:
    """Claims that the paper does not state: why, and what the values are worth."""
    two = {system: estimate(runs[(TWO, system)], goodput) for system in TWO_SYSTEMS}
    found = [
        Claim(
            "no CC: where two flows at line rate meet, go-back-N delivers next to nothing",
            "payload in Gb/s at most 1/10 of that with PFC, unless they share an egress queue",
            ", ".join(f"{value.text()} {system}" for system, value in two.items()),
            (two[ROCE].over(two[ROCE_PFC]).at_most(0.1), two[SHARED].over(two[ROCE_PFC]).above(0.1)),
            of_paper=False,
        )
    ]
    paused = [runs[(control, system)] for control in CONTROLS for system in (ROCE_PFC, IRN_PFC)]
    counts = [estimate(side, pauses) for side in paused]
    drops = [estimate(side, lost) for side in paused]
    most = max(max(value.values) for value in drops)
    found.append(
        Claim(
            "with PFC nothing is dropped",
            "no packet in any run",
            f"{100 * most:g}% dropped; pauses {', '.join(value.text() for value in counts)} "
            "(RoCE, IRN of each control)",
            tuple(value.at_most(0) for value in drops),
            of_paper=False,
        )
    )
    for control in CONTROLS:
        left = {system: estimate(runs[(control, system)], unfinished) for system in SYSTEMS}
        found.append(
            Claim(
                f"{control}: every flow ends",
                "within 60 ms of the first; those that do not count as if they had",
                ", ".join(f"{value.text('%', 100)} not {system}" for system, value in left.items()),
                tuple(value.at_most(0) for value in left.values()),
                of_paper=False,
            )
        )
    for control in CONTROLS:
        sides = {system: estimate(runs[(control, system)], halves) for system in SYSTEMS}
        found.append(
            steady(control, "mean slowdown of the later half of the flows over that of the first", sides)
        )
    for control in CONTROLS:
        for system in (ROCE_PFC, IRN):
            helps, pair = f"{control}, {system}: On-Ramp helps", ((control, system, WITH), (control, system))
            below = f"{ALL_METRICS} with it over without, each below 1"
            found.append(_all(runs, helps, pair, below, lambda x: x.below(1), of_paper=False))
    return found


EXPERIMENT = Experiment(
    __name__,
    ("sim",),
    "RDMA with and without PFC: go-back-N (RoCE) and selective repeat (IRN)",
    cases,
    draw,
    claims,
)
