"""Round trips on hundreds of servers (the lecture: "RTTs in a large setting")."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from onramp.paper import common, verdict
from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate
from onramp.plots import style
from onramp.result import Result
from onramp.studies import round_trips

FILE = "swift-large"
OFF = {"onramp.enabled": False}
TCP = {"linux.buffer": "1MB"}
BACKGROUND = {"kind": "background", "workload": "WebSearch", "load": 0.6}
SYSTEMS: Mapping[str, Mapping[str, object]] = {
    "Swift": OFF,
    "Swift, load 0.3": {**OFF, "traffic.0.load": 0.3},
    "Swift, no incasts": {**OFF, "traffic": [BACKGROUND]},
    "Swift, hosts take no time": {**OFF, "host.processing": []},
    "Swift + On-Ramp": {},
    "DCTCP": {**OFF, **TCP, "transport.kind": "dctcp-tcp"},
    "CUBIC": {**OFF, **TCP, "transport.kind": "cubic"},
}
SWIFT, LIGHT, CALM, FAST, HELD, DCTCP, CUBIC = SYSTEMS

#: Stated values, in microseconds.
STATED = {"p50": ("median", 59), "p99": ("99th percentile", 158), "p999": ("99.9th percentile", 251)}
#: "Much lower" is read as at most this share.
MUCH = 0.5


def cases(quick: bool) -> list[Case]:
    """Every transport and what makes the round trips as long as they are."""
    span = {"warmup": "2ms", "duration": "2ms", "time_limit": "4ms"} if quick else {"time_limit": "15ms"}
    return [Case((name,), FILE, {**span, **more}) for name, more in SYSTEMS.items()]


def rct(result: Result) -> float:
    """Mean of incast requests, in microseconds."""
    return float(result.summary["incast"]["rct_us"]["mean"])


def draw(runs: Runs) -> Figure:
    """Distributions: what they come from, and other transports'."""
    figure, axes = style.panels(1, 2, (3.9, 3.0))
    sides = ((SWIFT, LIGHT, CALM, FAST), (SWIFT, HELD, DCTCP, CUBIC))
    colours = (style.WITH, style.LAYERS[1], style.LAYERS[3], style.LAYERS[6])
    others = (style.WITH, style.LAYERS[5], "#777777", style.WITHOUT)
    for ax, names, tints in zip(axes, sides, (colours, others), strict=True):
        for name, tint in zip(names, tints, strict=True):
            x, y = round_trips.distribution(runs[(name,)])
            ax.plot(x, 1 - y, lw=1.4, color=tint, label=name)
        for (_, stated), left in zip(STATED.values(), (0.5, 0.01, 0.001), strict=True):
            ax.plot(stated, left, "x", ms=6, color="black", label="stated" if left == 0.5 else None)
        ax.set_xscale("log")
        style.log_ticks(ax.xaxis)
        ax.set_yscale("log")
        ax.set_ylim(8e-4, 1)
        ax.set_xlabel("round trip (µs)")
        ax.set_title("share of packets with a longer one", fontsize=9)
        ax.legend(fontsize=7)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """The lecture's percentiles, and "much lower compared to traditional congestion control"."""
    found = []
    for which, (called, stated) in STATED.items():
        value = round_trips.percentile(runs[(SWIFT,)], which)
        low, high = verdict.span(stated)
        found.append(
            Claim(
                f"round trips' {called}",
                f"{low:.0f} to {high:.0f} µs",
                value.text(" µs"),
                (value.between(low, high),),
                f"about {stated} µs",
            )
        )
    for name in (DCTCP, CUBIC):
        for which in ("p99", "p999"):
            own, other = (round_trips.percentile(runs[(n,)], which) for n in (SWIFT, name))
            found.append(
                Claim(
                    f"the {STATED[which][0]} is much lower than {name}'s",
                    f"at most {MUCH:.0%} of it",
                    f"{own.text()} to {other.text(' µs')}",
                    (own.over(other).at_most(MUCH),),
                )
            )
    for which, (called, _) in STATED.items():
        whole, *parts = (round_trips.percentile(runs[(n,)], which) for n in (SWIFT, LIGHT, CALM, FAST))
        found.append(
            Claim(
                f"load, incasts and the hosts' time each lengthen the {called}",
                "lower at load 0.3, without incasts, and if hosts take no time",
                f"{parts[0].text()} at load 0.3, {parts[1].text()} without incasts, "
                f"{parts[2].text(' µs')} if hosts take no time",
                tuple(part.over(whole).below(1) for part in parts),
                of_paper=False,
            )
        )
    found.append(common.steady("Swift without and with On-Ramp", runs[(SWIFT,)], runs[(HELD,)]))
    tails = [round_trips.percentile(runs[(n,)], "p999") for n in (SWIFT, HELD)]
    rcts = [estimate(runs[(n,)], rct) for n in (SWIFT, HELD)]
    found.append(
        Claim(
            "On-Ramp helps",
            "99.9th percentile of round trips and mean RCT lower",
            f"{tails[0].text()} to {tails[1].text(' µs')}, RCT {rcts[0].text()} to {rcts[1].text(' µs')}",
            (tails[1].over(tails[0]).below(1), rcts[1].over(rcts[0]).below(1)),
            of_paper=False,
        )
    )
    return found


EXPERIMENT = Experiment(__name__, ("sim",), "Swift's round trips on 320 servers", cases, draw, claims)
