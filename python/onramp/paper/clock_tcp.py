"""Accuracy of clock synchronisation under TCP, with windows that are short enough for real stacks."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import clock
from onramp.paper.common import Case, Experiment, Runs
from onramp.plots import style
from onramp.scenario import Overrides

#: Agents that hold nothing, as no path's delay comes near T. Windows on Linux begin when they like: the first
#: that is loaded from its beginning corrects clocks after some 280 ms.
WATCHED: Overrides = {
    "transport.kind": "cubic",
    "onramp.threshold": "100ms",
    "duration": "400ms",
    "traffic.1.start": "399900us",
    "clock.window": "100ms",
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


EXPERIMENT = Experiment(
    __name__, ("linux", "sim"), "Accuracy of clock synchronisation under TCP", cases, draw, clock.accuracy
)
