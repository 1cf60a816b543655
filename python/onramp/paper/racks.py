"""Figures 17 and 27: RPCs beside storage, between two racks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from onramp.paper import common
from onramp.paper.common import WITH, WITHOUT, Case, Claim, Estimate, Key, Runs, estimate, ratio
from onramp.result import Result
from onramp.summary import Summary, of_kind

FILE = "racks"

#: Storage clients that together ask for what the links between the racks carry.
ALL = 12

#: What runs on the hosts, by its name in plots.
SYSTEMS: Mapping[str, Mapping[str, object]] = {
    "CUBIC": {"onramp.enabled": False},
    "CUBIC + On-Ramp, T = 30 µs": {"onramp.threshold": "30us"},
    "CUBIC + On-Ramp, T = 15 µs": {"onramp.threshold": "15us"},
    "DCTCP": {"transport.kind": "dctcp-tcp", "onramp.enabled": False},
}
CUBIC, ONRAMP, ONRAMP_15, DCTCP = SYSTEMS

#: "Similar" is read as at most this factor apart.
SIMILAR = 1.25
#: "Maintained" is read as at least this share.
KEPT = 0.97
#: "Latency is 10 times lower", "drops are 260 times fewer".
LATENCY, DROPS = 10, 260


def case(key: Key, system: str, clients: int, quick: bool, more: Mapping[str, object] | None = None) -> Case:
    """So many storage clients on one of `SYSTEMS`."""
    span = {"warmup": "5ms", "duration": "10ms"} if quick else {}
    return Case(
        (*key, system), FILE, {**span, "traffic.1.clients": clients, **SYSTEMS[system], **(more or {})}
    )


def rpc(statistic: str) -> Callable[[Result], float | None]:
    """A statistic of RPCs' latency in microseconds."""
    return lambda r: _of(r.summary, "rpc", statistic)


def storage(statistic: str) -> Callable[[Result], float | None]:
    """A statistic of blocks' latency in microseconds."""
    return lambda r: _of(r.summary, "storage", statistic)


def _of(summary: Summary, kind: str, statistic: str) -> float | None:
    value: float | None = summary[kind]["latency_us"][statistic]
    return value


def throughput(result: Result) -> float:
    """Of storage, in Gb/s."""
    return float(result.summary["storage"]["gbps"])


def drops(result: Result) -> float:
    """Packets."""
    return float(result.summary["network"]["drops"])


def latency(results: Sequence[Result], statistic: str = "mean") -> Estimate:
    """Of RPCs, in microseconds."""
    return estimate(results, lambda r: rpc(statistic)(r) or 0.0)


def steady(runs: Runs, key: Key, name: str) -> Claim:
    """Whether the load had come to rest; `key` without the system."""

    def later(result: Result) -> float:
        rpcs = of_kind(result.scenario, result.exchanges, "rpc")
        start, took = (rpcs[c].to_numpy() for c in ("start_ps", "latency_ps"))
        second = start >= np.median(start)
        return float(np.median(took[second]) / np.median(took[~second]))

    halves = {system: estimate(runs[(*key, system)], later) for system in (CUBIC, ONRAMP)}
    sides = dict(zip((WITHOUT, WITH), halves.values(), strict=True))
    return common.steady(name, "median RPC latency of the later half over that of the first", sides)


def saturated(runs: Runs, key: Key) -> list[Claim]:
    """Section 6: what On-Ramp and DCTCP do where storage fills the links; `key` without the system."""
    cubic, onramp, onramp_15, dctcp = (runs[(*key, system)] for system in SYSTEMS)
    faster = ratio(cubic, onramp, rpc("mean"))
    kept, less = ratio(onramp, cubic, throughput), ratio(onramp_15, onramp, throughput)
    lost = [sum(drops(r) for r in results) for results in (cubic, onramp, onramp_15)]
    near = ratio(dctcp, onramp, rpc("mean"))
    of_dctcp = ratio(dctcp, onramp, throughput)
    return [
        Claim(
            f"On-Ramp lowers RPCs' latency by {LATENCY}×",
            f"mean without/with at least {LATENCY}",
            f"{faster.text('×')} ({latency(cubic).text()} to {latency(onramp).text(' µs')})",
            faster.mean >= LATENCY,
        ),
        Claim(
            "storage keeps its throughput",
            f"with/without at least {KEPT}",
            f"{kept.text('×')} ({estimate(onramp, throughput).text(' Gb/s')})",
            kept.mean >= KEPT,
        ),
        Claim(
            f"about {DROPS} times fewer packets are dropped",
            f"at least {DROPS} times fewer",
            f"{lost[0]:,.0f} without, {lost[1]:,.0f} with, all seeds together",
            lost[0] > 0 and lost[1] * DROPS <= lost[0],
        ),
        Claim(
            "T = 15 µs has still fewer drops",
            "fewer than with T = 30 µs, or none",
            f"{lost[1]:,.0f} with 30 µs, {lost[2]:,.0f} with 15",
            lost[2] < lost[1] or lost[2] == 0,
        ),
        Claim(
            "T = 15 µs takes marginally from storage's throughput",
            f"{KEPT} to 1 times that with 30 µs",
            less.text("×"),
            KEPT <= less.mean <= 1,
        ),
        Claim(
            "DCTCP has a similar latency of RPCs",
            f"mean at most {SIMILAR:g} times apart from On-Ramp's",
            f"{near.text('×')} ({latency(dctcp).text(' µs')})",
            1 / SIMILAR <= near.mean <= SIMILAR,
        ),
        Claim(
            "DCTCP has a slightly lower throughput of storage",
            f"{KEPT} to 1 times On-Ramp's",
            of_dctcp.text("×"),
            KEPT <= of_dctcp.mean < 1,
        ),
    ]
