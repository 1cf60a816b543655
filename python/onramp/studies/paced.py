"""Parts that the figures of pacing share: flows of 1, 2 and 3 MB through one link."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from onramp.paper import common, verdict
from onramp.paper.common import Case, Key, Runs
from onramp.paper.verdict import Check, Claim, Estimate, estimate
from onramp.plots import style
from onramp.result import Result
from onramp.scenario import quantity

FILE = "pacing"
PORT = "s0->s1"
#: A full packet on the wire, in bytes.
PACKET = 1514
#: Hosts on each side; flows are spread over them.
HOSTS = 8
NONE, PACED = "none", "packet"
COLOURS = {
    "none": style.WITHOUT,
    "packet": style.WITH,
    "burst": style.LAYERS[1],
    "egress": style.LAYERS[2],
    "On-Ramp": style.LAYERS[3],
}
LABELS = {"none": "not paced", "packet": "packets paced", "burst": "bursts paced", "egress": "paced by NIC"}

#: Of what is measured.
QUICK_SPAN = {"warmup": "1s", "duration": "2s", "time_limit": "2s"}


def bdp(rate_gbps: float, rtt_ms: float) -> float:
    """Of the link, in bytes."""
    return rate_gbps * 1e9 * rtt_ms * 1e-3 / 8


def link(rate_gbps: float, rtt_ms: float, share: float) -> dict[str, object]:
    """A link and its buffer, a share of its bandwidth-delay product; hosts' links have 2 µs each."""
    return {
        "network.bottleneck_rate": f"{rate_gbps:g}Gbps",
        "network.bottleneck_delay": f"{round(500 * rtt_ms) - 4}us",
        "linux.buffer": f"{max(1514, round(share * bdp(rate_gbps, rtt_ms)))}B",
    }


def flows(number: int, *, one_server: bool = False) -> dict[str, object]:
    """So many connections, spread evenly over as many hosts as there are."""
    hosts = math.gcd(number, HOSTS)
    servers = ["h0"] if one_server else [f"h{i}" for i in range(hosts)]
    return {
        "traffic.0.from": [f"h{HOSTS + i}" for i in range(hosts)],
        "traffic.0.to": servers,
        "traffic.0.peers": "all" if one_server else "one",
        "traffic.0.connections": number // hosts,
    }


def case(
    key: Key,
    number: int,
    pacing: str,
    quick: bool,
    more: Mapping[str, object],
    *,
    one_server: bool = False,
) -> Case:
    """So many flows, paced so."""
    span = QUICK_SPAN if quick else {}
    own = {} if pacing == NONE else {"host.pacing": pacing}
    return Case(key, FILE, {**span, **flows(number, one_server=one_server), **own, **more})


def ordered(numbers: Sequence[int], systems: Sequence[str], buffer: float, quick: bool) -> list[Case]:
    """Every number of flows and every pacing, with the order of packets recorded at the link."""
    more = {**link(1.0, 10.0, buffer), "measure.order": [PORT]}
    return [case(key(n, system), n, system, quick, more) for n in numbers for system in systems]


def key(number: int, system: str) -> Key:
    """Of a case that only these tell apart."""
    return (str(number), system)


def measured(runs: Runs, numbers: Sequence[int]) -> list[int]:
    """Numbers of flows that were measured."""
    return [n for n in numbers if key(n, NONE) in runs]


def utilization(result: Result) -> float:
    """Of the link, mean over time."""
    return float(result.samples(f"utilization {PORT}", measured=True)[1].mean())


def drop_rate(result: Result) -> float:
    """Packets dropped of those that came to the link."""
    network = result.scenario.document["network"]
    seconds = quantity(result.scenario.document["duration"])
    sent = utilization(result) * quantity(network["bottleneck_rate"]) * seconds / 8 / PACKET
    drops = result.summary["network"]["drops"]
    return float(drops / max(1.0, sent + drops))


def fct(which: str) -> Callable[[Result], float]:
    """Statistic of flows' completion times in milliseconds, from the client's asking on: "mean" or "p99"."""

    def of(result: Result) -> float:
        value = result.summary["rpc"]["latency_us"][which]
        return math.nan if value is None else float(value) / 1e3

    return of


def steady(runs: Runs) -> Claim:
    """Claim that flows had come to rest, over all cases of a figure: single flows alone differ by chance."""
    halves: dict[str, list[list[float]]] = {}
    for (*_, system), results in runs.items():
        ratios = [math.log(common.later(r, f"utilization {PORT}")) for r in results]
        halves.setdefault(system, []).append(ratios)
    return verdict.steady(
        "all numbers of flows",
        "utilization of the later half over that of the first, mean over cases",
        {
            system: Estimate(tuple(np.exp(np.mean(ratios, axis=0)).tolist()), ratio=True)
            for system, ratios in halves.items()
        },
    )


def better(one: Estimate, other: Estimate, more: bool) -> Check:
    """Check that the first of two measures is better, where more or less is."""
    change = one.minus(other)
    return change.above(0) if more else change.below(0)


def compared(
    runs: Runs, numbers: Sequence[int], of: Callable[[Result], float]
) -> Iterator[tuple[int, Estimate, Estimate]]:
    """A measure by number of flows, not paced and paced."""
    for number in numbers:
        plain, spaced = (estimate(runs[key(number, system)], of) for system in (NONE, PACED))
        yield number, plain, spaced


#: Measures: name, how it is measured, factor, whether more is better.
MEASURES: tuple[tuple[str, Callable[[Result], float], float, bool], ...] = (
    ("utilization (%)", utilization, 100.0, True),
    ("packets dropped (%)", drop_rate, 100.0, False),
    ("mean FCT (ms)", fct("mean"), 1.0, False),
    ("99th percentile of FCT (ms)", fct("p99"), 1.0, False),
)

#: Pacing helps while it raises the utilization by this share.
HELPS = 0.05


def inflection(numbers: Sequence[int], gains: Sequence[float]) -> float:
    """N*, from which on pacing raises the utilization by less than `HELPS`; nan if it always or never does.

    Between numbers of flows that were measured it is read off a straight line over their logarithms.
    """
    above = [gain - 1 - HELPS for gain in gains]
    last = max((i for i, value in enumerate(above) if value > 0), default=-1)
    if last < 0 or last + 1 == len(numbers):
        return math.nan
    part = above[last] / (above[last] - above[last + 1])
    low, high = np.log(numbers[last]), np.log(numbers[last + 1])
    return float(np.exp(low + part * (high - low)))
