"""Figures 9 to 14, 19 to 21 and 25: background traffic and incast between Linux hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from onramp.equivalence import RTO_MIN
from onramp.paper import common, verdict
from onramp.paper.common import BOTH_VARIANTS, WITH, WITHOUT, Case, Experiment, Key, Runs, both
from onramp.paper.verdict import Claim, estimate, ratio
from onramp.plots import bars, style
from onramp.result import Result
from onramp.scenario import Overrides
from onramp.summary import Floats, microseconds

FILE = "cluster-websearch"

#: Statistics of an incast request's completion time that the text gives factors for.
STATISTICS = ("mean", "p90", "p95", "p99")
#: "Not worse" is read as at least this ratio, "the same" as neither below it nor above its inverse.
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

    return Experiment(
        module,
        ("linux", "sim"),
        title,
        cases,
        lambda runs: draw(runs, drawn),
        claims,
        variants=BOTH_VARIANTS,
    )


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
        (at_high.over(at_low).above(1),),
    )


def steady(runs: Runs, key: Key, name: str) -> Claim:
    """Claim that the load had come to rest."""
    return common.steady(name, runs[(*key, WITHOUT)], runs[(*key, WITH)])


def rct(statistic: str) -> Callable[[Result], float | None]:
    """A statistic of incast requests in microseconds."""
    return lambda r: r.summary["incast"]["rct_us"][statistic]


def fct(size: str, statistic: str = "mean") -> Callable[[Result], float | None]:
    """A statistic of background flows of one size class in microseconds."""
    return lambda r: r.summary["background"][size]["fct_us"][statistic]


def count(name: str) -> Callable[[Result], float]:
    """One of the network's counters."""
    return lambda r: float(r.summary["network"][name])


def retransmitted(result: Result) -> float:
    """Packets retransmitted, in percent of those sent."""
    network = result.summary["network"]
    return float(100 * network["retransmitted_packets"] / network["packets_sent"])


def sides(runs: Runs, key: Key) -> tuple[Sequence[Result], Sequence[Result]]:
    """Runs without and with On-Ramp."""
    return runs[(*key, WITHOUT)], runs[(*key, WITH)]


#: The text's factor for a time, or a range of them; None where it says "lower" only.
Stated = float | tuple[float, float] | None


def rct_claims(runs: Runs, key: Key, name: str, factors: Mapping[str, Stated]) -> list[Claim]:
    """That requests are faster, by statistic; and what the mean's gain is made of."""
    found = []
    for statistic, stated in factors.items():
        gain = ratio(*sides(runs, key), rct(statistic))
        before, after = (estimate(r, rct(statistic)) for r in sides(runs, key))
        statement, shown = (
            f"{name}: {statistic} incast RCT is lower",
            f"{before.text()} to {after.text(' µs')}",
        )
        if stated:
            found.append(verdict.factor(statement, gain, stated, more=shown))
        else:
            text = f"{gain.text('×')} ({shown})"
            found.append(Claim(statement, "without/with above 1", text, (gain.above(1),)))
    return [*found, _split(runs, key, name)]


def _split(runs: Runs, key: Key, name: str) -> Claim:
    """How much of the mean RCT is requests that wait for a timer, and what the others gain."""

    def times(result: Result) -> Floats:
        return microseconds(result.requests["rct_ps"])

    def waiting(result: Result) -> float:
        return float(100 * (times(result) >= RTO_MIN).mean())

    def part(result: Result) -> float:
        took = times(result)
        return float(100 * took[took >= RTO_MIN].sum() / took.sum())

    def others(result: Result) -> float:
        took = times(result)
        return float(took[took < RTO_MIN].mean())

    said = []
    for side, results in zip(("without", "with"), sides(runs, key), strict=True):
        shares = (estimate(results, of).text("%") for of in (waiting, part))
        said.append("{} of requests, {} of the mean {}".format(*shares, side))
    gain = ratio(*sides(runs, key), others)
    known = np.isfinite(gain.values).all()
    rest = f"the mean of the others {gain.text('×')} lower" if known else "some seeds have no others"
    measured = f"{'; '.join(said)}; {rest}"
    statement = f"{name}: what the mean RCT is made of"
    return Claim(statement, "requests that wait for a timer of 200 ms", measured, (), of_paper=False)


