"""Figure 8: the sizes of the background's flows."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate
from onramp.plots import style
from onramp.result import Result
from onramp.summary import Floats

#: For how long they arrive: some ten thousand flows of each.
WORKLOADS = {"WebSearch": "600ms", "FB_Hadoop": "60ms", "GoogleSearchRPC": "1ms"}
#: Bytes of the largest small flow (§5.2.1).
SMALL = 10e3


def cases(quick: bool) -> list[Case]:
    """Each workload at 40%."""
    spans = {name: "100us" if name == "GoogleSearchRPC" else "10ms" for name in WORKLOADS}
    return [
        Case(
            (name,),
            cluster.FILE,
            {
                "traffic.0.workload": name,
                "onramp.enabled": False,
                "warmup": "0s",
                "duration": (spans if quick else WORKLOADS)[name],
            },
        )
        for name in WORKLOADS
    ]


def sizes(result: Result) -> Floats:
    """Bytes of the background's flows, in order, shape (n,)."""
    flows = result.flows
    return np.sort(flows.filter(pc.equal(flows["traffic"], 0))["bytes"].to_numpy().astype(float))


def share(result: Result, low: float, high: float) -> float:
    """Of flows of more than `low` and at most `high` bytes."""
    of = sizes(result)
    return float(((of > low) & (of <= high)).mean())


def draw(runs: Runs) -> Figure:
    """Shares of flows, and of bytes, in flows up to a size; all seeds together."""
    figure, axes = style.panels(1, 2, (4.4, 2.9), sharey=True)
    for i, name in enumerate(WORKLOADS):
        of = np.sort(np.concatenate([sizes(r) for r in runs[name,]]))
        flows = np.arange(1, len(of) + 1) / len(of)
        for ax, y in zip(axes, (flows, np.cumsum(of) / of.sum()), strict=True):
            ax.plot(of, y, lw=1.4, color=style.LAYERS[i], label=f"{name} ({len(of):,} flows)")
    for ax, what in zip(axes, ("flows", "bytes"), strict=True):
        ax.set_xscale("log")
        ax.set_xlabel("flow size (B)")
        ax.set_title(f"Share of {what} in flows up to a size", fontsize=9)
        ax.set_ylim(0, 1)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Section 5.2.3. That other flows are small, medium and large says nothing that could be otherwise."""
    rpc = estimate(runs["GoogleSearchRPC",], lambda r: share(r, SMALL, np.inf))
    return [
        Claim(
            "GoogleSearchRPC has mostly small flows (≤10 KB)",
            "at least 99.85%",
            f"{rpc.each(lambda x: 1 - x).text('%', 100)} (larger: {rpc.text('%', 100)})",
            (rpc.below(0.0015),),
            ">99.85%",
        )
    ]


EXPERIMENT = Experiment(
    __name__,
    ("sim", "linux"),
    "Sizes of the background's flows: WebSearch, FB_Hadoop, GoogleSearchRPC",
    cases,
    draw,
    claims,
)
