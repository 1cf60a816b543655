"""Stars in which all flows go through one port."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onramp.paper import common
from onramp.paper.verdict import Estimate, estimate
from onramp.result import Result
from onramp.scenario import quantity
from onramp.summary import Floats

PORT = "s0->h0"
#: A full packet with Swift's headers, in bytes.
PACKET = 1056


def rate(result: Result) -> float:
    """Of the port, in bits per second."""
    return quantity(result.scenario.document["network"]["host_rate"])


def round_trips(result: Result) -> Floats:
    """Of a packet that came to the queue at each sample, in microseconds, shape (n,).

    Beside the queue there are the delays of four links, and the packet on two of them.
    """
    _, queue = result.samples(f"queue {PORT}", measured=True)
    delay = quantity(result.scenario.document["network"]["link_delay"])
    return 1e6 * (4 * delay + (queue + 2 * PACKET) * 8 / rate(result))


def percentile(results: Sequence[Result], percent: float) -> Estimate:
    """Of round trips, in microseconds."""
    return estimate(results, lambda r: float(np.percentile(round_trips(r), percent)))


def utilization(result: Result) -> float:
    """Of the port's link, mean over time."""
    return float(result.samples(f"utilization {PORT}", measured=True)[1].mean())


def long_rates(result: Result) -> list[tuple[str, Floats, Floats]]:
    """Of each long flow in the order of sources: its hosts, times in milliseconds, Gb/s."""
    names = [name for name in result.series_names if name.startswith("rate flow")]
    names.sort(key=lambda name: int(name.split()[-1].split("->")[0][1:]))
    found = []
    for name in names:
        t, value = result.samples(name, measured=True)
        found.append((name.split()[-1], 1e3 * t, value / 1e9))
    return found


def jain(values: Floats) -> float:
    """Jain's index of values along the first axis, mean of the others."""
    index = values.sum(axis=0) ** 2 / np.maximum(len(values) * (values**2).sum(axis=0), 1e-9)
    return float(np.mean(index))


def later(result: Result) -> float:
    """Utilization in the later half of the measured time over that in the first."""
    return common.later(result, f"utilization {PORT}")
