"""Not in the paper: its congestion controls and those of TCP, without and with On-Ramp, in one picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from onramp.paper import cluster, workloads
from onramp.paper.common import WITH, WITHOUT, Case, Experiment, Runs, both
from onramp.paper.verdict import Claim, ratio
from onramp.plots import bars, style
from onramp.result import Result

FILE = "all-cc"
TCP = {
    "cubic": "CUBIC",
    "newreno": "NewReno",
    "bbr": "BBR",
    "vegas": "Vegas",
    "dctcp-tcp": "DCTCP (TCP)",
}
#: Those of Fig. 15 have PFC and no drops; TCP has drop-tail ports.
NAMES = {**workloads.SCHEMES, **TCP}


def cases(quick: bool) -> list[Case]:
    """Fig. 15's runs, and the same arrivals on TCP."""
    span = {"duration": "1ms", "warmup": "2ms"} if quick else {"duration": "5ms"}
    tcp = [c for kind in TCP for c in both((kind,), FILE, {**span, "transport.kind": kind})]
    rdma = [c for scheme in workloads.SCHEMES for c in both((scheme,), f"fig15-{scheme}", span)]
    return rdma + tcp


def throughput(result: Result) -> float | None:
    """Mean rate in Gb/s of the background's flows of more than 1 MB."""
    flows = result.flows
    size, took = (flows[c].to_numpy().astype(float) for c in ("bytes", "fct_ps"))
    # What did not finish has no time.
    rates = (size * 8e3 / took)[(size > 1e6) & np.isfinite(took)]
    return float(rates.mean()) if len(rates) else None


def drops(result: Result) -> float:
    """Packets dropped, in percent of those sent."""
    network = result.summary["network"]
    return float(100 * network["drops"] / max(network["packets_sent"], 1))


def _bars(results: Sequence[Result], of: Callable[[str], Callable[[Result], float | None]]) -> bars.Bar:
    return cluster.bar(results, of("mean"), of("p99"))


def draw(runs: Runs) -> Figure:
    """RCT and FCT by size, mean and p99; throughput and drops."""
    figure, axes = style.panels(6, 1, (9.6, 2.1))
    panels = {"incast": "Incast RCT", **{s: bars.TITLES[s] for s in ("small", "medium", "large")}}
    names = list(NAMES.values())
    for ax, (panel, title) in zip(axes, panels.items(), strict=False):
        of = cluster.rct if panel == "incast" else lambda s, panel=panel: cluster.fct(panel, s)
        sides = {side: [_bars(runs[key, side], of) for key in NAMES] for side in (WITHOUT, WITH)}
        bars.panel(ax, names, sides, ratio=True, log=True)
        ax.set_title(title, fontsize=9)
        ax.set_ylabel("µs (to p99)")
    x = np.arange(len(NAMES))
    for ax, measure, title, unit in (
        (axes[4], throughput, "Throughput of large flows", "Gb/s"),
        (axes[5], drops, "Packets dropped", "% of packets sent"),
    ):
        for i, side in enumerate((WITHOUT, WITH)):
            values = [cluster.mean_of(runs[key, side], measure) for key in NAMES]
            heights = [np.nan if v is None else v for v in values]
            ax.bar(x + (i - 0.5) * 0.4, heights, 0.37, color=style.colour(side, i), label=side)
        ax.set_xticks(x, names)
        ax.tick_params(axis="x", length=0)
        ax.set_xlim(-0.6, len(names) - 0.4)
        ax.set_title(title, fontsize=9)
        ax.set_ylabel(unit)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Section 1: it "can be coupled with any datacenter congestion control protocol"; of RDMA see fig15."""
    found = []
    for key, name in TCP.items():
        mean, tail = (
            ratio(runs[key, WITHOUT], runs[key, WITH], cluster.rct(statistic))
            for statistic in ("mean", "p99")
        )
        found.append(
            Claim(
                f"{name}: On-Ramp improves its performance during transients",
                "without/with above 1 for mean and p99 incast RCT",
                f"mean {mean.text('×')}, p99 {tail.text('×')}",
                (mean.above(1), tail.above(1)),
            )
        )
    return found


EXPERIMENT = Experiment(
    __name__,
    ("sim",),
    "WebSearch at 60% and incast at 2% on the fat tree: RCT, FCT, throughput and drops of every transport",
    cases,
    draw,
    claims,
)
