"""DCQCN against PFC's unfairness and victims, its parameters, and its queue (Zhu et al., SIGCOMM 2015)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, Estimate, estimate, span
from onramp.plots import style
from onramp.result import Result
from onramp.scenario import quantity
from onramp.studies import irn, port
from onramp.summary import Floats

DCQCN, NONE, DCTCP = "DCQCN", "PFC only", "DCTCP"
#: DCQCN in the vendor's form, as in HPCC's simulator.
VENDORS = irn.CONTROLS[irn.DCQCN]
#: The paper's form, with the same values: each cut lowers the target rate, and there is no hyper increase,
#: which waits for a byte counter of 10 MB as well.
PUBLISHED: Mapping[str, object] = {
    **VENDORS,
    "transport.clamp_target": True,
    "transport.hyper_increase": VENDORS["transport.additive_increase"],
}
#: Without marks DCQCN sends at line rate, and nothing but PFC slows it down.
CONTROLS: Mapping[str, Mapping[str, object]] = {
    NONE: {**PUBLISHED, **irn.CONTROLS[irn.NO_CC]},
    DCQCN: PUBLISHED,
}
COLOURS = {NONE: style.LAYERS[3], DCQCN: style.LAYERS[0], DCTCP: style.LAYERS[2]}

UNFAIR, VICTIM, TWO, PARKING, INCAST, GAIN, VENDOR = (
    "unfair",
    "victim",
    "two",
    "parking",
    "incast",
    "gain",
    "vendor",
)
#: Senders elsewhere and the one under the receiver's ToR; the receiver.
SENDERS, NEAR, RECEIVER = ("h0", "h1", "h2"), "h9", "h8"
#: Senders of the incast under the victim's ToR, those under another, and the victim.
WITH_VICTIM, ELSEWHERE, SUFFERS = ("h0", "h1", "h2", "h3"), ("h6", "h7"), ("h4", "h5")
#: Repeats, and milliseconds of each. Its last third is measured; its flows stop a bit before the next one.
REPEATS = {NONE: (16, 24), DCQCN: (4, 60)}
PAUSE = 1

#: Flows into one port; totals are stated of these, queues of twenty.
FEW, FLOWS = (1, 2, 5, 10), (1, 2, 5, 10, 16, 20)
#: Incasts, and gains of α: published, and DCTCP's.
SWINGING, GAINS = (2, 16), (256, 16)
#: DCTCP's threshold at 40 Gb/s, and where marks begin at once in the paper's first configuration.
DCTCP_MARKS, CUT_OFF = "160KB", "40KB"
#: Timers of rate increases in microseconds: as published, the vendor's in HPCC's simulations, QCN's.
TIMERS = (55, 300, 1500)
#: Milliseconds from which on two flows have to share evenly.
EVEN_FROM = 110.0

#: Published: the victim's median rate by senders elsewhere [Gb/s], p90 of queues [KB], total [Gb/s].
VICTIMS = {0: 10.0, 2: 4.5}
QUEUES = {DCQCN: 76.6, DCTCP: 162.9}
TOTAL = 39.0
#: Bounds of statements in words: Jain's index of equal shares, what is left of a rate that does not fall, and
#: how far rates that converged are apart.
EVEN, KEPT, APART = 0.95, 0.9, 0.1


def _marks(at: str) -> dict[str, object]:
    return {"switch.ecn": [{"rate": irn.RATE, "kmin": at, "kmax": at, "pmax": 1}]}


def _repeats(count: int, every: int, *groups: tuple[Sequence[str], str]) -> dict[str, object]:
    """Flows of each group of senders to its receiver, repeated every so many ms with new hashes."""
    return {
        "duration": f"{count * every}ms",
        "traffic": [
            {
                "kind": "long",
                "src": list(senders),
                "dst": receiver,
                "start": f"{i * every}ms",
                "stop": f"{(i + 1) * every - PAUSE}ms",
            }
            for i in range(count)
            for senders, receiver in groups
        ],
    }


def cases(quick: bool) -> list[Case]:
    """The testbed with and without control; two flows, incasts, and the parking lot."""
    short = {"duration": "210ms"} if quick else {}
    found = []
    for control, own in CONTROLS.items():
        count, every = (1, 24) if quick else REPEATS[control]
        flows = _repeats(count, every, ([*SENDERS, NEAR], RECEIVER))
        found.append(Case((UNFAIR, control), "dcqcn-clos", {**own, **flows}))
        for more in VICTIMS:
            groups = [([*WITH_VICTIM, *ELSEWHERE[:more]], RECEIVER), ([SUFFERS[0]], SUFFERS[1])]
            flows = _repeats(count, every, *groups)
            found.append(Case((VICTIM, control, str(more)), "dcqcn-clos", {**own, **flows}))
    for timer in TIMERS:
        own = {**PUBLISHED, **short, "transport.rate_increase_timer": f"{timer}us"}
        found.append(Case((TWO, str(timer)), "dcqcn-two", own))
    for count in FLOWS:
        found.append(Case((INCAST, DCQCN, str(count)), "dcqcn-star", {**PUBLISHED, **_into(count)}))
        if count in (FEW[-1], FLOWS[-1]):
            found.append(Case((VENDOR, str(count)), "dcqcn-star", {**VENDORS, **_into(count)}))
    most = _into(FLOWS[-1])
    tcp = {"transport.kind": "dctcp-tcp", "linux.buffer": "4MB", **_marks(DCTCP_MARKS)}
    found.append(Case((INCAST, DCTCP, str(FLOWS[-1])), "dcqcn-star", {**tcp, **most}))
    for count in SWINGING:
        own = {**PUBLISHED, "transport.gain": 1 / GAINS[1], **_into(count)}
        found.append(Case((GAIN, str(count)), "dcqcn-star", own))
    found.append(Case((PARKING, "RED"), "dcqcn-parking", PUBLISHED))
    found.append(Case((PARKING, "cut-off"), "dcqcn-parking", {**PUBLISHED, **_marks(CUT_OFF)}))
    return found


def _into(flows: int) -> dict[str, object]:
    return {"traffic.0.src": [f"h{i + 1}" for i in range(flows)]}


def rate(result: Result, pair: tuple[str, str]) -> Floats:
    """Mean Gb/s of a pair of hosts at the end of each repeat, shape (n,)."""
    document = result.scenario.document
    stops = sorted(
        {1e3 * quantity(section.get("stop", document["duration"])) for section in document["traffic"]}
    )
    length = (stops[-1] + PAUSE) / len(stops)
    names = [name for name in result.series_names if name.endswith(f" {pair[0]}->{pair[1]}")]
    found = np.zeros(len(stops))
    for name in names:
        t, value = result.samples(name, measured=True)
        for i, stop in enumerate(stops):
            own = value[(1e3 * t > stop - length / 3) & (1e3 * t <= stop)]
            found[i] += own.sum() / 1e9 / max(1, len(own))
    return found


def sender(result: Result, host: str) -> float:
    """Gb/s of a sender to the receiver, mean of all repeats."""
    return float(rate(result, (host, RECEIVER)).mean())


def unfair(result: Result) -> float:
    """Rate of the flow under the receiver's ToR over the highest of the others, means of all repeats."""
    return sender(result, NEAR) / max(1e-9, *(sender(result, host) for host in SENDERS))


