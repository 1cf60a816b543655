"""How many flows a drop event hits (Ghobadi and Ganjali, "Drop synchronization")."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, ratio
from onramp.plots import style
from onramp.result import Result
from onramp.studies import paced
from onramp.studies.paced import NONE, PACED, key
from onramp.summary import Floats

NUMBERS = (48, 96, 384)
SYSTEMS = (NONE, PACED, "burst")
BUFFER = 0.068


def cases(quick: bool) -> list[Case]:
    """Every number of flows."""
    return paced.ordered(NUMBERS, SYSTEMS, BUFFER, quick)


def events(result: Result) -> Floats:
    """Drop events: flows that they hit, and how many hit so many, shape (n, 2)."""
    pairs = result.summary["order"][paced.PORT]["drop_events"]
    return np.array(pairs, dtype=np.float64).reshape(-1, 2)


def hit(result: Result) -> float:
    """Flows hit by a drop event, mean."""
    found = events(result)
    return float((found[:, 0] * found[:, 1]).sum() / max(1.0, found[:, 1].sum()))


def draw(runs: Runs) -> Figure:
    """Distributions over drop events."""
    figure, axes = style.panels(1, len(NUMBERS), (3.0, 2.6))
    for ax, number in zip(axes, NUMBERS, strict=True):
        for system in SYSTEMS:
            results = runs[key(number, system)]
            found = np.concatenate([events(r) for r in results])
            found = found[np.argsort(found[:, 0], kind="stable")]
            shares = np.cumsum(found[:, 1]) / max(1.0, found[:, 1].sum())
            ax.step(
                found[:, 0],
                shares,
                where="post",
                lw=1.4,
                color=paced.COLOURS[system],
                label=paced.LABELS[system],
            )
        ax.set_xlim(left=0)
        ax.set_ylim(0, 1.02)
        ax.set_xlabel("flows hit by a drop event")
        ax.set_title(f"share of drop events, {number} flows", fontsize=9)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Paced flows are hit together: an event drops packets of more flows."""
    found = []
    for number, plain, spaced in paced.compared(runs, NUMBERS, hit):
        gain = ratio(runs[key(number, PACED)], runs[key(number, NONE)], hit)
        text = f"{plain.text()} to {spaced.text()}, {gain.text('×')}"
        statement = f"{number} flows: with pacing a drop event hits more flows"
        found.append(Claim(statement, "mean paced over not paced above 1", text, (gain.above(1),)))
    return [*found, paced.steady(runs)]


EXPERIMENT = Experiment(
    __name__, ("sim", "linux"), "Pacing, and flows hit by one drop event", cases, draw, claims
)
