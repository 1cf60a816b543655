"""A thousand flows to one NIC (Swift, SIGCOMM'20)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate, span, steady
from onramp.plots import style
from onramp.plots.cdf import cdf
from onramp.result import Result
from onramp.scenario import quantity
from onramp.studies import port

FILE = "swift-incast"
#: Flows of each of the 100 senders.
EACH = 10
SENDERS = [f"h{i}" for i in range(1, 101)] * EACH

SYSTEMS: Mapping[str, Mapping[str, object]] = {
    "Swift": {"onramp.enabled": False},
    "Swift + On-Ramp": {},
    "DCTCP": {"onramp.enabled": False, "transport.kind": "dctcp-tcp", "linux.buffer": "8MB"},
    "DCTCP + On-Ramp": {"transport.kind": "dctcp-tcp", "linux.buffer": "8MB"},
}
SWIFT, SWIFT_HELD, DCTCP, DCTCP_HELD = SYSTEMS
#: DCTCP's stated median is the time of two packets of 4137 B a flow: its packets may have been larger. Not
#: all of them find room at the start; flows that lose some are back after an RTO, or several.
LARGE = "DCTCP, packets of 4 KB"
EVERY: Mapping[str, Mapping[str, object]] = {
    **SYSTEMS,
    LARGE: {**SYSTEMS[DCTCP], "linux.mtu": "4096B", "warmup": "1s", "duration": "500ms"},
}

#: Stated values: medians and 99th percentiles of round trips in microseconds, and packets sent again.
STATED = {SWIFT: (172, 370, 0.0), DCTCP: (3310, 4900, 0.055)}
#: "Line-rate throughput", "about 0%".
FULL, NONE = 0.95, 0.001


def cases(quick: bool) -> list[Case]:
    """Every system, and DCTCP with larger packets."""
    span = {"warmup": "20ms", "duration": "10ms"} if quick else {}
    return [Case((name,), FILE, {"traffic.0.src": SENDERS, **more, **span}) for name, more in EVERY.items()]


def again(result: Result) -> float:
    """Packets sent again over those that had room on the link."""
    network = result.summary["network"]
    document = result.scenario.document
    tcp = document["transport"]["kind"] == "dctcp-tcp"
    size = quantity(document["linux"].get("mtu", "1500B")) + 14 if tcp else port.PACKET
    sent = port.utilization(result) * port.rate(result) * quantity(document["duration"]) / 8 / size
    return float(network["retransmitted_packets"] / sent)


def later(result: Result) -> float:
    """Median round trip in the later half of the time over that in the first."""
    first, second = np.array_split(port.round_trips(result), 2)
    return float(np.median(second) / np.median(first))


def draw(runs: Runs) -> Figure:
    """Round trips, and packets sent again."""
    figure, axes = style.panels(1, 3, (3.4, 2.7))
    colours = dict(zip(SYSTEMS, (style.WITHOUT, style.WITH, style.LAYERS[1], style.LAYERS[6]), strict=True))
    for name, colour in colours.items():
        x, share = cdf(np.concatenate([port.round_trips(r) for r in runs[(name,)]]))
        axes[0].step(x, share, where="post", lw=1.4, color=colour, label=name)
    axes[0].set_xscale("log")
    style.log_ticks(axes[0].xaxis)
    axes[0].set_title("round trip (µs), share of time", fontsize=9)
    for ax, of, title in (
        (axes[1], port.utilization, "link used (%)"),
        (axes[2], again, "packets sent again (%)"),
    ):
        values = [100 * estimate(runs[(name,)], of).mean for name in SYSTEMS]
        ax.bar([name.replace(" + ", " +\n") for name in SYSTEMS], values, color=colours.values(), width=0.7)
        for i, value in enumerate(values):
            ax.annotate(
                f"{value:.3g}", (i, value), (0, 2), textcoords="offset points", ha="center", fontsize=7
            )
        ax.set_ylim(bottom=0)
        ax.tick_params(axis="x", labelsize=6.5, length=0)
        ax.set_title(title, fontsize=9)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """The lecture's numbers, and whether On-Ramp still helps."""
    found = []
    for name, (median, tail, lost) in STATED.items():
        used = estimate(runs[(name,)], port.utilization)
        found.append(
            Claim(
                f"{name}: throughput at line rate",
                f"at least {FULL:.0%} of the link used",
                used.text("%", 100),
                (used.at_least(FULL),),
            )
        )
        for percent, called, stated in ((50, "median", median), (99, "99th percentile", tail)):
            value = port.percentile(runs[(name,)], percent)
            low, high = span(stated)
            found.append(
                Claim(
                    f"{name}: round trips' {called}",
                    f"{low:,.0f} to {high:,.0f} µs",
                    value.text(" µs"),
                    (value.between(low, high),),
                    f"{stated:,} µs",
                )
            )
        share = estimate(runs[(name,)], again)
        low, high = span(lost) if lost else (0.0, NONE)
        criterion = f"{low:.1%} to {high:.1%}"
        found.append(
            Claim(
                f"{name}: retransmitted",
                criterion,
                share.text("%", 100),
                (share.between(low, high),),
                f"{lost:.1%}",
            )
        )
    for plain, with_ in ((SWIFT, SWIFT_HELD), (DCTCP, DCTCP_HELD)):
        sides = [port.percentile(runs[(n,)], 99) for n in (plain, with_)]
        lost_shares = [estimate(runs[(n,)], again) for n in (plain, with_)]
        used = estimate(runs[(with_,)], port.utilization)
        found.append(
            Claim(
                f"{plain}: On-Ramp helps",
                f"99th percentile of round trips lower, {FULL:.0%} of the link used",
                f"{sides[0].text()} to {sides[1].text(' µs')}, {lost_shares[0].text('', 100)} to "
                f"{lost_shares[1].text('%', 100)} retransmitted, {used.text('%', 100)} used",
                (sides[1].over(sides[0]).below(1), used.at_least(FULL)),
                of_paper=False,
            )
        )
    low, high = span(STATED[DCTCP][0])
    middle, top = (port.percentile(runs[(LARGE,)], percent) for percent in (50, 99))
    found.append(
        Claim(
            f"{LARGE}: round trips' median is as stated",
            f"{low:,.0f} to {high:,.0f} µs",
            f"{middle.text(' µs')}, 99th percentile {top.text(' µs')}, "
            f"{estimate(runs[(LARGE,)], again).text('%', 100)} retransmitted",
            (middle.between(low, high),),
            of_paper=False,
        )
    )
    halves = {name: estimate(runs[(name,)], later) for name in EVERY}
    return [
        *found,
        steady("every system", "median round trip of the later half over that of the first", halves),
    ]


EXPERIMENT = Experiment(__name__, ("sim",), "Swift: 1000 flows to one NIC of 20 Gb/s", cases, draw, claims)
