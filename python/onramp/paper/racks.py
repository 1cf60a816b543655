"""Figures 17 and 27: RPCs beside storage, between two racks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onramp.paper.common import Case, Key
from onramp.paper.verdict import Estimate, estimate
from onramp.result import Result
from onramp.summary import Summary

FILE = "racks"

#: Storage clients that together ask for what the links between the racks carry.
ALL = 12

#: Overrides of each variant, by its name in plots.
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
    return estimate(results, rpc(statistic))
