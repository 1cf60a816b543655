"""Flow completion times of RCP, XCP, TCP and processor sharing (Dukkipati, McKeown, CCR 2006).

Here until the receiver has the last byte, which is what TCP's flows record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.paper.common import WITH, WITHOUT, Case, Experiment, Runs, both
from onramp.paper.verdict import Claim, estimate, ratio, steady
from onramp.plots import style
from onramp.result import Result
from onramp.scenario import quantity
from onramp.studies import rcp
from onramp.summary import Floats

FILE = "rcp-fct"
#: Load as a share of the link, by payload, and the delay of each of the path's four links.
POINTS: Mapping[str, tuple[float, str]] = {
    "load 0.7, RTT 20 µs": (0.7, "5us"),
    "load 0.5, RTT 200 µs": (0.5, "50us"),
    "load 0.7, RTT 200 µs": (0.7, "50us"),
    "load 0.85, RTT 200 µs": (0.85, "50us"),
    "load 0.7, RTT 2 ms": (0.7, "500us"),
}
#: Room of a port in kilobytes: a bandwidth-delay product, but at least that of 200 µs.
ROOM = {"5us": 250, "50us": 250, "500us": 2500}
SENDERS = 1000

#: TCP as it is: connections are kept, with their windows. TCP of the papers' time: each flow begins with two
#: packets, as windows start over where their connection was idle for a timeout, which is short here.
SYSTEMS: Mapping[str, Mapping[str, object]] = {
    "RCP": {},
    "RCP, q₀ = 20 KB": {"transport.target_queue": "20KB"},
    "XCP": {"transport.kind": "xcp"},
    "TCP": {"transport.kind": "newreno"},
    "TCP from 2 packets": {
        "transport.kind": "newreno",
        "linux.initial_window": 2,
        "linux.sysctl": {"net.ipv4.tcp_rto_min_us": "1000"},
    },
}
RCP, RCP_QUEUE, XCP, TCP, TCP_NEW = SYSTEMS
COLOURS = dict(zip(SYSTEMS, (style.LAYERS[i] for i in (0, 6, 1, 2, 8)), strict=True))

#: Flows that arrive in this share of the time fill the network.
WARM = 0.2
#: Bytes: up to the mean size, up to ten times that, and beyond.
CLASSES: Mapping[str, tuple[float, float]] = {
    "up to 30 KB": (0, 30e3),
    "30 to 300 KB": (30e3, 300e3),
    "above 300 KB": (300e3, np.inf),
}
SHORT = "up to 30 KB"
#: "As under processor sharing" is read as at most this factor apart, a round trip to ask allowed for.
NEAR = 1.5
#: On-Ramp does no harm if mean FCTs grow by less than this.
HARM = 0.05


def cases(quick: bool) -> list[Case]:
    """Every system at every load and round trip."""
    span = {"duration": "250ms"} if quick else {}
    found = []
    for point, (load, delay) in POINTS.items():
        room = ROOM[delay]
        for system, more in SYSTEMS.items():
            values = {
                **span,
                "network.link_delay": delay,
                "switch.buffer": f"{2 * room}KB",
                "traffic.0.load": load / SENDERS,
                **({"linux.buffer": f"{room}KB"} if "TCP" in system else {}),
                **more,
            }
            pair = both((point, system), FILE, values)
            found += pair[:1] if system == RCP_QUEUE else pair
    return found


@lru_cache(maxsize=512)
def _flows(result: Result) -> tuple[Floats, Floats, Floats]:
    """Arrivals in seconds, sizes in bytes, FCTs in microseconds; each shape (n,), by arrival."""
    table = result.flows.sort_by("start_ps")
    start, size, fct = (np.asarray(table[name], float) for name in ("start_ps", "bytes", "receiver_fct_ps"))
    return start / 1e12, size, fct / 1e6


@lru_cache(maxsize=512)
def _ideal(result: Result) -> Floats:
    """FCTs under processor sharing and one way, in microseconds."""
    start, size, _ = _flows(result)
    served = rcp.shared(start, size * rcp.OVERHEAD * 8, rcp.capacity(result))
    return 1e6 * (served + rcp.one_way(result))


def _measured(result: Result) -> np.ndarray:
    return _flows(result)[0] >= WARM * quantity(result.scenario.document["duration"])


def _class(result: Result, name: str) -> np.ndarray:
    low, high = CLASSES[name]
    size = _flows(result)[1]
    return _measured(result) & (size > low) & (size <= high)


def _mean(name: str) -> Callable[[Result], float]:
    return lambda result: float(_flows(result)[2][_class(result, name)].mean())


def _over_ideal(name: str) -> Callable[[Result], float]:
    """Mean FCT over processor sharing's with a round trip, to ask."""

    def of(result: Result) -> float:
        ideal = _ideal(result)[_class(result, name)].mean() + 1e6 * rcp.base_rtt(result)
        return _mean(name)(result) / float(ideal)

    return of


def _halves(result: Result) -> float:
    """Mean FCT of short flows over processor sharing's in the later half of the time over that in the first.

    Over processor sharing's, since halves of long-tailed arrivals are not alike.
    """
    start, _, fct = _flows(result)
    own = _class(result, SHORT)
    middle = (1 + WARM) / 2 * quantity(result.scenario.document["duration"])
    first, second = own & (start < middle), own & (start >= middle)
    ideal = _ideal(result) + 1e6 * rcp.base_rtt(result)
    slower = [fct[half].mean() / ideal[half].mean() for half in (first, second)]
    return float(slower[1] / slower[0])


