"""Figures 9 to 14, 19, 21 and 25: background traffic and incast between Linux hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from onramp.paper import common
from onramp.paper.common import WITH, WITHOUT, Case, Claim, Experiment, Key, Runs, both, estimate, ratio
from onramp.plots import bars, style
from onramp.result import Result
from onramp.scenario import Overrides

FILE = "cluster-websearch"

#: Statistics of an incast request's completion time that the text gives factors for.
STATISTICS = ("mean", "p90", "p95", "p99")
#: "About 20% better" is read as at least this ratio of mean FCTs.
BETTER = 1.15
#: "Not worse" is read as at least this one.
KEPT = 0.97


def experiment(
    module: str,
    title: str,
    compared: Mapping[Key, Overrides],
    drawn: Mapping[Key, str],
    claims: Callable[[Runs], list[Claim]],
    *,
    file: str = FILE,
    quickly: Overrides | None = None,
) -> Experiment:
    """A figure of RCT and FCT without and with On-Ramp.

    Parameters
    ----------
    compared : mapping
        Changes of `file`, by case.
    drawn : mapping
        Titles of the cases that the plot shows.
    quickly : mapping, optional
        Changes beside `span` for the quick form.
    """

    def cases(quick: bool) -> list[Case]:
        more = (quickly or {}) if quick else {}
        return [c for key, changes in compared.items() for c in pair(key, quick, {**changes, **more}, file)]

    return Experiment(module, ("linux", "sim"), title, cases, lambda runs: draw(runs, drawn), claims)


def span(quick: bool) -> dict[str, object]:
    """How long flows arrive: the scenario has it, unless it is to be quick."""
    return {"warmup": "10ms", "duration": "20ms"} if quick else {}


def pair(key: Key, quick: bool, overrides: Overrides, file: str = FILE) -> list[Case]:
    """A case without and a case with On-Ramp."""
    return both(key, file, {**span(quick), **overrides})


def one(key: Key, side: str, quick: bool, overrides: Overrides) -> Case:
    """Only one of the two."""
    return next(Case(key, c.file, c.overrides) for c in pair((), quick, overrides) if c.key == (side,))


def at_loads(loads: Mapping[Key, float]) -> dict[Key, Overrides]:
    """Loads of the background, to be compared."""
    return {key: {"traffic.0.load": load} for key, load in loads.items()}


def gains_more(runs: Runs, statistic: str, low: Key, high: Key) -> Claim:
    """That requests gain more at the higher of two loads."""
    at_low, at_high = (ratio(*sides(runs, key), rct(statistic)) for key in (low, high))
    return Claim(
        f"{statistic} incast RCT gains more at {high[0]} than at {low[0]}",
        "without/with is larger",
        f"{at_low.text('×')} at {low[0]}, {at_high.text('×')} at {high[0]}",
        at_high.mean > at_low.mean,
    )


def steady(runs: Runs, key: Key, name: str) -> Claim:
    """Whether the load had come to rest. Not by the mean, which a few timeouts make."""

    def later(result: Result) -> float:
        requests = result.requests
        start, took = (requests[c].to_numpy() for c in ("start_ps", "rct_ps"))
        second = start >= np.median(start)
        return float(np.percentile(took[second], 90) / np.percentile(took[~second], 90))

    halves = {side: estimate(runs[(*key, side)], later) for side in (WITHOUT, WITH)}
    return common.steady(name, "p90 RCT of the later half of requests over that of the first", halves)


def rct(statistic: str) -> Callable[[Result], float | None]:
    """A statistic of incast requests in microseconds."""
    return lambda r: r.summary["incast"]["rct_us"][statistic]


def fct(size: str, statistic: str = "mean") -> Callable[[Result], float | None]:
    """A statistic of background flows of one size class in microseconds."""
    return lambda r: r.summary["background"][size]["fct_us"][statistic]


def count(name: str) -> Callable[[Result], float]:
    """One of the network's counters."""
    return lambda r: float(r.summary["network"][name])


def sides(runs: Runs, key: Key) -> tuple[Sequence[Result], Sequence[Result]]:
    """Runs without and with On-Ramp."""
    return runs[(*key, WITHOUT)], runs[(*key, WITH)]


