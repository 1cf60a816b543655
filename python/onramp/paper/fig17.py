"""Figure 17: RPCs beside storage that fills the links (section 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.paper import common, racks, verdict
from onramp.paper.cluster import mean_of
from onramp.paper.common import BOTH_VARIANTS, Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate, ratio
from onramp.plots import style
from onramp.result import Result

if TYPE_CHECKING:
    import pyarrow as pa

#: "Latency is 10 times lower", "drops are 260 times fewer".
LATENCY, DROPS = 10, 260

ALONE = "no storage"
AS_IS = "as it is"
#: Without work of its own an RPC alone takes 9 µs, which nobody's does.
SERVED = "RPCs take 200 µs at their servers"
#: Variants of values that the paper does not give, and of who is held; all with and without On-Ramp.
VARIED: dict[str, dict[str, object]] = {
    "buffers of 1.5 MB": {"linux.buffer": "1500KB"},
    "buffers of 12 MB": {"linux.buffer": "12MB"},
    "RPCs of 2 KB both ways": {"traffic.0.request": "2KB", "traffic.0.response": "2KB"},
    "four times as many RPCs": {"traffic.0.per_second": 20000},
    SERVED: {"traffic.0.service": "200us"},
    "one connection of a storage client": {"traffic.1.connections": 1, "traffic.1.depth": 64},
    "blocks of 4 KB": {"traffic.1.block": "4KiB", "traffic.1.depth": 32},
    "storage is written": {"traffic.1.writes": 1.0},
    "RPCs are held, too": {"onramp.hosts": ["rpc-client", "rpc-server", "storage-client", "storage-server"]},
}
#: DCTCP's queue is where switches begin to mark, which the paper does not give either.
MARKED = "65 packets mark at 100 Gb/s, too"
MARKS = {
    "switch.ecn": [{"rate": r, "kmin": "97.5KB", "kmax": "97.5KB", "pmax": 1} for r in ("25Gbps", "100Gbps")]
}


def cases(quick: bool) -> list[Case]:
    """Every system, no storage at all, and what is varied."""
    found = [racks.case((AS_IS,), system, racks.ALL, quick) for system in racks.SYSTEMS]
    found.append(racks.case((ALONE,), racks.CUBIC, 0, quick))
    found.append(racks.case((SERVED, ALONE), racks.CUBIC, 0, quick, VARIED[SERVED]))
    found.append(racks.case((MARKED,), racks.DCTCP, racks.ALL, quick, MARKS))
    for name, more in VARIED.items():
        found += [
            racks.case((name,), system, racks.ALL, quick, more) for system in (racks.CUBIC, racks.ONRAMP)
        ]
    return found


def draw(runs: Runs) -> Figure:
    """Latency of RPCs, throughput of storage and drops by system; below, what is varied."""
    figure, axes = style.panels(2, 3, (3.6, 2.6))
    systems = {ALONE: runs[(ALONE, racks.CUBIC)]}
    systems |= {system: runs[(AS_IS, system)] for system in racks.SYSTEMS}
    _bars(axes[0], systems, racks.rpc("mean"), "RPC latency: mean, p99 (µs)", racks.rpc("p99"))
    _bars(axes[1], systems, racks.throughput, "storage throughput (Gb/s)")
    _bars(axes[2], systems, racks.drops, "packets dropped")
    varied = {AS_IS: racks.SYSTEMS, **VARIED}
    for ax, of, title in (
        (axes[3], racks.rpc("mean"), "mean RPC latency (µs)"),
        (axes[4], racks.throughput, "storage throughput (Gb/s)"),
        (axes[5], racks.drops, "packets dropped"),
    ):
        y = np.arange(len(varied))
        for i, (system, colour) in enumerate(((racks.CUBIC, style.WITHOUT), (racks.ONRAMP, style.WITH))):
            values = [mean_of(runs[(name, system)], of) or 0 for name in varied]
            ax.barh(y + (i - 0.5) * 0.4, values, 0.38, color=colour, label=system)
        ax.set_yticks(y, list(varied) if ax is axes[3] else [""] * len(varied), fontsize=7)
        ax.invert_yaxis()
        ax.set_title(title, fontsize=9)
        ax.grid(axis="y", visible=False)
        ax.grid(axis="x", visible=True)
    figure.legend(*axes[3].get_legend_handles_labels(), loc="outside lower right", ncols=2, fontsize=8)
    return figure


def _bars(
    ax: Axes,
    systems: Mapping[str, Sequence[Result]],
    of: Callable[[Result], float | None],
    title: str,
    whisker: Callable[[Result], float | None] | None = None,
) -> None:
    names = [name.replace("CUBIC + On-Ramp, ", "On-Ramp,\n") for name in systems]
    values = [mean_of(results, of) or 0 for results in systems.values()]
    colours = [style.LAYERS[2], style.WITHOUT, style.WITH, style.LAYERS[6], style.LAYERS[1]]
    ax.bar(names, values, color=colours, width=0.7)
    top = [mean_of(results, whisker) or 0 for results in systems.values()] if whisker else values
    ax.vlines(range(len(names)), values, top, color=style.INK, lw=1)
    for i, value in enumerate(values):
        at = (i, max(value, top[i]))
        ax.annotate(f"{value:,.0f}", at, (0, 2), textcoords="offset points", ha="center", fontsize=7)
    ax.tick_params(axis="x", labelsize=6.5, length=0)
    ax.set_title(title, fontsize=9)


def claims(runs: Runs) -> list[Claim]:
    """Section 6, and how far it hangs on what the paper does not give."""
    sides = runs[(AS_IS, racks.CUBIC)], runs[(AS_IS, racks.ONRAMP)]
    found = [common.steady("300 Gb/s", *sides, "latency of RPCs", _rpcs), *_saturated(runs)]
    for case, system, alone in (
        (AS_IS, racks.ONRAMP, (ALONE,)),
        (AS_IS, racks.DCTCP, (ALONE,)),
        (SERVED, racks.ONRAMP, (SERVED, ALONE)),
    ):
        without = runs[(*alone, racks.CUBIC)]
        more = ratio(runs[(case, system)], without, racks.rpc("mean"))
        found.append(
            Claim(
                f"{system if case == AS_IS else case}: RPCs take nearly as long as without storage",
                f"mean at most {racks.SIMILAR:g} times that without",
                f"{more.text('×')} (without {racks.latency(without).text(' µs')})",
                (more.at_most(racks.SIMILAR),),
                of_paper=case == AS_IS,
            )
        )
    marked, onramp = runs[(MARKED, racks.DCTCP)], runs[(AS_IS, racks.ONRAMP)]
    slower, kept = ratio(marked, onramp, racks.rpc("mean")), ratio(marked, onramp, racks.throughput)
    found.append(
        Claim(
            f"{MARKED}: DCTCP is as good as On-Ramp",
            f"mean latency at most {racks.SIMILAR:g} times On-Ramp's, throughput at least {racks.KEPT} times",
            f"{slower.text('×')} ({racks.latency(marked).text(' µs')}), {kept.text('×')}",
            (slower.at_most(racks.SIMILAR), kept.at_least(racks.KEPT)),
            of_paper=False,
        )
    )
    for name in VARIED:
        cubic, onramp = (runs[(name, system)] for system in (racks.CUBIC, racks.ONRAMP))
        faster, kept = ratio(cubic, onramp, racks.rpc("mean")), ratio(onramp, cubic, racks.throughput)
        lost = [sum(racks.drops(r) for r in results) for results in (cubic, onramp)]
        found.append(
            Claim(
                f"{name}: RPCs are faster, storage is not slower",
                f"mean latency without/with above 1, throughput at least {racks.KEPT} times",
                f"{faster.text('×')}, {kept.text('×')}, drops {lost[0]:,.0f} and {lost[1]:,.0f}",
                (faster.above(1), kept.at_least(racks.KEPT)),
                of_paper=False,
            )
        )
    return found


def _rpcs(result: Result) -> tuple[pa.Table, str]:
    """RPCs, and the column of their times."""
    return result.rows(next(group for group in result.scenario.groups if group.key == "rpc")), "latency_ps"


def _saturated(runs: Runs) -> list[Claim]:
    """Claims on On-Ramp and DCTCP where storage fills the links."""
    cubic, onramp, onramp_15, dctcp = (runs[(AS_IS, system)] for system in racks.SYSTEMS)
    faster = ratio(cubic, onramp, racks.rpc("mean"))
    kept, less = ratio(onramp, cubic, racks.throughput), ratio(onramp_15, onramp, racks.throughput)
    lost = [estimate(results, racks.drops) for results in (cubic, onramp, onramp_15)]
    total = [f"{sum(drops.values):,.0f}" for drops in lost]
    near = ratio(dctcp, onramp, racks.rpc("mean"))
    of_dctcp = ratio(dctcp, onramp, racks.throughput)
    return [
        verdict.factor(
            "On-Ramp lowers RPCs' mean latency",
            faster,
            LATENCY,
            more=f"{racks.latency(cubic).text()} to {racks.latency(onramp).text(' µs')}",
        ),
        Claim(
            "storage keeps its throughput",
            f"with/without at least {racks.KEPT}",
            f"{kept.text('×')} ({estimate(onramp, racks.throughput).text(' Gb/s')})",
            (kept.at_least(racks.KEPT),),
        ),
        verdict.fewer(
            "fewer packets are dropped",
            lost[0],
            lost[1],
            DROPS,
            f"{total[0]} to {total[1]}, all seeds together",
        ),
        Claim(
            "T = 15 µs has still fewer drops",
            "fewer than with T = 30 µs",
            f"{total[1]} with 30 µs, {total[2]} with 15",
            (lost[1].minus(lost[2]).above(0),),
        ),
        Claim(
            "T = 15 µs takes marginally from storage's throughput",
            f"{racks.KEPT} to 1 times that with 30 µs",
            less.text("×"),
            (less.between(racks.KEPT, 1),),
        ),
        Claim(
            "DCTCP has a similar latency of RPCs",
            f"mean at most {racks.SIMILAR:g} times apart from On-Ramp's",
            f"{near.text('×')} ({racks.latency(dctcp).text(' µs')})",
            (near.between(1 / racks.SIMILAR, racks.SIMILAR),),
        ),
        Claim(
            "DCTCP has a slightly lower throughput of storage",
            f"{racks.KEPT} to 1 times On-Ramp's, not 1",
            of_dctcp.text("×"),
            (of_dctcp.at_least(racks.KEPT), of_dctcp.below(1)),
        ),
    ]


EXPERIMENT = Experiment(
    __name__,
    ("linux", "sim"),
    "RPCs beside NVMe over TCP at 300 Gb/s",
    cases,
    draw,
    claims,
    variants=BOTH_VARIANTS,
)
