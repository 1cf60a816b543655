"""Parts that studies of RCP and XCP share: a star with one port of 10 Gb/s, and processor sharing."""

from __future__ import annotations

import heapq

import numpy as np

from onramp.result import Result
from onramp.scenario import quantity
from onramp.summary import Floats

PORT = "s0->h0"
#: Bytes on the wire of a full packet of RCP's over its payload.
OVERHEAD = 1064 / 1000


def capacity(result: Result) -> float:
    """Of the port, in bits per second."""
    return quantity(result.scenario.document["network"]["host_rate"])


def one_way(result: Result) -> float:
    """Over the star's two links, in seconds: delays, and a full packet on both."""
    delay = quantity(result.scenario.document["network"]["link_delay"])
    return 2 * delay + 2 * 1064 * 8 / capacity(result)


def base_rtt(result: Result) -> float:
    """And an ACK back."""
    delay = quantity(result.scenario.document["network"]["link_delay"])
    return one_way(result) + 2 * delay + 2 * 76 * 8 / capacity(result)


def shared(start: Floats, size: Floats, rate: float) -> Floats:
    """Times in the system under processor sharing, exactly: every flow alive has an equal share at all times.

    Parameters
    ----------
    start, size : array, shape (n,)
        Arrivals, ascending, and how much they need of what `rate` gives in a unit of time.
    """
    times = np.empty(len(start))
    # A flow leaves when each has been served as much as it needs since it came.
    alive: list[tuple[float, int]] = []
    served = now = 0.0

    def leave(until: float) -> None:
        nonlocal served, now
        while alive:
            due, flow = alive[0]
            end = now + (due - served) * len(alive) / rate
            if end > until:
                break
            served, now = due, end
            heapq.heappop(alive)
            times[flow] = now - start[flow]

    for flow, at in enumerate(start):
        leave(at)
        if alive:
            served += (at - now) * rate / len(alive)
        now = float(at)
        heapq.heappush(alive, (served + float(size[flow]), flow))
    leave(np.inf)
    return times


def between(samples: tuple[Floats, Floats], start: float, end: float) -> Floats:
    """Values of a series in a span, in seconds."""
    t, values = samples
    return values[(t >= start) & (t < end)]