def even(result: Result) -> float:
    """Jain's index of the four flows, mean of all repeats."""
    return port.jain(np.array([rate(result, (host, RECEIVER)) for host in (*SENDERS, NEAR)]))


def victim(result: Result) -> float:
    """Median of the victim's Gb/s over repeats."""
    return float(np.median(rate(result, SUFFERS)))


def pauses(result: Result) -> float:
    """Pauses that PFC made in a millisecond."""
    return float(
        result.summary["network"]["pfc_pauses"] / (1e3 * quantity(result.scenario.document["duration"]))
    )


def queue(result: Result) -> Floats:
    """Kilobytes that wait at the port, by samples, shape (n,)."""
    return np.asarray(result.samples(f"queue {port.PORT}", measured=True)[1]) / 1e3


def p90(result: Result) -> float:
    """90th percentile of the queue in KB."""
    return float(np.percentile(queue(result), 90))


def swing(result: Result) -> float:
    """Standard deviation of the queue in KB."""
    return float(queue(result).std())


def total(result: Result) -> float:
    """Gb/s that the port sends."""
    return port.utilization(result) * port.rate(result) / 1e9


def apart(result: Result) -> float:
    """Difference of two flows' rates once they had time to converge, over their mean."""
    first, second = (value[t > EVEN_FROM].mean() for _, t, value in port.long_rates(result)[:2])
    return float(2 * abs(first - second) / (first + second))