def rct_claims(runs: Runs, key: Key, name: str, factors: Mapping[str, float | None]) -> list[Claim]:
    """That requests are faster: by the paper's factors, where it gives them."""
    found = []
    for statistic, stated in factors.items():
        factor = stated or BETTER
        gain = ratio(*sides(runs, key), rct(statistic))
        before, after = (estimate(r, lambda r, s=statistic: rct(s)(r) or 0.0) for r in sides(runs, key))  # type: ignore[misc]
        found.append(
            Claim(
                f"{name}: {statistic} incast RCT is lower{f' by {stated:g}×' if stated else ''}",
                f"without/with at least {factor:g}",
                f"{gain.text('×')} ({before.text()} to {after.text(' µs')})",
                gain.mean >= factor,
            )
        )
    return found


def fct_claims(runs: Runs, key: Key, name: str, percent: Mapping[str, str]) -> list[Claim]:
    """That small and medium flows gain, and large ones do not lose."""
    found = []
    for size, stated in percent.items():
        gain = ratio(*sides(runs, key), fct(size))
        least = KEPT if size == "large" else BETTER
        found.append(
            Claim(
                f"{name}: mean FCT of {size} flows {stated}",
                f"without/with at least {least:g}",
                gain.text("×"),
                gain.mean >= least,
            )
        )
    return found


def fewer(runs: Runs, key: Key, name: str, what: str, counter: str, stated: str, factor: float) -> Claim:
    """That a counter's sum over seeds falls by a factor."""
    before, after = (sum(count(counter)(r) for r in results) for results in sides(runs, key))
    return Claim(
        f"{name}: {what} {stated}",
        f"at least {factor:g} times fewer",
        f"{before:,.0f} without, {after:,.0f} with, all seeds together",
        after * factor <= before and before > 0,
    )


def retransmitted(runs: Runs, key: Key, name: str, stated: str, factor: float) -> Claim:
    """That the share of packets that are sent again falls."""

    def share(r: Result) -> float:
        network = r.summary["network"]
        return float(network["retransmitted_packets"] / network["packets_sent"])

    before, after = (estimate(r, share) for r in sides(runs, key))
    return Claim(
        f"{name}: retransmitted packets {stated}",
        f"at least {factor:g} times fewer",
        f"{before.text('%', 100)} without, {after.text('%', 100)} with",
        before.mean > 0 and after.mean * factor <= before.mean,
    )


def background_claims(
    runs: Runs, key: Key, name: str, percent: Mapping[str, str], fewer: str | None = None
) -> list[Claim]:
    """Claims on the background's flows, the last one that they were in steady state.

    Parameters
    ----------
    percent : mapping
        Statement on the mean FCT, by size class.
    fewer : str, optional
        Statement on retransmitted packets, which are to halve.
    """
    halved = [retransmitted(runs, key, name, fewer, 2)] if fewer else []
    return [*fct_claims(runs, key, name, percent), *halved, steady(runs, key, name)]


def mean_of(results: Sequence[Result], of: Callable[[Result], float | None]) -> float | None:
    """Mean over seeds, of those that have the number."""
    values = [v for v in (of(r) for r in results) if v is not None]
    return float(np.mean(values)) if values else None


def draw(runs: Runs, keys: Mapping[Key, str]) -> Figure:
    """RCT statistics and FCT by size, one row per key."""
    figure, axes = style.panels(len(keys), 2, (4.6, 2.6), width_ratios=(1, 1))
    for (left, right), (key, title) in zip(
        zip(axes[::2], axes[1::2], strict=True), keys.items(), strict=True
    ):
        requests = {
            side: [bars.Bar(mean_of(runs[(*key, side)], rct(s)), None) for s in STATISTICS]
            for side in (WITHOUT, WITH)
        }
        flows = {
            side: [
                bars.Bar(mean_of(runs[(*key, side)], fct(s)), mean_of(runs[(*key, side)], fct(s, "p95")))
                for s in ("small", "medium", "large")
            ]
            for side in (WITHOUT, WITH)
        }
        bars.panel(left, STATISTICS, requests, ratio=True, log=True)
        bars.panel(right, ("small", "medium", "large"), flows, ratio=True, log=True)
        left.set_title(f"Incast RCT, {title}", fontsize=9)
        right.set_title(f"FCT, {title}", fontsize=9)
        left.set_ylabel("µs")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure
