"""Figure 27: RPCs beside storage, with more and more storage clients. (At 300 Gb/s it is figure 17.)"""

from __future__ import annotations

import math

from matplotlib.figure import Figure

from onramp.paper import racks
from onramp.paper.cluster import mean_of
from onramp.paper.common import BOTH_VARIANTS, Case, Experiment, Runs
from onramp.paper.verdict import Claim, ratio
from onramp.plots import style

CLIENTS = range(0, racks.ALL + 1, 2)
#: "Shoots up dramatically" is read as at least this factor.
SHOOTS = 5.0
#: Rates that a storage client asks for [Gb/s].
EACH = 25


def cases(quick: bool) -> list[Case]:
    """Every number of clients, every system."""
    return [
        racks.case((str(clients),), system, clients, quick) for clients in CLIENTS for system in racks.SYSTEMS
    ]


def draw(runs: Runs) -> Figure:
    """Over what storage asks for."""
    figure, axes = style.panels(1, 4, (2.7, 2.7))
    colours = (style.WITHOUT, style.WITH, style.LAYERS[6], style.LAYERS[1])
    x = [EACH * clients for clients in CLIENTS]
    for ax, of, title in zip(
        axes,
        (racks.rpc("mean"), racks.rpc("p99"), racks.throughput, racks.drops),
        ("mean RPC latency (µs)", "p99 RPC latency (µs)", "storage throughput (Gb/s)", "packets dropped"),
        strict=True,
    ):
        for system, colour in zip(racks.SYSTEMS, colours, strict=True):
            y = [mean_of(runs[(str(clients), system)], of) or 0 for clients in CLIENTS]
            ax.plot(x, y, "o-", ms=3, lw=1.3, color=colour, label=system)
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("storage asks for (Gb/s)")
        ax.set_ylim(bottom=0)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Section 10.3."""
    found = []
    for clients in CLIENTS[1:-1]:
        of = {system: runs[(str(clients), system)] for system in racks.SYSTEMS}
        apart = [ratio(of[racks.CUBIC], of[system], racks.rpc("mean")) for system in racks.SYSTEMS]
        kept = [ratio(of[system], of[racks.CUBIC], racks.throughput) for system in racks.SYSTEMS]
        worst = max(apart, key=lambda e: abs(math.log(e.mean)))
        least = min(kept, key=lambda e: e.mean)
        found.append(
            Claim(
                f"at {EACH * clients} Gb/s CUBIC, On-Ramp and DCTCP are similar",
                f"mean latency at most {racks.SIMILAR:g} times apart, throughput at least {racks.KEPT} times",
                f"latency {worst.text('×')} another's at most, throughput {least.text('×')} at least",
                (
                    *(e.between(1 / racks.SIMILAR, racks.SIMILAR) for e in apart[1:]),
                    *(e.at_least(racks.KEPT) for e in kept[1:]),
                ),
            )
        )
    # The others at 300 Gb/s are in figure 17.
    more = ratio(runs[(str(racks.ALL), racks.CUBIC)], runs[("0", racks.CUBIC)], racks.rpc("mean"))
    found.append(
        Claim(
            "at 300 Gb/s CUBIC's latency shoots up",
            f"mean at least {SHOOTS:g} times that without storage",
            more.text("×"),
            (more.at_least(SHOOTS),),
        )
    )
    return found


EXPERIMENT = Experiment(
    __name__,
    ("linux", "sim"),
    "RPCs beside NVMe over TCP at 0 to 300 Gb/s",
    cases,
    draw,
    claims,
    variants=BOTH_VARIANTS,
)
