"""A slow receiver: a window for the hosts' delay beside the fabric's, and one for both (the lecture)."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate, steady
from onramp.plots import style
from onramp.result import Result
from onramp.scenario import quantity
from onramp.studies import port, round_trips

FILE = "swift-endpoint"
#: Targets of the hosts' delay, in microseconds.
TARGETS = (25, 50, 100)
WINDOWS = {f"two windows, {t} µs": t for t in TARGETS}
TCP = {"transport.kind": "dctcp-tcp", "linux.buffer": "2MB"}
OFF = {"onramp.enabled": False}
SYSTEMS: Mapping[str, Mapping[str, object]] = {
    **{name: {**OFF, "transport.endpoint_target": f"{target}us"} for name, target in WINDOWS.items()},
    "one window": {**OFF, "transport.endpoint_window": False},
    "two windows + On-Ramp": {"onramp.stamped_at": "stack"},
    "DCTCP": {**OFF, **TCP},
    "DCTCP + On-Ramp, NIC": TCP,
    "DCTCP + On-Ramp, stack": {**TCP, "onramp.stamped_at": "stack"},
}
ONE, HELD, DCTCP, DCTCP_NIC, DCTCP_STACK = list(SYSTEMS)[len(TARGETS) :]
TWO = "two windows, 50 µs"

#: "Around its target" is read as the median within this share of it.
AROUND = 0.25
#: The host is busy for at least this share of the time.
BUSY = 0.95


def cases(quick: bool) -> list[Case]:
    """Every transport."""
    span = {"warmup": "100ms", "duration": "100ms"} if quick else {}
    return [Case((name,), FILE, {**span, **more}) for name, more in SYSTEMS.items()]


def waited(result: Result, which: str) -> float:
    """Of packets at the host in microseconds: round trips without four links and a packet on two of them."""
    network = result.scenario.document["network"]
    empty = 1e6 * (4 * quantity(network["link_delay"]) + 2 * port.PACKET * 8 / port.rate(result))
    return float(result.summary["rtt_us"][0][which]) - empty


def _processing(result: Result) -> float:
    return quantity(result.scenario.document["host"]["processing"][0]["time"])


def busy(result: Result) -> float:
    """Share of the time in which the host works: packets it has taken, each of the mean time."""
    tcp = result.scenario.document["transport"]["kind"] != "swift"
    seconds = quantity(result.scenario.document["duration"])
    come = port.utilization(result) * port.rate(result) * seconds / 8 / (1514 if tcp else port.PACKET)
    return float((come - result.summary["network"]["endpoint_drops"]) * _processing(result) / seconds)


def lost(result: Result) -> float:
    """Packets dropped at the host's ring, in a million of those that it has time for."""
    seconds = quantity(result.scenario.document["duration"])
    return float(1e6 * result.summary["network"]["endpoint_drops"] * _processing(result) / seconds)


def draw(runs: Runs) -> Figure:
    """Round trips, how busy the host is, and what it drops."""
    figure, axes = style.panels(1, 3, (3.5, 3.0))
    colours = [*style.LAYERS[6:9], *style.LAYERS[3:5], style.WITHOUT, "#808890", style.INK]
    for name, colour in zip(SYSTEMS, colours, strict=True):
        axes[0].plot(*round_trips.distribution(runs[(name,)]), lw=1.3, color=colour, label=name)
    axes[0].set_xscale("log")
    style.log_ticks(axes[0].xaxis)
    axes[0].set_ylim(0, 1.02)
    axes[0].set_title("round trip (µs), share of packets", fontsize=9)
    for ax, of, scale, title in (
        (axes[1], busy, 100, "host at work (%)"),
        (axes[2], lost, 1, "dropped, of a million"),
    ):
        values = [scale * estimate(runs[(name,)], of).mean for name in SYSTEMS]
        ax.barh(list(SYSTEMS), values, color=colours, height=0.65)
        for i, value in enumerate(values):
            ax.annotate(
                f"{value:,.0f}", (value, i), (2, 0), textcoords="offset points", va="center", fontsize=7
            )
        ax.set_xlim(0, 1.25 * max(*values, 1))
        ax.invert_yaxis()
        ax.tick_params(axis="y", labelsize=7, length=0)
        ax.set_title(title, fontsize=9)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Claims on a window for endpoints: their delay has a target of its own, whatever the fabric's is."""
    found = []
    for name, target in WINDOWS.items():
        value, work = estimate(runs[(name,)], lambda r: waited(r, "p50")), estimate(runs[(name,)], busy)
        found.append(
            Claim(
                f"{name}: the host's delay follows its target",
                f"median wait within {AROUND:.0%} of it, the host at work {BUSY:.0%} of the time",
                f"{value.text(' µs')}, {work.text('%', 100)}",
                (value.between(target * (1 - AROUND), target * (1 + AROUND)), work.at_least(BUSY)),
            )
        )
    for name in (TWO, ONE):
        drops, work = estimate(runs[(name,)], lost), estimate(runs[(name,)], busy)
        found.append(
            Claim(
                f"{name}: an overloaded host is no reason for loss",
                f"nothing dropped at its ring, the host at work {BUSY:.0%} of the time",
                f"{drops.text(' of a million')}, {work.text('%', 100)}",
                (drops.at_most(0), work.at_least(BUSY)),
            )
        )
    tails = [estimate(runs[(name,)], lambda r: waited(r, "p99")) for name in (TWO, ONE)]
    found.append(
        Claim(
            "two windows are better than one",
            "99th percentile of waits lower",
            f"{tails[1].text()} with one, {tails[0].text(' µs')} with two",
            (tails[0].over(tails[1]).below(1),),
        )
    )
    drops = estimate(runs[(DCTCP,)], lost)
    found.append(
        Claim(
            "DCTCP does not see the host and has it drop",
            "something dropped at its ring",
            drops.text(" of a million"),
            (drops.above(0),),
            of_paper=False,
        )
    )
    for plain, held in ((TWO, HELD), (DCTCP, DCTCP_NIC), (DCTCP, DCTCP_STACK)):
        sides = [estimate(runs[(n,)], lost) for n in (plain, held)]
        waits = [estimate(runs[(n,)], lambda r: waited(r, "p99")) for n in (plain, held)]
        works = [estimate(runs[(n,)], busy) for n in (plain, held)]
        found.append(
            Claim(
                f"{held}: it helps",
                "fewer drops or, with none, a lower 99th percentile of waits; the host no less at work",
                f"{sides[0].text()} to {sides[1].text(' of a million')}, {waits[0].text()} to "
                f"{waits[1].text(' µs')}, {works[0].text('', 100)} to {works[1].text('%', 100)} at work",
                (
                    sides[1].minus(sides[0]).below(0)
                    if any(sides[0].values)
                    else waits[1].over(waits[0]).below(1),
                    works[1].over(works[0]).at_least(0.98),
                ),
                of_paper=False,
            )
        )
    halves = {name: estimate(runs[(name,)], port.later) for name in SYSTEMS}
    return [*found, steady("every system", "utilization of the later half over that of the first", halves)]


EXPERIMENT = Experiment(
    __name__, ("sim",), "A receiver slower than its link: two windows and one", cases, draw, claims
)
