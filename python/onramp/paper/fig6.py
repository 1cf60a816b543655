"""Figure 6: which signal of the last acknowledged packet tells the next packet's delay."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from onramp.paper.common import Case, Claim, Estimate, Runs, estimate
from onramp.plots import style
from onramp.result import Result
from onramp.summary import Floats

NAME = "fig6"
ON = "sim"
TITLE = "OWD of the next packet over OWD (Huygens), RTT and OWD (NTP) of the last acknowledged one"

#: Signal to the case it is taken from, and the column.
SIGNALS = {"OWD (Huygens)": ("huygens", "owd_ns"), "RTT": ("huygens", "rtt_ns"), "OWD (NTP)": ("ntp", "owd_ns")}
PERCENTILES = (10, 25, 50, 75, 90)

#: What is called high, and how much less is called clearly lower; of Spearman's coefficient.
HIGH, LOWER = 0.7, 0.1


def cases(quick: bool) -> list[Case]:
    """The same arrivals with both kinds of synchronisation."""
    duration: dict[str, object] = {"duration": "10ms"} if quick else {}
    short: dict[str, object] = {"clock.window": "200ms", "clock.probe_interval": "2ms"} if quick else {}
    return [
        Case(("huygens",), NAME, {**duration, **short}),
        Case(("ntp",), NAME, {**duration, "clock.sync": "ntp"}),
    ]


def signal(result: Result, column: str) -> tuple[Floats, Floats]:
    """A signal of the acknowledged packet and the next packet's OWD in microseconds, both shape (n,)."""
    table = result.next_owd
    return np.asarray(table[column]) / 1e3, np.asarray(table["next_owd_ns"]) / 1e3


def spearman(x: Floats, y: Floats) -> float:
    """Spearman's rank correlation; equal values share their mean rank."""
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])


def _ranks(x: Floats) -> Floats:
    _, index, count = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: Floats = (last - (count - 1) / 2)[index]
    return ranks


def pearson(x: Floats, y: Floats) -> float:
    """Pearson's correlation of the logarithms, of those values that have one."""
    positive = (x > 0) & (y > 0)
    return float(np.corrcoef(np.log(x[positive]), np.log(y[positive]))[0, 1])


def draw(runs: Runs) -> Figure:
    """Samples on log axes above, percentiles on linear ones below; runs of the first seed."""
    figure, axes = style.panels(2, len(SIGNALS), (3.4, 2.8))
    for (name, (case, column)), top, bottom in zip(
        SIGNALS.items(), axes[: len(SIGNALS)], axes[len(SIGNALS) :], strict=True
    ):
        x, y = signal(runs[case,][0], column)
        shown = x > 0
        top.scatter(x[shown], y[shown], s=2, lw=0, alpha=0.25, color=style.WITH, rasterized=True)
        top.set(xscale="log", yscale="log", xlabel=f"{name} of the last-acked packet (µs)")
        top.set_title(f"{name}: ρ = {spearman(x, y):.2f}")
        for axis in (top.xaxis, top.yaxis):
            style.log_ticks(axis)
        if not shown.all():
            text = f"{1 - shown.mean():.0%} are negative: not shown"
            top.annotate(text, (0.03, 0.95), xycoords="axes fraction", va="top", fontsize=7.5)
        _percentiles(bottom, x, y)
        bottom.set_xlabel(f"{name} of the last-acked packet (µs)")
    for ax in axes[:: len(SIGNALS)]:
        ax.set_ylabel("OWD of the next packet (µs)")
    limits = [f([ax.get_ylim() for ax in axes[len(SIGNALS) :]], axis=0)[i] for i, f in enumerate((np.min, np.max))]
    for ax in axes[len(SIGNALS) :]:
        ax.set_ylim(*limits)
    axes[len(SIGNALS)].legend(fontsize=7.5, loc="upper left")
    return figure


def _percentiles(ax: style.Axes, x: Floats, y: Floats, bins: int = 24) -> None:
    """Percentiles of `y` over equal stretches of `x` between its 1st and 99th percentile."""
    edges = np.linspace(*np.percentile(x, (1, 99)), bins + 1)
    place = np.digitize(x, edges) - 1
    centres, rows = [], []
    for i in range(bins):
        members = y[place == i]
        if len(members) >= 20:
            centres.append((edges[i] + edges[i + 1]) / 2)
            rows.append(np.percentile(members, PERCENTILES))
    if not rows:
        return
    low, quarter, median, three, high = np.array(rows).T
    ax.fill_between(centres, low, high, color=style.WITH, alpha=0.15, lw=0, label="p10 to p90")
    ax.fill_between(centres, quarter, three, color=style.WITH, alpha=0.3, lw=0, label="p25 to p75")
    ax.plot(centres, median, color=style.WITH, lw=1.5, label="median")
    ax.set_ylim(bottom=0)


def claims(runs: Runs) -> list[Claim]:
    """Section 3.3."""
    rank = {name: _of(runs, name, spearman) for name in SIGNALS}
    log = {name: _of(runs, name, pearson) for name in SIGNALS}
    owd, *others = SIGNALS

    def measured(name: str) -> str:
        return f"{rank[name].text()} (Pearson's of logarithms {log[name].text()})"

    found = [
        Claim(
            f"{owd} of the last-acked packet is highly correlated with the next packet's OWD",
            f"Spearman's coefficient at least {HIGH}",
            measured(owd),
            rank[owd].mean >= HIGH,
        )
    ]
    for name in others:
        found.append(
            Claim(
                f"{name} does not correlate well",
                f"Spearman's coefficient lower by at least {LOWER}",
                f"{measured(name)}, against {rank[owd].text()}",
                rank[name].mean <= rank[owd].mean - LOWER,
            )
        )
    return found


def _of(runs: Runs, name: str, coefficient: type[spearman]) -> Estimate:  # type: ignore[valid-type]
    case, column = SIGNALS[name]
    return estimate(runs[case,], lambda r: coefficient(*signal(r, column)))