def fct_claims(
    runs: Runs, key: Key, name: str, percent: Mapping[str, float | str], statistic: str = "mean"
) -> list[Claim]:
    """Claims on background flows by size: so many percent "lower", or in the text's words."""
    found = []
    for size, stated in percent.items():
        gain = ratio(*sides(runs, key), fct(size, statistic))
        statement = f"{name}: {statistic} FCT of {size} flows"
        if isinstance(stated, str):
            criterion, check = {
                "lower": ("without/with above 1", gain.above(1)),
                "not worse": (f"without/with at least {KEPT}", gain.at_least(KEPT)),
                "the same": (f"without/with {KEPT} to {1 / KEPT:.3g}", gain.between(KEPT, 1 / KEPT)),
            }[stated]
            found.append(Claim(f"{statement} is {stated}", criterion, gain.text("×"), (check,)))
        else:
            found.append(verdict.percent(f"{statement} is lower", verdict.lower(gain), stated))
    return found


def fewer(runs: Runs, key: Key, name: str, what: str, counter: str, stated: float) -> Claim:
    """That a counter falls by a factor."""
    before, after = (estimate(results, count(counter)) for results in sides(runs, key))
    shown = f"{sum(before.values):,.0f} to {sum(after.values):,.0f}, all seeds together"
    return verdict.fewer(f"{name}: {what} are fewer", before, after, stated, shown)


#: Statement of the text on flows where it has no numbers (§1: it "also improves" them).
GAINS = {"small": "lower", "medium": "lower", "large": "not worse"}


def loaded(runs: Runs, low: Key, high: Key) -> list[Claim]:
    """Claims on a higher load than the basic scenario's: more is gained."""
    name = f"CUBIC at {high[0]}"
    return [
        *(gains_more(runs, statistic, low, high) for statistic in STATISTICS),
        _split(runs, high, name),
        *fct_claims(runs, high, name, GAINS),
        steady(runs, high, name),
    ]


def retransmissions(runs: Runs, key: Key, name: str, stated: tuple[float, float]) -> list[Claim]:
    """That packets are retransmitted less: by the text's factor, and down to what it states, in percent."""
    before, after = (estimate(r, retransmitted) for r in sides(runs, key))
    low, high = verdict.span(stated[1])
    factor, shown = round(stated[0] / stated[1], 1), f"{before.text()} to {after.text('%')}"
    return [
        verdict.fewer(f"{name}: fewer packets are retransmitted", before, after, factor, shown),
        Claim(
            f"{name}: packets that are retransmitted with On-Ramp",
            f"{low:.3g}% to {high:.3g}%",
            after.text("%"),
            (after.between(low, high),),
            f"{stated[1]:g}%",
        ),
    ]


def mean_of(results: Sequence[Result], of: Callable[[Result], float | None]) -> float | None:
    """Mean over seeds, of those that have the number."""
    values = [v for v in (of(r) for r in results) if v is not None]
    return float(np.mean(values)) if values else None


def bar(
    results: Sequence[Result],
    value: Callable[[Result], float | None],
    tail: Callable[[Result], float | None] = lambda _: None,
) -> bars.Bar:
    """The bar of one number of every seed's run, and of its tail."""
    return bars.of_seeds([(value(r), tail(r)) for r in results])


def draw(runs: Runs, keys: Mapping[Key, str]) -> Figure:
    """RCT statistics and FCT by size, one row per key."""
    figure, axes = style.panels(len(keys), 2, (4.6, 2.6), width_ratios=(1, 1))
    for (left, right), (key, title) in zip(
        zip(axes[::2], axes[1::2], strict=True), keys.items(), strict=True
    ):
        requests = {side: [bar(runs[(*key, side)], rct(s)) for s in STATISTICS] for side in (WITHOUT, WITH)}
        flows = {
            side: [bar(runs[(*key, side)], fct(s), fct(s, "p95")) for s in ("small", "medium", "large")]
            for side in (WITHOUT, WITH)
        }
        bars.panel(left, STATISTICS, requests, ratio=True, log=True)
        bars.panel(right, ("small", "medium", "large"), flows, ratio=True, log=True)
        left.set_title(f"Incast RCT, {title}", fontsize=9)
        right.set_title(f"FCT, {title}", fontsize=9)
        left.set_ylabel("µs")
    figure.supxlabel(
        "points: means over seeds with their 95% intervals; dashes: 95th percentiles; "
        "ratios: of geometric means over seeds",
        fontsize=8,
    )
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure
