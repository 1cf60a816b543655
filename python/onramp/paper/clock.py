"""Accuracy of clock synchronisation under load, with and without each part of Huygens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.metrics import number
from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, Estimate, estimate, span
from onramp.plots import style
from onramp.plots.cdf import cdf
from onramp.result import Result
from onramp.scenario import Overrides, quantity
from onramp.summary import Floats

FILE = "clock"
LOADS = (0, 40, 80)
STAMPS = {"hardware": "NIC stamps", "software": "software stamps"}
#: Parts that are switched off, at the highest load and in the tight network.
PARTS = {"coded": "without coded probes", "network_effect": "without the network effect"}
WHOLE = "Huygens"
#: The same with half the fabric: at 80%, it is loaded nearly as much as the hosts' links.
TIGHT = "1:1 fabric"
TIGHTER: Overrides = {"network.spines": 2}

#: A range of the text is met within this factor of its ends.
AROUND = 1.25
#: Corrections take this long; seconds.
PROCESSING = 0.005


def cases(quick: bool) -> list[Case]:
    """Every load and kind of stamps; at the highest load each part switched off.

    Quick: windows of 0.2 s with as many probes as the 2 s of the full ones.
    """
    short: Overrides = {
        "duration": "230ms",
        "traffic.1.start": "229900us",
        "clock.window": "200ms",
        "clock.probe_interval": "800us",
    }
    common = short if quick else {}
    found = with_all_parts(common)
    for stamps in STAMPS:
        for part in PARTS:
            overrides = {**common, **TIGHTER, "clock.stamps": stamps, f"clock.{part}": False}
            found.append(Case((stamps, part, str(LOADS[-1])), FILE, overrides))
    return found


def with_all_parts(common: Overrides) -> list[Case]:
    """Every load and kind of stamps, and a tighter network at the highest load."""
    found = []
    for stamps in STAMPS:
        base = {**common, "clock.stamps": stamps}
        for load in LOADS:
            # A load of zero cannot be written; no flow arrives at this one.
            overrides = {**base, "traffic.0.load": load / 100 if load else 1e-9}
            found.append(Case((stamps, WHOLE, str(load)), FILE, overrides))
        found.append(Case((stamps, TIGHT, str(LOADS[-1])), FILE, {**base, **TIGHTER}))
    return found


def errors(result: Result) -> Floats:
    """Differences of all pairs of hosts in nanoseconds, shape (samples · pairs,).

    Of the time in which corrections rest on a window that was loaded from its beginning.
    """
    since = quantity(result.scenario.document["clock"]["window"]) + PROCESSING
    table = result.clock
    times, index = np.unique(np.asarray(table["time_ps"]), return_inverse=True)
    hosts = np.asarray(table["host"])
    errors = np.full((len(times), hosts.max() + 1), np.nan)
    errors[index, hosts] = np.asarray(table["error_ns"])
    errors = errors[times >= since * 1e12]
    a, b = np.triu_indices(errors.shape[1], 1)
    found: Floats = np.abs(errors[:, a] - errors[:, b]).ravel()
    known: Floats = found[~np.isnan(found)]
    return known


def _error(results: Sequence[Result], percentile: float) -> Estimate:
    return estimate(results, lambda r: float(np.percentile(errors(r), percentile)))


def draw(runs: Runs) -> Figure:
    """Median and 99th percentile over load; the distribution where it is hardest, part by part."""
    figure, (left, *rest) = style.panels(1, 1 + len(STAMPS), (3.5, 2.9))
    over_load(left, runs)
    for ax, (stamps, name) in zip(rest, STAMPS.items(), strict=True):
        for i, (part, label) in enumerate({TIGHT: WHOLE, **PARTS}.items()):
            distribution(ax, runs[stamps, part, str(LOADS[-1])], i, label)
        ax.set_title(f"{name[0].upper()}{name[1:]}, {LOADS[-1]}%, {TIGHT}")
        ax.legend(fontsize=7.5, loc="lower right" if stamps == "hardware" else "upper left")
    rest[0].set_ylabel("share of pairs and times")
    return figure


def over_load(left: Axes, runs: Runs) -> None:
    """Median and 99th percentile of the error over load."""
    for i, (stamps, name) in enumerate(STAMPS.items()):
        for marker, percentile, line in (("o-", 50, "p50"), ("s--", 99, "p99")):
            # A log axis has no zero; stamps are whole nanoseconds.
            y = [max(1.0, _error(runs[stamps, WHOLE, str(load)], percentile).mean) for load in LOADS]
            tight = _error(runs[stamps, TIGHT, str(LOADS[-1])], percentile).mean
            left.plot(LOADS[-1], max(1.0, tight), marker[0], ms=5, mfc="none", color=style.LAYERS[i])
            left.plot(LOADS, y, marker, ms=4, lw=1.4, color=style.LAYERS[i], label=f"{name}, {line}")
    left.set(yscale="log", xlabel="load (%)", ylabel="error between two hosts (ns, at least 1)", xticks=LOADS)
    left.set_ylim(0.8, left.get_ylim()[1] * 8)
    style.log_ticks(left.yaxis)
    left.legend(fontsize=7.5, ncols=2, loc="upper center")
    left.set_title(f"Over load (hollow: {TIGHT})")


def distribution(ax: Axes, results: Sequence[Result], colour: int, label: str) -> None:
    """Distribution of the error over pairs, times and seeds."""
    x, share = cdf(np.maximum(np.concatenate([errors(r) for r in results]), 1.0))
    ax.step(x, share, where="post", lw=1.5, color=style.LAYERS[colour], label=label)
    ax.set(xscale="log", ylim=(0, 1.01), xlabel="error between two hosts (ns, at least 1)")
    # What is drawn next may be larger.
    ax.set_xlim(left=1, auto=True)
    style.log_ticks(ax.xaxis)


def accuracy(runs: Runs) -> list[Claim]:
    """Section 3.3: errors with both kinds of stamps."""
    high = str(LOADS[-1])
    nic = {load: _error(runs["hardware", WHOLE, str(load)], 99) for load in LOADS}
    tight = _error(runs["hardware", TIGHT, high], 99)
    software = runs["software", WHOLE, high]
    median, tail = _error(software, 50), _error(software, 99)
    worst = [*nic.values(), tight]
    low, most = 2000 / AROUND, 3000 * AROUND
    return [
        Claim(
            "NIC stamps: 99th percentile even at 80% load",
            f"at most 40 ns at every load of the hosts, also with a {TIGHT}",
            ", ".join(f"{e.text(' ns')} at {load}%" for load, e in nic.items())
            + f"; {tight.text(' ns')} with a {TIGHT}",
            tuple(e.at_most(40) for e in worst),
            "20–40 ns",
        ),
        Claim(
            "software stamps: median at high load",
            "100 to 1000 ns at 80%",
            median.text(" ns"),
            (median.between(100, 1000),),
            "a few hundred ns",
        ),
        Claim(
            "software stamps: 99th percentile at high load",
            f"{low:,.0f} to {most:,.0f} ns at 80%",
            tail.text(" ns"),
            (tail.between(low, most),),
            "2–3 µs",
        ),
    ]


def claims(runs: Runs) -> list[Claim]:
    """Section 3.3, and what each part is for."""
    high, found = str(LOADS[-1]), accuracy(runs)
    for stamps, name in STAMPS.items():
        whole = _error(runs[stamps, TIGHT, high], 99)
        for part, label in PARTS.items():
            without = _error(runs[stamps, part, high], 99)
            found.append(
                Claim(
                    f"{name}: less accurate {label}",
                    f"99th percentile at 80% with a {TIGHT} is larger",
                    f"{without.text(' ns')} without, {whole.text(' ns')} with",
                    (without.minus(whole).above(0),),
                )
            )
    results = runs["hardware", WHOLE, "0"]
    interval = quantity(results[0].scenario.document["clock"]["probe_interval"])
    share = estimate(results, lambda r: r.summary["clock"]["probe_share"] * interval / 0.008)
    least, greatest = span(0.0003)
    found.append(
        Claim(
            "share of 10G that probes take",
            f"{least:.3%} to {greatest:.3%} with a pair every 8 ms",
            f"{share.text('%', 100)} (simulated: a pair every {number(interval * 1e3)} ms)",
            (share.between(least, greatest),),
            "0.03%",
        )
    )
    return found


EXPERIMENT = Experiment(__name__, ("sim",), "Accuracy of clock synchronisation", cases, draw, claims)
