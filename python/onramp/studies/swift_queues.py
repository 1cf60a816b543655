"""Swift and CUBIC in one queue, and in queues of their own (the lecture's takeaway 3)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, Estimate, estimate, steady
from onramp.plots import style
from onramp.result import Result
from onramp.studies import port, round_trips
from onramp.summary import Floats

FILE = "swift-queues"
#: Deficit round robin, an equal share each.
OWN = {"switch.classes": [{"weight": 1.0}, {"weight": 1.0}], "traffic.1.class": 1}
ALONE_TRAFFIC = [
    {
        "kind": "long",
        "src": [f"h{i}" for i in range(1, 9)],
        "dst": "h0",
        "transport": {"kind": "swift"},
    }
]
SYSTEMS: Mapping[str, Mapping[str, object]] = {
    "Swift alone": {"onramp.enabled": False, "traffic": ALONE_TRAFFIC},
    "one queue": {"onramp.enabled": False},
    "own queues": {"onramp.enabled": False, **OWN},
    "one queue + On-Ramp": {},
    "own queues + On-Ramp": OWN,
}
ALONE, SHARED, APART, SHARED_HELD, APART_HELD = SYSTEMS

#: "Affected" is read as at least this factor apart, "isolated" as at most `SAME`.
AFFECTED, SAME = 2.0, 1.25
FULL, HALF = 0.95, 0.45


def cases(quick: bool) -> list[Case]:
    """Every arrangement."""
    span = {"warmup": "100ms", "duration": "50ms"} if quick else {}
    return [Case((name,), FILE, {**span, **more}) for name, more in SYSTEMS.items()]


def rates(result: Result, swift: bool) -> list[Floats]:
    """Samples of each flow of Swift or of CUBIC, payload in Gb/s."""
    own = {f"h{i}" for i in (range(1, 9) if swift else range(9, 17))}
    flows = [n for n in result.series_names if n.startswith("rate flow")]
    return [result.samples(n, measured=True)[1] / 1e9 for n in flows if n.split()[-1].split("->")[0] in own]


def throughput(result: Result, swift: bool) -> float:
    """Of all flows of Swift or of CUBIC, payload in Gb/s."""
    return sum(float(rate.mean()) for rate in rates(result, swift))


def later(result: Result, swift: bool) -> float:
    """Throughput in the later half of the measured time over that in the first."""
    halves = [np.array_split(rate, 2) for rate in rates(result, swift)]
    return float(sum(second.mean() for _, second in halves) / sum(first.mean() for first, _ in halves))


def share(runs: Runs, name: str, swift: bool) -> Estimate:
    """Of all payload."""
    return estimate(
        runs[(name,)], lambda r: throughput(r, swift) / (throughput(r, True) + throughput(r, False))
    )


def lost(result: Result) -> float:
    """Packets dropped of those that came to the port."""
    sent = result.summary["network"]["packets_sent"]
    return float(result.summary["network"]["drops"] / sent)


def draw(runs: Runs) -> Figure:
    """Swift's round trips, both throughputs, and loss."""
    figure, axes = style.panels(1, 3, (3.4, 2.8))
    colours = (style.LAYERS[6], style.WITHOUT, style.LAYERS[1], style.WITH, style.LAYERS[3])
    for name, colour in zip(SYSTEMS, colours, strict=True):
        axes[0].plot(
            *round_trips.distribution(runs[(name,)]),
            lw=1.4,
            color=colour,
            ls="--" if name == APART_HELD else "-",
            label=name,
        )
    axes[0].set_xscale("log")
    style.log_ticks(axes[0].xaxis)
    axes[0].set_ylim(0, 1.02)
    axes[0].set_title("Swift's round trips (µs), share of packets", fontsize=9)
    labels = [name.replace(" + ", "\n+ ") for name in SYSTEMS]
    swift = [estimate(runs[(name,)], lambda r: throughput(r, True)).mean for name in SYSTEMS]
    cubic = [estimate(runs[(name,)], lambda r: throughput(r, False)).mean for name in SYSTEMS]
    axes[1].barh(labels, swift, color=style.WITH, height=0.6, label="Swift")
    axes[1].barh(labels, cubic, left=swift, color=style.WITHOUT, height=0.6, label="CUBIC")
    axes[1].set_title("payload (Gb/s)", fontsize=9)
    axes[1].legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2)
    drops = [100 * estimate(runs[(name,)], lost).mean for name in SYSTEMS]
    axes[2].barh(labels, drops, color=style.WITHOUT, height=0.6)
    for i, value in enumerate(drops):
        axes[2].annotate(
            f"{value:.2g}", (value, i), (2, 0), textcoords="offset points", va="center", fontsize=7
        )
    axes[2].set_xlim(0, 1.25 * max(*drops, 0.01))
    axes[2].set_title("packets dropped (%)", fontsize=9)
    for ax in axes[1:]:
        ax.invert_yaxis()
        ax.tick_params(axis="y", labelsize=7, length=0)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=7.5)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """The lecture: sharing a queue with TCP affects latency, loss, throughput; own queues isolate."""
    found = []
    alone = round_trips.percentile(runs[(ALONE,)], "p99")
    shared = round_trips.percentile(runs[(SHARED,)], "p99")
    apart = round_trips.percentile(runs[(APART,)], "p99")
    found.append(
        Claim(
            "one queue: Swift's latency is affected by TCP",
            f"99th percentile of round trips at least {AFFECTED:g} times that alone",
            f"{alone.text()} to {shared.text(' µs')}",
            (shared.over(alone).at_least(AFFECTED),),
        )
    )
    for name, expected in ((SHARED, "loss is"), (SHARED, "throughput is")):
        value = estimate(runs[(name,)], lost) if expected == "loss is" else share(runs, name, True)
        found.append(
            Claim(
                f"one queue: Swift's {expected} affected by TCP",
                "drops, where Swift alone has none"
                if expected == "loss is"
                else f"less than {1 / AFFECTED / 2:.0%} of the payload",
                value.text("%", 100),
                (value.above(0) if expected == "loss is" else value.below(1 / AFFECTED / 2),),
            )
        )
    part, used = share(runs, APART, True), estimate(runs[(APART,)], port.utilization)
    found.append(
        Claim(
            "own queues: Swift keeps its low latency",
            f"99th percentile of round trips at most {SAME:g} times that alone",
            f"{alone.text()} to {apart.text(' µs')}",
            (apart.over(alone).at_most(SAME),),
        )
    )
    found.append(
        Claim(
            "own queues: and its share of the link",
            f"at least {HALF:.0%}, the link at least {FULL:.0%} used",
            f"{part.text('%', 100)}, {used.text('%', 100)}",
            (part.at_least(HALF), used.at_least(FULL)),
        )
    )
    nothing = estimate(runs[(ALONE,)], lost)
    found.append(Claim("Swift alone: almost no loss", "none", nothing.text("%", 100), (nothing.at_most(0),)))
    for plain, held in ((SHARED, SHARED_HELD), (APART, APART_HELD)):
        tails = [round_trips.percentile(runs[(n,)], "p99") for n in (plain, held)]
        losses = [estimate(runs[(n,)], lost) for n in (plain, held)]
        parts = [share(runs, n, True) for n in (plain, held)]
        found.append(
            Claim(
                f"{plain}: On-Ramp helps Swift",
                "lower 99th percentile of round trips, less loss, no smaller share",
                f"{tails[0].text()} to {tails[1].text(' µs')}, {losses[0].text('', 100)} to "
                f"{losses[1].text('%', 100)} lost, "
                f"{parts[0].text('', 100)} to {parts[1].text('%', 100)} of the payload",
                (
                    tails[1].over(tails[0]).below(1),
                    losses[1].minus(losses[0]).at_most(0),
                    parts[1].over(parts[0]).at_least(0.98),
                ),
                of_paper=False,
            )
        )
    measure = "payload of the later half over that of the first"
    swift = {name: estimate(runs[(name,)], lambda r: later(r, True)) for name in (ALONE, APART, APART_HELD)}
    cubic = {name: estimate(runs[(name,)], lambda r: later(r, False)) for name in SYSTEMS if name != ALONE}
    return [*found, steady("Swift", measure, swift), steady("CUBIC", measure, cubic)]


EXPERIMENT = Experiment(
    __name__, ("sim",), "Swift and CUBIC in one queue, and in queues of their own", cases, draw, claims
)
