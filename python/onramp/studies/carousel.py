"""Thousands of flows, each at its rate (Carousel, SIGCOMM'17)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, Estimate, estimate
from onramp.plots import style
from onramp.result import Result

FILE = "carousel"
#: Rates of 160 flows, which all have in turn: 1.78 Gb/s.
RATES = ["1Gbps"] + ["100Mbps"] * 4 + ["10Mbps"] * 25 + ["1Mbps"] * 130
#: Flows of each of the two sections.
FLOWS = 2000
#: Time of a packet on a core or under the lock, where hosts take time.
COST = "1us"
CORES = 16

NIC, CAROUSEL, HTB, FQ = "NIC", "Carousel", "HTB", "fq"
KINDS = {NIC: "flow", CAROUSEL: "carousel", HTB: "htb", FQ: "fq"}
#: Where hosts take no time; where a packet takes 1 µs; with tenants' and an egress rate; and where other
#: hosts' answers meet the flows.
IDEAL, COSTLY, LIMITED = "no time", f"{COST[:-2]} µs a packet", "with limits"
CROSSED, HELD = "crossed", "crossed, with On-Ramp"
ONE_CORE = "Carousel, one core"

LIMITS = {"tenants": {"a": "10Gbps", "b": "15Gbps"}, "egress": "25Gbps"}

#: Windows in which rates are counted, and from which rate on: below, a window has too few packets.
WINDOW, LEAST = "100ms", 10e6
#: Stated in the abstract.
BETTER, SMALLER = 10, 100
#: "Held to its rate" is read as: within this share of it on average.
NEAR = 0.01

COLOURS = dict(zip(KINDS, (style.WITHOUT, style.LAYERS[0], style.LAYERS[1], style.LAYERS[2]), strict=True))


def _case(shaper: str, place: str) -> Case:
    shaping: dict[str, Any] = {}
    if shaper in (CAROUSEL, ONE_CORE):
        shaping["cores"] = 1 if shaper == ONE_CORE else CORES
    if place == COSTLY:
        shaping["cost"] = COST
    if place == LIMITED:
        shaping.update(LIMITS)
    overrides: dict[str, object] = {"host.shaper": KINDS.get(shaper, "carousel")}
    if shaping:
        overrides["host.shaping"] = shaping
    if place == LIMITED:
        overrides.update({"traffic.0.tenant": "a", "traffic.1.tenant": "b"})
    for i in range(2):
        overrides[f"traffic.{i}.src"] = ["h0"] * FLOWS
        overrides[f"traffic.{i}.cap"] = RATES
    if place == HELD:
        overrides["onramp.enabled"] = True
    file = "carousel-crossed" if place in (CROSSED, HELD) else FILE
    return Case((shaper, place), file, overrides)


def cases(quick: bool) -> list[Case]:
    """Every shaper, and where it is."""
    every = [(shaper, IDEAL) for shaper in KINDS]
    every += [(shaper, COSTLY) for shaper in (CAROUSEL, ONE_CORE, HTB, FQ)]
    every += [(shaper, LIMITED) for shaper in (CAROUSEL, ONE_CORE, HTB)]
    every += [(shaper, place) for shaper in (NIC, CAROUSEL) for place in (CROSSED, HELD)]
    span = {"warmup": "20ms", "duration": "200ms"} if quick else {}
    found = [_case(*pair) for pair in every]
    return [Case(case.key, case.file, {**span, **case.overrides}) for case in found]


def flows(result: Result) -> list[Mapping[str, Any]]:
    """Measured values of the flows with each rate, the lowest first."""
    return list(result.summary["shaping"]["flows"])


def deviation(result: Result, least: float = LEAST) -> float:
    """From their rates, mean over flows from a rate on and over windows."""
    rates = [rate["deviation"][WINDOW] for rate in flows(result) if rate["rate_bps"] >= least]
    return float(np.average([d["mean"] for d in rates], weights=[d["samples"] for d in rates]))


def worst(result: Result) -> float:
    """As `deviation`, of the rate whose flows are furthest off."""
    return max(
        float(rate["deviation"][WINDOW]["mean"]) for rate in flows(result) if rate["rate_bps"] >= LEAST
    )


def burst(result: Result) -> float:
    """Bytes above its rate of the flow that has most of them, at most."""
    return max(float(rate["burst_bytes"]["max"]) for rate in flows(result))


def near(result: Result) -> float:
    """Packets that left right after another of their flow, over all."""
    every = flows(result)
    return float(np.average([r["back_to_back"] for r in every], weights=[r["packets"] for r in every]))


def memory(result: Result) -> float:
    """Packets held at most and the structure that holds them, in bytes."""
    shaper = result.summary["shaper"]
    return float(shaper["held_bytes"] + shaper["structure_bytes"])


def held(result: Result) -> float:
    """Packets held at most."""
    return float(result.summary["shaper"]["held_packets"])


def _bars(ax: Any, values: Mapping[str, tuple[float, str]], title: str) -> None:
    ax.bar(
        list(values),
        [value for value, _ in values.values()],
        width=0.65,
        color=[c for _, c in values.values()],
    )
    for i, (value, _) in enumerate(values.values()):
        text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        ax.annotate(text, (i, value), (0, 2), textcoords="offset points", ha="center", fontsize=7)
    ax.set_yscale("log")
    ax.set_ylim(1, 2 * ax.get_ylim()[1])
    ax.tick_params(axis="x", labelsize=7, length=0)
    style.log_ticks(ax.yaxis)
    ax.set_title(title, fontsize=9)


def _over_rates(ax: Any, runs: Runs, place: str, of: Any) -> None:
    for (shaper, at), results in runs.items():
        if at != place or shaper == ONE_CORE:
            continue
        rates = [rate["rate_bps"] / 1e6 for rate in flows(results[0])]
        values = np.mean([[of(rate) for rate in flows(r)] for r in results], axis=0)
        # Lines that lie on each other are of different widths.
        width = {NIC: 3.5, HTB: 2.5}.get(shaper, 1.3)
        ax.plot(
            rates, values, "o-", ms=width + 2, lw=width, color=COLOURS[shaper], label=shaper, zorder=4 - width
        )
    ax.set_xscale("log")
    style.log_ticks(ax.xaxis)
    ax.set_xlabel("a flow's rate (Mb/s)")


def draw(runs: Runs) -> Figure:
    """Deviations and bursts over flows' rates, packets held and memory."""
    figure, axes = style.panels(2, 2, (3.7, 2.7))
    for ax, place, title in (
        (axes[0], IDEAL, "hosts take no time"),
        (axes[1], COSTLY, f"{COST[:-2]} µs a packet"),
    ):
        _over_rates(ax, runs, place, lambda rate: 100 * max(rate["deviation"][WINDOW]["mean"], 1e-5))
        ax.set_title(f"off their rates (%), {title}", fontsize=9)
        ax.set_yscale("log")
        ax.set_ylim(1e-3, 200)
        style.log_ticks(ax.yaxis)
    _over_rates(axes[2], runs, IDEAL, lambda rate: rate["burst_bytes"]["mean"] / 1048)
    axes[2].set_title("packets ahead of their rates at most", fontsize=9)
    axes[2].set_ylim(bottom=0)
    holders = {
        shaper: (estimate(runs[(shaper, IDEAL)], memory).mean / 1e6, COLOURS[shaper])
        for shaper in (CAROUSEL, HTB, FQ)
    }
    _bars(axes[3], holders, "packets held at most, and their structure (MB)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return figure


def _shares(results: Sequence[Result], *path: str) -> Estimate:
    def of(result: Result) -> float:
        found = result.summary["shaping"]
        for key in path:
            found = found[key]
        return float(found["deviation"][WINDOW]["mean"])

    return estimate(results, of)


def claims(runs: Runs) -> list[Claim]:
    """The abstract's numbers, and what they rest on."""
    found = []
    for place in (IDEAL, COSTLY):
        mine = estimate(runs[(CAROUSEL, place)], deviation)
        for other in (HTB, FQ):
            theirs = estimate(runs[(other, place)], deviation)
            found.append(
                Claim(
                    f"{place}: rates are kept {BETTER} times better than by {other}",
                    f"mean over flows of at least 10 Mb/s and windows of 100 ms, at most 1/{BETTER}",
                    f"{mine.text('', 100)} to {theirs.text('%', 100)} off",
                    (theirs.over(mine).at_least(BETTER),),
                )
            )
    for other in (HTB, FQ):
        sides = [estimate(runs[(shaper, IDEAL)], memory) for shaper in (CAROUSEL, other)]
        packets = [estimate(runs[(shaper, IDEAL)], held).mean for shaper in (CAROUSEL, other)]
        found.append(
            Claim(
                f"{SMALLER} times less memory than {other}",
                f"packets held at most and their structure, at most 1/{SMALLER}",
                f"{packets[0]:,.0f} to {packets[1]:,.0f} packets, "
                f"{sides[0].text('', 1e-6)} to {sides[1].text(' MB', 1e-6)}",
                (sides[1].over(sides[0]).at_least(SMALLER),),
            )
        )
    one, several = (estimate(runs[(shaper, COSTLY)], deviation) for shaper in (ONE_CORE, CAROUSEL))
    found.append(
        Claim(
            f"{COSTLY}: it is the cores that keep the rates",
            f"one core is off by more than {NEAR:.0%}, {CORES} cores by less",
            f"{one.text('', 100)} to {several.text('%', 100)}",
            (several.at_most(NEAR), one.above(NEAR)),
            of_paper=False,
        )
    )
    for shaper in (CAROUSEL, ONE_CORE, HTB):
        tenants = [_shares(runs[(shaper, LIMITED)], "tenants", name) for name in ("a", "b")]
        egress = _shares(runs[(shaper, LIMITED)], "egress")
        found.append(
            Claim(
                f"{shaper}: tenants and all together get their rates",
                f"within {NEAR:.0%} in windows of 100 ms",
                f"{', '.join(t.text('', 100) for t in tenants)} and {egress.text('%', 100)} off",
                tuple(each.at_most(NEAR) for each in (*tenants, egress)),
                of_paper=False,
            )
        )
    bursts = {shaper: estimate(runs[(shaper, IDEAL)], lambda r: burst(r) / 1048) for shaper in KINDS}
    found.append(
        Claim(
            "no flow is further ahead of its rate than its budget",
            "at most 2 packets",
            "; ".join(
                f"{shaper} {most.text()}, {estimate(runs[(shaper, IDEAL)], near).text('%', 100)} back to back"
                for shaper, most in bursts.items()
            ),
            (bursts[CAROUSEL].at_most(2),),
            of_paper=False,
        )
    )
    for shaper in (NIC, CAROUSEL):
        off, on = (estimate(runs[(shaper, place)], worst) for place in (CROSSED, HELD))
        found.append(
            Claim(
                f"{shaper}: rates are kept with On-Ramp, where other hosts' answers meet the flows",
                f"flows of each rate from 10 Mb/s on within {NEAR:.0%} of it",
                f"the furthest {off.text('', 100)} off without, {on.text('%', 100)} with On-Ramp",
                (on.at_most(NEAR),),
                of_paper=False,
            )
        )
    return found


EXPERIMENT = Experiment(
    __name__, ("sim",), "Carousel: 4000 flows at 1 Mb/s to 1 Gb/s each", cases, draw, claims
)