def _by_size(results: Sequence[Result], times: Callable[[Result], Floats]) -> tuple[Floats, Floats, Floats]:
    """Sizes, mean and largest FCT of groups of flows of like size, each shape (m,)."""
    size = np.concatenate([_flows(r)[1][_measured(r)] for r in results])
    fct = np.concatenate([times(r)[_measured(r)] for r in results])
    edges = np.geomspace(size.min(), size.max() * 1.001, 25)
    group = np.digitize(size, edges)
    enough = [g for g in range(1, 25) if (group == g).sum() >= 10]
    values = [(size[group == g].mean(), fct[group == g].mean(), fct[group == g].max()) for g in enough]
    columns = np.array(values).reshape(-1, 3).T
    return columns[0], columns[1], columns[2]


def _panel(mean: Axes, largest: Axes, runs: Runs, point: str) -> None:
    for system, colour in COLOURS.items():
        size, average, most = _by_size(runs[(point, system, WITHOUT)], lambda r: _flows(r)[2])
        mean.plot(size / 1e3, average / 1e3, lw=1.3, color=colour, label=system)
        largest.plot(size / 1e3, most / 1e3, lw=1.3, color=colour)
        if system == RCP_QUEUE:
            continue
        size, average, most = _by_size(runs[(point, system, WITH)], lambda r: _flows(r)[2])
        mean.plot(size / 1e3, average / 1e3, lw=0.9, ls=":", color=colour)
        largest.plot(size / 1e3, most / 1e3, lw=0.9, ls=":", color=colour)
    size, average, most = _by_size(runs[(point, RCP, WITHOUT)], _ideal)
    mean.plot(size / 1e3, average / 1e3, lw=1.3, ls="--", color=style.INK, label="processor sharing")
    largest.plot(size / 1e3, most / 1e3, lw=1.3, ls="--", color=style.INK)
    for ax in (mean, largest):
        ax.set(xscale="log", yscale="log")
        style.log_ticks(ax.xaxis)
        style.log_ticks(ax.yaxis)


def draw(runs: Runs) -> Figure:
    """Mean and largest FCT over size, at every load and round trip."""
    figure, axes = style.panels(2, len(POINTS), (2.3, 2.5), sharex=True)
    for i, point in enumerate(POINTS):
        _panel(axes[i], axes[len(POINTS) + i], runs, point)
        axes[i].set_title(point, fontsize=9)
        axes[len(POINTS) + i].set_xlabel("size (KB)")
    axes[0].set_ylabel("mean FCT (ms)")
    axes[len(POINTS)].set_ylabel("largest FCT (ms)")
    axes[0].plot([], [], lw=0.9, ls=":", color=style.INK, label="dotted: with On-Ramp")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=7, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """RCP is for completion times; XCP is slow for short flows, TCP slower."""
    found = []
    for point in POINTS:
        own = runs[(point, RCP, WITHOUT)]
        values = [estimate(own, _over_ideal(name)) for name in CLASSES]
        found.append(
            Claim(
                f"{point}: RCP completes flows as processor sharing would",
                f"mean FCT at most {NEAR:g} times its, with a round trip to ask; {', '.join(CLASSES)}",
                ", ".join(value.text("×") for value in values),
                tuple(value.at_most(NEAR) for value in values),
            )
        )
    for point in POINTS:
        own, xcp, tcp, new = (runs[(point, system, WITHOUT)] for system in (RCP, XCP, TCP, TCP_NEW))
        slower = ratio(xcp, own, _mean(SHORT))
        found.append(
            Claim(
                f"{point}: XCP is slow for short flows",
                f"mean FCT {SHORT} above RCP's",
                f"{estimate(own, _mean(SHORT)).text()} µs, XCP's {slower.text('×')}",
                (slower.above(1),),
            )
        )
        slow = [ratio(side, xcp, _mean(SHORT)) for side in (tcp, new)]
        found.append(
            Claim(
                f"{point}: TCP is slower",
                f"mean FCT {SHORT} above XCP's, with kept windows and from 2 packets",
                ", ".join(value.text("×") for value in slow),
                tuple(value.above(1) for value in slow),
            )
        )
    for point in POINTS:
        sides = [[runs[(point, name, WITHOUT)] for name in (RCP, RCP_QUEUE)] for _ in CLASSES]
        values = [ratio(b, a, _mean(name)) for (a, b), name in zip(sides, CLASSES, strict=True)]
        found.append(
            Claim(
                f"{point}: RCP's large flows are slow for its queue term",
                f"with a target queue of 20 KB their mean FCT falls; {', '.join(CLASSES)}",
                ", ".join(value.text("×") for value in values),
                (values[-1].below(1),),
                of_paper=False,
            )
        )
    for system in (RCP, XCP, TCP, TCP_NEW):
        values = [
            ratio(runs[(point, system, WITH)], runs[(point, system, WITHOUT)], _mean(name))
            for name in (SHORT, "above 300 KB")
            for point in POINTS
        ]
        found.append(
            Claim(
                f"{system}: On-Ramp does no harm",
                f"mean FCT with it over without at most {1 + HARM:g}; {SHORT}, above 300 KB, at each point",
                ", ".join(value.text("×") for value in values),
                tuple(value.at_most(1 + HARM) for value in values),
                of_paper=False,
            )
        )
    found += [
        steady(
            f"{point}, RCP and XCP",
            "short flows' mean FCT over processor sharing's, in the later half of the time over the first",
            {system: estimate(runs[(point, system, WITHOUT)], _halves) for system in (RCP, XCP)},
        )
        for point in POINTS
    ]
    return found


EXPERIMENT = Experiment(
    __name__, ("sim",), "RCP: flow completion times over one link of 10 Gb/s", cases, draw, claims
)
