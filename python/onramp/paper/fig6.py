"""Figure 6: which signal of the last acknowledged packet tells the next packet's delay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, Estimate, estimate
from onramp.plots import style
from onramp.result import Result
from onramp.summary import Floats

FILE = "fig6"
#: Signal to the case it is taken from, and the column.
SIGNALS = {
    "OWD (Huygens)": ("huygens", "owd_ns"),
    "RTT": ("huygens", "rtt_ns"),
    "OWD (NTP)": ("ntp", "owd_ns"),
}
PERCENTILES = (10, 25, 50, 75, 90)

#: Least coefficient that is called high.
HIGH = 0.7


def cases(quick: bool) -> list[Case]:
    """The same arrivals with both kinds of synchronisation; NTP's is simulated only."""
    duration: dict[str, object] = {"duration": "10ms"} if quick else {}
    return [
        Case(("huygens",), FILE, duration),
        Case(("ntp",), FILE, {**duration, "clock": {"sync": "ntp", "stamps": "software"}}, ("sim",)),
    ]


def signals(runs: Runs) -> dict[str, tuple[str, str]]:
    """Those of SIGNALS whose case was run."""
    return {name: (case, column) for name, (case, column) in SIGNALS.items() if (case,) in runs}


def signal(result: Result, column: str) -> tuple[Floats, Floats]:
    """A signal of the acknowledged packet and the next packet's OWD in microseconds, both shape (n,)."""
    table = result.next_owd
    return np.asarray(table[column]) / 1e3, np.asarray(table["next_owd_ns"]) / 1e3


def spearman(x: Floats, y: Floats) -> float:
    """Spearman's rank correlation of microseconds; those that are equal to 0.1 us share their mean rank."""
    return float(np.corrcoef(_ranks(np.round(x, 1)), _ranks(np.round(y, 1)))[0, 1])


def _ranks(x: Floats) -> Floats:
    _, index, count = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: Floats = (last - (count - 1) / 2)[index]
    return ranks


def pearson(x: Floats, y: Floats) -> float:
    """Pearson's correlation, in microseconds: of ranks, half are those of packets that met no queue."""
    return float(np.corrcoef(x, y)[0, 1])


def draw(runs: Runs) -> Figure:
    """Samples on log axes above, percentiles on linear ones below; runs of the first seed."""
    shown_here = signals(runs)
    columns = len(shown_here)
    figure, axes = style.panels(2, columns, (3.4, 2.8))
    for (name, (case, column)), top, bottom in zip(
        shown_here.items(), axes[:columns], axes[columns:], strict=True
    ):
        x, y = signal(runs[case,][0], column)
        shown = x > 0
        top.scatter(x[shown], y[shown], s=2, lw=0, alpha=0.25, color=style.WITH, rasterized=True)
        top.set(xscale="log", yscale="log", xlabel=f"{name} of the last-acked packet (µs)")
        top.set_title(f"{name}: r = {pearson(x, y):.2f}")
        for axis in (top.xaxis, top.yaxis):
            style.log_ticks(axis)
        if not shown.all():
            text = f"{1 - shown.mean():.0%} are negative: not shown"
            top.annotate(text, (0.03, 0.95), xycoords="axes fraction", va="top", fontsize=7.5)
        _percentiles(bottom, x, y)
        bottom.set_xlabel(f"{name} of the last-acked packet (µs)")
    for ax in axes[::columns]:
        ax.set_ylabel("OWD of the next packet (µs)")
    limits = [f([ax.get_ylim() for ax in axes[columns:]], axis=0)[i] for i, f in enumerate((np.min, np.max))]
    for ax in axes[columns:]:
        ax.set_ylim(*limits)
    axes[columns].legend(fontsize=7.5, loc="upper left")
    return figure


def _percentiles(ax: Axes, x: Floats, y: Floats, bins: int = 24) -> None:
    """Percentiles of `y` over equal stretches of `x` between its 1st and 99th percentile."""
    low, high = np.percentile(x, (1, 99))
    edges = np.linspace(low, high, bins + 1)
    place = np.digitize(x, edges) - 1
    centres, rows = [], []
    for i in range(bins):
        members = y[place == i]
        if len(members) >= 50:
            centres.append((edges[i] + edges[i + 1]) / 2)
            rows.append(np.percentile(members, PERCENTILES))
    if not rows:
        return
    p10, p25, median, p75, p90 = np.array(rows).T
    ax.fill_between(centres, p10, p90, color=style.WITH, alpha=0.15, lw=0, label="p10 to p90")
    ax.fill_between(centres, p25, p75, color=style.WITH, alpha=0.3, lw=0, label="p25 to p75")
    ax.plot(centres, median, color=style.WITH, lw=1.5, label="median")
    ax.set_ylim(bottom=0)


def claims(runs: Runs) -> list[Claim]:
    """Section 3.3."""
    linear = {name: _of(runs, name, pearson) for name in signals(runs)}
    rank = {name: _of(runs, name, spearman) for name in signals(runs)}
    owd, *others = linear

    def measured(name: str) -> str:
        return f"{linear[name].text()} (of ranks {rank[name].text()})"

    return [
        Claim(
            f"{owd} of the last-acked packet is highly correlated with the next packet's OWD",
            f"Pearson's coefficient at least {HIGH}",
            measured(owd),
            (linear[owd].at_least(HIGH),),
        ),
        *(
            Claim(
                f"{name} does not correlate well",
                f"Pearson's coefficient below {HIGH}",
                measured(name),
                (linear[name].below(HIGH),),
            )
            for name in others
        ),
        *(
            Claim(
                f"{name} correlates less than {owd}",
                "Pearson's coefficient is lower",
                f"by {linear[owd].minus(linear[name]).text()}",
                (linear[owd].minus(linear[name]).above(0),),
                of_paper=False,
            )
            for name in others
        ),
    ]


def _of(runs: Runs, name: str, coefficient: Callable[[Floats, Floats], float]) -> Estimate:
    case, column = SIGNALS[name]
    return estimate(runs[case,], lambda r: coefficient(*signal(r, column)))


EXPERIMENT = Experiment(
    __name__,
    ("linux", "sim"),
    "OWD of the next packet over OWD (Huygens), RTT and OWD (NTP) of the last acknowledged one",
    cases,
    draw,
    claims,
)