def middle(result: Result) -> float:
    """Gb/s of the parking lot's flow over both links."""
    return next((float(value.mean()) for pair, _, value in port.long_rates(result) if pair == "h1->h4"), 0.0)


def _bars(ax: Axes, offset: float, values: Sequence[Estimate], control: str) -> None:
    at = np.arange(len(values)) + offset
    ax.bar(at, [value.mean for value in values], 0.37, color=COLOURS[control], label=control)
    half = np.nan_to_num([value.half for value in values])
    ax.errorbar(
        at, [value.mean for value in values], half, fmt="none", ecolor=style.INK, elinewidth=0.9, capsize=2
    )
    ax.tick_params(axis="x", length=0)


def draw(runs: Runs) -> Figure:
    """Unfairness, victim, two flows, incasts' queues and totals, parking lot."""
    figure, axes = style.panels(2, 3, (3.5, 2.7))
    for side, control in enumerate(CONTROLS):
        offset = 0.4 * (side - 0.5)
        hosts = (*SENDERS, NEAR)
        values = [estimate(runs[UNFAIR, control], partial(sender, host=h)) for h in hosts]
        _bars(axes[0], offset, values, control)
        values = [estimate(runs[VICTIM, control, str(more)], victim) for more in VICTIMS]
        _bars(axes[1], offset, values, control)
    axes[0].set_xticks(range(4), ["H1", "H2", "H3", "H4"])
    axes[0].set_title("senders' rates, H4 near the receiver (Gb/s)", fontsize=9)
    axes[1].set_xticks(range(len(VICTIMS)), [f"{more} senders elsewhere" for more in VICTIMS])
    axes[1].set_title("victim's rate (Gb/s; o: paper)", fontsize=9)
    for timer, colour in ((TIMERS[0], 0), (TIMERS[-1], 3)):
        for (_, t, value), line in zip(
            port.long_rates(runs[TWO, str(timer)][0])[:2], ("-", ":"), strict=False
        ):
            cut = len(t) // 20 * 20
            x, y = (part[:cut].reshape(-1, 20).mean(axis=1) for part in (t, value))
            axes[2].plot(
                x, y, line, lw=1.2, color=style.LAYERS[colour], label=f"{timer} µs" if line == "-" else ""
            )
    axes[2].set_title("two flows, by timer (Gb/s)", fontsize=9)
    axes[2].set_xlabel("time (ms); the second flow, dotted, joins at 10")
    most = str(FLOWS[-1])
    for control in (DCQCN, DCTCP):
        pooled = np.sort(np.concatenate([queue(r) for r in runs[INCAST, control, most]]))
        share = np.arange(1, len(pooled) + 1) / len(pooled)
        axes[3].step(pooled, share, lw=1.4, color=COLOURS[control], label=control)
        axes[3].plot(QUEUES[control], 0.9, "o", ms=5, mfc="none", color=COLOURS[control])
    axes[3].set_title(f"{most} flows: queue, share of time (KB; o: paper)", fontsize=9)
    totals = [estimate(runs[INCAST, DCQCN, str(flows)], total) for flows in FLOWS]
    half = np.nan_to_num([value.half for value in totals])
    axes[4].errorbar(
        FLOWS, [v.mean for v in totals], half, fmt="o-", ms=4, lw=1.3, capsize=2, color=COLOURS[DCQCN]
    )
    axes[4].axhline(TOTAL, color=style.INK, lw=0.8, ls=":")
    axes[4].set_ylim(35, 40.5)
    axes[4].set_title("DCQCN: total (Gb/s)", fontsize=9)
    axes[4].set_xlabel("flows")
    for at, marks in enumerate(("cut-off", "RED")):
        through = estimate(runs[PARKING, marks], middle)
        axes[5].bar(at, through.mean, 0.5, color=style.LAYERS[0])
        axes[5].errorbar(
            at, through.mean, float(np.nan_to_num(through.half)), fmt="none", ecolor=style.INK, capsize=2
        )
    axes[5].axhline(20, color=style.INK, lw=0.8, ls=":")
    axes[5].set_xticks((0, 1), (f"marks from {CUT_OFF}", "published marks"))
    axes[5].set_title("parking lot: flow over both links (Gb/s)", fontsize=9)
    for ax in (axes[0], axes[1], axes[2], axes[5]):
        ax.set_ylim(bottom=0)
    axes[1].plot(
        [at - 0.2 for at in range(len(VICTIMS))], list(VICTIMS.values()), "o", ms=6, mfc="w", mec=style.INK
    )
    axes[1].set_ylim(top=1.35 * axes[1].get_ylim()[1])
    axes[0].set_ylim(top=1.35 * axes[0].get_ylim()[1])
    for ax in axes[:4]:
        ax.legend(fontsize=8, loc="upper left" if ax is axes[3] else "upper right")
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Sections 2.2, 5, 6 and 7."""
    return [*_testbed(runs), *_port(runs), *_parking(runs)]


def _testbed(runs: Runs) -> list[Claim]:
    """Unfairness, victim and pauses without and with control."""
    least = estimate(runs[UNFAIR, NONE], unfair)
    index = {control: estimate(runs[UNFAIR, control], even) for control in CONTROLS}
    found = [
        Claim(
            f"{NONE}: a sender near the receiver gets more than each of three others",
            "mean rate over the highest of theirs above 1",
            f"{least.text('×')}; Jain's index {index[NONE].text()}",
            (least.above(1),),
        ),
        Claim(
            f"{DCQCN}: the four share equally",
            f"Jain's index at least {EVEN:g}",
            index[DCQCN].text(),
            (index[DCQCN].at_least(EVEN),),
        ),
    ]
    rates = {
        (control, more): estimate(runs[VICTIM, control, str(more)], victim)
        for control in CONTROLS
        for more in VICTIMS
    }
    for more, stated in VICTIMS.items():
        low, high = span(stated)
        found.append(
            Claim(
                f"{NONE}: median rate of a victim with {more} senders elsewhere",
                f"{low:.3g} to {high:.3g} Gb/s",
                rates[NONE, more].text(" Gb/s"),
                (rates[NONE, more].between(low, high),),
                f"{stated:g} Gb/s",
            )
        )
    few, many = VICTIMS
    kept = {control: rates[control, many].over(rates[control, few]) for control in CONTROLS}
    found.append(
        Claim(
            f"{DCQCN}: senders elsewhere take nothing from the victim",
            f"median rate with {many} over that with {few} at least {KEPT:g}",
            f"{kept[DCQCN].text('×')}, {rates[DCQCN, few].text()} to {rates[DCQCN, many].text(' Gb/s')}; "
            f"{kept[NONE].text('×')} {NONE}",
            (kept[DCQCN].at_least(KEPT),),
        )
    )
    gains = [rates[DCQCN, more].over(rates[NONE, more]) for more in VICTIMS]
    found.append(
        Claim(
            f"{DCQCN}: the victim gets more than with {NONE}",
            f"median rate over that with {NONE} above 1; {few} and {many} senders elsewhere",
            ", ".join(gain.text("×") for gain in gains),
            tuple(gain.above(1) for gain in gains),
        )
    )
    made = {control: estimate(runs[VICTIM, control, str(many)], pauses) for control in CONTROLS}
    found.append(
        Claim(
            f"{DCQCN} makes far fewer PFC pauses",
            f"at most 1% of {NONE}'s",
            f"{made[NONE].text()} to {made[DCQCN].text()} a millisecond",
            (Estimate(made[DCQCN].over(made[NONE]).values).at_most(0.01),),
        )
    )
    return found


def _port(runs: Runs) -> list[Claim]:
    """One port: convergence, totals, queues, and g."""
    unlike = {timer: estimate(runs[TWO, str(timer)], apart) for timer in TIMERS}
    found = [
        Claim(
            "two flows converge with the published values",
            f"rates from {EVEN_FROM:g} ms on at most {APART:.0%} of their mean apart",
            unlike[TIMERS[0]].text("%", 100),
            (unlike[TIMERS[0]].at_most(APART),),
        ),
        Claim(
            "they do not with QCN's timer of 1.5 ms",
            f"rates from {EVEN_FROM:g} ms on more than {APART:.0%} of their mean apart",
            f"{unlike[TIMERS[2]].text('%', 100)}; {unlike[TIMERS[1]].text('%', 100)} with {TIMERS[1]} µs",
            (unlike[TIMERS[2]].above(APART),),
        ),
    ]
    totals = {flows: estimate(runs[INCAST, DCQCN, str(flows)], total) for flows in FLOWS}
    more = ", ".join(f"{totals[flows].text()} with {flows}" for flows in FLOWS if flows not in FEW)
    found.append(
        Claim(
            f"incasts up to {FEW[-1]} flows: the total is always more than 39 Gb/s",
            f"at least {TOTAL:g} Gb/s with {', '.join(map(str, FEW))}",
            ", ".join(totals[flows].text() for flows in FEW) + f" Gb/s ({more})",
            tuple(totals[flows].at_least(TOTAL) for flows in FEW),
            f"{TOTAL:g} Gb/s",
        )
    )
    most = str(FLOWS[-1])
    longest = {control: estimate(runs[INCAST, control, most], p90) for control in QUEUES}
    for control, stated in QUEUES.items():
        low, high = span(stated)
        found.append(
            Claim(
                f"{most} flows: 90th percentile of {control}'s queue",
                f"{low:.3g} to {high:.3g} KB",
                longest[control].text(" KB"),
                (longest[control].between(low, high),),
                f"{stated:g} KB",
            )
        )
    found.append(
        Claim(
            f"{most} flows: {DCQCN}'s queue is shorter than {DCTCP}'s",
            "90th percentile over the other's below 1",
            longest[DCQCN].over(longest[DCTCP]).text("×"),
            (longest[DCQCN].over(longest[DCTCP]).below(1),),
        )
    )
    found += _vendors(runs)
    for flows in SWINGING:
        keys = (GAIN, str(flows)), (INCAST, DCQCN, str(flows))
        swings = [estimate(runs[key], swing) for key in keys]
        found.append(
            Claim(
                f"{flows} flows: a smaller g makes the queue swing less",
                "standard deviation with 1/256 over that with 1/16 below 1",
                f"{swings[0].text()} to {swings[1].text(' KB')}",
                (swings[1].over(swings[0]).below(1),),
            )
        )
    return found


def _vendors(runs: Runs) -> list[Claim]:
    """Changes by the vendor's form; the paper does not have it."""
    found = []
    for flows in (FEW[-1], FLOWS[-1]):
        forms = runs[INCAST, DCQCN, str(flows)], runs[VENDOR, str(flows)]
        totals = [estimate(results, total) for results in forms]
        queues = [estimate(results, p90) for results in forms]
        found.append(
            Claim(
                f"{flows} flows: the vendor's form fills the link, and its queue is no shorter",
                f"at least {TOTAL:g} Gb/s; 90th percentile over that of the paper's form at least {KEPT:g}",
                f"{totals[0].text()} to {totals[1].text(' Gb/s')}, "
                f"{queues[0].text()} to {queues[1].text(' KB')}",
                (totals[1].at_least(TOTAL), queues[1].over(queues[0]).at_least(KEPT)),
                of_paper=False,
            )
        )
    return found


def _parking(runs: Runs) -> list[Claim]:
    """A flow that passes two full links."""
    values = {marks: estimate(runs[PARKING, marks], middle) for marks in ("cut-off", "RED")}
    fair = 20.0
    return [
        Claim(
            "parking lot: with cut-off marks the flow over both links gets less than its share",
            f"below {fair:g} Gb/s, which are max-min fair",
            values["cut-off"].text(" Gb/s"),
            (values["cut-off"].below(fair),),
        ),
        Claim(
            "parking lot: marks as of RED mitigate it",
            "more than with cut-off marks",
            f"{values['cut-off'].text()} to {values['RED'].text(' Gb/s')}",
            (values["RED"].over(values["cut-off"]).above(1),),
        ),
    ]


EXPERIMENT = Experiment(
    __name__,
    ("sim",),
    "DCQCN: PFC's unfairness and victims, convergence, queues, a parking lot",
    cases,
    draw,
    claims,
)
