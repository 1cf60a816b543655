"""Accuracy of clock synchronisation under TCP, with windows that are short enough for real stacks."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from onramp.paper import clock
from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate
from onramp.plots import style
from onramp.result import Result
from onramp.scenario import Overrides, quantity

#: Agents that hold nothing, as no path's delay comes near T. They know their clocks before the load begins,
#: by two windows. Windows on Linux begin when they like: the first that is loaded from its beginning corrects
#: clocks after some 280 ms.
WATCHED: Overrides = {
    "transport.kind": "cubic",
    "onramp.threshold": "100ms",
    "duration": "400ms",
    "traffic.1.start": "399900us",
    "clock.window": "100ms",
    "clock.lead": "210ms",
    "clock.probe_interval": "800us",
}


def cases(quick: bool) -> list[Case]:
    """As `clock`, CUBIC in place of DCQCN, and no part switched off: agents have all of them."""
    fewer: Overrides = {"network.hosts_per_leaf": 2, "traffic.1.dst": "h7"} if quick else {}
    return clock.with_all_parts({**WATCHED, **fewer})


def draw(runs: Runs) -> Figure:
    """Median and 99th percentile over load; distributions at the highest."""
    figure, (left, right) = style.panels(1, 2, (3.8, 2.9))
    clock.over_load(left, runs)
    high = str(clock.LOADS[-1])
    for i, (stamps, name) in enumerate(clock.STAMPS.items()):
        for j, fabric in enumerate((clock.WHOLE, clock.TIGHT)):
            label = name if fabric == clock.WHOLE else f"{name}, {fabric}"
            clock.distribution(right, runs[stamps, fabric, high], 2 * i + j, label)
    right.set_title(f"At {high}%")
    right.set_ylabel("share of pairs and times")
    right.legend(fontsize=7.5)
    return figure


def contained(result: Result) -> float | None:
    """Share of hosts and times whose error is within two deviations as the host states them; None: no times.

    From the fourth window on: a host does not know the least delays before two windows agree on them, and
    states microseconds.
    """
    table = result.clock
    since = 3 * quantity(result.scenario.document["clock"]["window"]) + clock.PROCESSING
    late = np.asarray(table["time_ps"]) >= since * 1e12
    within = np.abs(np.asarray(table["error_ns"])) <= 2 * np.asarray(table["uncertainty_ns"])
    return float(np.mean(within[late])) if late.any() else None


def claims(runs: Runs) -> list[Claim]:
    """Section 3.3; and that what hosts state of their errors is true, which is ours to promise."""
    high = str(clock.LOADS[-1])
    networks = [*((clock.WHOLE, str(load)) for load in clock.LOADS), (clock.TIGHT, high)]
    found = clock.accuracy(runs)
    for stamps, name in clock.STAMPS.items():
        shares = [estimate(runs[stamps, part, load], contained) for part, load in networks]
        found.append(
            Claim(
                f"{name} (ours): errors are within two of the standard deviations that hosts state",
                f"at least 95% of hosts and times, at every load of the hosts, also with a {clock.TIGHT}",
                ", ".join(share.text("%", 100) for share in shares),
                tuple(share.at_least(0.95) for share in shares),
            )
        )
    return found


EXPERIMENT = Experiment(
    __name__, ("linux", "sim"), "Accuracy of clock synchronisation under TCP", cases, draw, claims
)
