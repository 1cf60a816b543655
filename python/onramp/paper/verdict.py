"""Estimates over seeds, the ranges they have to lie in, and the verdicts that follow.

A statement is reproduced if the 95% interval of every number it speaks of lies within its range, not
reproduced if one lies beyond, and else inconclusive: the seeds are too few to tell. One seed tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from onramp.metrics import decimals, number, over_seeds
from onramp.result import Result

REPRODUCED, NOT, INCONCLUSIVE = "reproduced", "not reproduced", "inconclusive"
VERDICTS = (REPRODUCED, NOT, INCONCLUSIVE)

#: A number of the paper is met within this share of it,
TOLERANCE = 0.25
#: and one in percent, such as "7% lower", within so many points if that is more.
POINTS = 5.0


@dataclass(frozen=True)
class Estimate:
    """A number of each seed's run.

    Attributes
    ----------
    values : tuple of float
        One per seed; two estimates of the same seeds are paired, as their arrivals are the same.
    ratio : bool
        Whether mean and interval are those of logarithms.
    """

    values: tuple[float, ...]
    ratio: bool = False

    @cached_property
    def _span(self) -> tuple[float, float, float]:
        x = np.asarray(self.values)
        if self.ratio and np.isfinite(x).all() and (x > 0).all():
            mean, half = over_seeds(np.log(x).tolist())
            return math.exp(mean), math.exp(mean - half), math.exp(mean + half)
        mean, half = over_seeds(self.values)
        return mean, mean - half, mean + half

    @property
    def mean(self) -> float:
        """Over seeds."""
        return self._span[0]

    @property
    def low(self) -> float:
        """Lower end of the mean's 95% interval; nan with one seed."""
        return self._span[1]

    @property
    def high(self) -> float:
        """Upper end of the mean's 95% interval; nan with one seed."""
        return self._span[2]

    @property
    def half(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2

    def text(self, unit: str = "", scale: float = 1.0) -> str:
        """Such as "61.2 ± 0.4%", or "2.41× (2.18 to 2.67)"; the interval where the digits shown tell it.

        A ratio that a seed does not have, as nothing was to divide by, is "unknown".
        """
        mean, half = self.mean * scale, self.half * scale
        if half > 0 and math.isfinite(half):
            shown = decimals(mean or half)
            if self.ratio and number(self.low) != number(self.high):
                return f"{mean:,.{shown}f}{unit} ({number(self.low * scale)} to {number(self.high * scale)})"
            if not self.ratio and round(half, shown) > 0:
                return f"{mean:,.{shown}f} ± {half:,.{shown}f}{unit}"
        return f"{number(mean)}{unit}" if math.isfinite(mean) else "unknown"

    def over(self, other: Estimate) -> Estimate:
        """Ratio, seed by seed."""
        pairs = zip(self.values, other.values, strict=True)
        return Estimate(tuple(a / b if b else math.nan for a, b in pairs), ratio=True)

    def minus(self, other: Estimate) -> Estimate:
        """Difference, seed by seed."""
        return Estimate(tuple(a - b for a, b in zip(self.values, other.values, strict=True)))

    def each(self, of: Callable[[float], float]) -> Estimate:
        """Function of every seed's number."""
        return Estimate(tuple(map(of, self.values)))

    def between(self, low: float, high: float) -> Check:
        """Check that it lies in a range, its ends included."""
        return Check(self, low, high)

    def at_least(self, low: float) -> Check:
        """Check that it is not below a bound."""
        return Check(self, low=low)

    def at_most(self, high: float) -> Check:
        """Check that it is not above a bound."""
        return Check(self, high=high)

    def above(self, low: float) -> Check:
        """Check that it is above a bound, not at it."""
        return Check(self, low=math.nextafter(low, math.inf))

    def below(self, high: float) -> Check:
        """Check that it is below a bound, not at it."""
        return Check(self, high=math.nextafter(high, -math.inf))


@dataclass(frozen=True)
class Check:
    """A range that an estimate has to lie in; None where it is open."""

    value: Estimate
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        low, high = self.value.low, self.value.high
        least = -math.inf if self.low is None else self.low
        most = math.inf if self.high is None else self.high
        if high < least or low > most:
            return NOT
        return REPRODUCED if least <= low and high <= most else INCONCLUSIVE


@dataclass(frozen=True)
class Claim:
    """A statement, held against what was measured.

    Attributes
    ----------
    statement : str
        What the text states, or what its figures rest on.
    criterion : str
        When it is reproduced, in words; fixed before measuring.
    measured : str
        With 95% intervals over seeds.
    checks : tuple of Check
        The same in numbers; none where a row only tells more about another.
    stated : str
        The text's number; empty where it has words only.
    of_paper : bool
        Whether the paper, or a study's source, states it.
    """

    statement: str
    criterion: str
    measured: str
    checks: tuple[Check, ...]
    stated: str = ""
    of_paper: bool = True

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`; empty without checks."""
        found = {check.verdict for check in self.checks}
        return next((v for v in (NOT, INCONCLUSIVE, REPRODUCED) if v in found), "")

    @property
    def outcome(self) -> str:
        """Verdict in words; a source's statements are reproduced, what figures rest on holds."""
        if self.of_paper:
            return self.verdict
        return {REPRODUCED: "holds", NOT: "does not hold"}.get(self.verdict, self.verdict)

    @staticmethod
    def of(document: Mapping[str, Any]) -> Claim:
        """Claim from what `asdict` made of one."""
        checks = (
            Check(Estimate(_numbers(c["value"]["values"]), c["value"]["ratio"]), c["low"], c["high"])
            for c in document["checks"]
        )
        return Claim(**{**document, "checks": tuple(checks)})


def _numbers(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(math.nan if value is None else value for value in values)


def span(stated: float) -> tuple[float, float]:
    """Range in which a number of the text is met."""
    return stated * (1 - TOLERANCE), stated * (1 + TOLERANCE)


def factor(
    statement: str,
    value: Estimate,
    stated: float | tuple[float, float],
    more: str = "",
    *,
    of: str = "without/with",
) -> Claim:
    """Claim on a ratio, `of` what the text gives a number for, or a range; `more` is said beside it."""
    least, most = stated if isinstance(stated, tuple) else (stated, stated)
    low, high = span(least)[0], span(most)[1]
    said = f"{least:g}×" if least == most else f"{least:g}–{most:g}×"
    text = f"{value.text('×')}{more and f' ({more})'}"
    return Claim(statement, f"{of} {low:.3g} to {high:.3g}", text, (value.between(low, high),), said)


def fewer(statement: str, before: Estimate, after: Estimate, stated: float, shown: str) -> Claim:
    """Claim that a count falls by the text's factor; it may fall to 0."""
    low, high = span(stated)
    left = Estimate(after.over(before).values)
    criterion = f"{100 / high:.3g}% to {100 / low:.3g}% are left"
    measured = f"{shown}; left: {left.text('%', 100)}"
    return Claim(statement, criterion, measured, (left.between(1 / high, 1 / low),), f"{stated:g}×")


def percent(statement: str, value: Estimate, stated: float | tuple[float, float]) -> Claim:
    """Claim on a share that the text gives in percent, or as a range; `value` is in percent."""
    least, most = stated if isinstance(stated, tuple) else (stated, stated)
    low = least - max(POINTS, TOLERANCE * least)
    high = most + max(POINTS, TOLERANCE * most)
    said = f"{least:g}%" if least == most else f"{least:g}–{most:g}%"
    criterion = f"{low:.3g}% to {high:.3g}%"
    return Claim(statement, criterion, value.text("%"), (value.between(low, high),), said)


def estimate(results: Sequence[Result], of: Callable[[Result], float | None]) -> Estimate:
    """A number of each run, over seeds."""
    return Estimate(_numbers(of(r) for r in results))


def ratio(
    first: Sequence[Result], second: Sequence[Result], of: Callable[[Result], float | None]
) -> Estimate:
    """First over second, seed by seed: with the same seed both had the same arrivals."""
    return estimate(first, of).over(estimate(second, of))


def lower(gain: Estimate) -> Estimate:
    """By how many percent a time is lower, from its ratio without over with."""
    return gain.each(lambda x: 100 * (1 - 1 / x))


#: In steady state the halves of the measured time agree within this share.
STEADY = 0.1


def steady(name: str, measure: str, halves: Mapping[str, Estimate]) -> Claim:
    """Claim that the load had come to rest: no statement of the paper, but what all others rest on.

    `halves` has, by side, a measure of the later half over that of the first.
    """
    return Claim(
        f"{name}: the network is in steady state",
        f"{measure} within {STEADY:.0%} of 1",
        ", ".join(f"{half.text()} {side}" for side, half in halves.items()),
        tuple(half.between(1 - STEADY, 1 + STEADY) for half in halves.values()),
        of_paper=False,
    )
