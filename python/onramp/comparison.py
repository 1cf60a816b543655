"""Runs side by side: with and without On-Ramp, or any scenarios."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from onramp.cache import Cache, Workers, results_of
from onramp.engine import Watch
from onramp.errors import OnRampError
from onramp.folders import begun
from onramp.metrics import (
    ROUGH_NOTE,
    Metric,
    bootstrap_ratio,
    completed,
    is_rough,
    metrics,
    number,
    over_seeds,
    pairs_needed,
)
from onramp.result import Result
from onramp.scenario import Overrides, Scenario, Source, load
from onramp.summary import SIZES, Floats, background, in_class

FILE = "comparison.json"
#: Sides by name, which is their folder's, and what tables and plots call them.
SIDES = {"without": "without On-Ramp", "with": "with On-Ramp"}
#: Sides that a comparison has at most.
MOST = 8
#: Letters of a folder's name, and names that a comparison's folder has besides its sides.
LONGEST, TAKEN = 80, ("plots", FILE, "index.html")

#: Statistics of which a comparison says in words whether they differ.
TESTED = ("mean", "p99")

#: Below this, a difference is told as none, even where it is certain.
NEAR = 0.005

BY_SEEDS = "geometric mean of the seeds' ratios, 95% interval by Student's t on its logarithm"
OTHER_ARRIVALS = "no intervals from one seed, since the arrivals differ: give several with --seeds"
NOT_ALL = "no intervals, since not all flows finished: those that did are not the same on both sides"
BY_BOOTSTRAP = (
    "95% interval by resampling this run's {what} in pairs; "
    "it leaves out how much runs with other seeds differ"
)


@dataclass(frozen=True)
class Ratio:
    """A number of the first side over that of another.

    Attributes
    ----------
    interval : pair of float, optional
        Ends of its 95% interval.
    """

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Row:
    """One line of the comparison.

    Attributes
    ----------
    values : tuple of float
        One per side; with several seeds the mean over them. None if nothing completed.
    ratios : tuple of Ratio
        The first side over each other; None where there is none.
    """

    metric: Metric
    values: tuple[float | None, ...]
    ratios: tuple[Ratio | None, ...]

    @property
    def without(self) -> float | None:
        """Value of the first side, such as without On-Ramp."""
        return self.values[0]

    @property
    def with_(self) -> float | None:
        """Value of the second side, such as with On-Ramp."""
        return self.values[1]

    @property
    def ratio(self) -> float | None:
        """First over second."""
        return self.ratios[0].value if self.ratios[0] else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95% interval of `ratio`."""
        return self.ratios[0].interval if self.ratios[0] else None


@dataclass(frozen=True)
class Arrivals:
    """Comparison of the sides' arrivals: the same flows at the same times?"""

    flows: int
    identical: bool


class Comparison:
    """Runs of several sides with the same seeds.

    Attributes
    ----------
    runs : mapping of str to list of Result
        By side, the first one that the others are compared with: results by seed.
    labels : mapping of str to str
        What tables and plots call the sides.
    stopped : list of int
        Further seeds, of which a side was stopped before its end: they do not count.
    """

    def __init__(
        self,
        folder: Path,
        runs: Mapping[str, list[Result]],
        labels: Mapping[str, str] = SIDES,
        stopped: Sequence[int] = (),
    ) -> None:
        self.folder, self.runs, self.labels, self.stopped = folder, runs, labels, list(stopped)
        self.temporary: object = None  # keeps a temporary folder alive

    def __repr__(self) -> str:
        return f"Comparison({str(self.folder)!r})"

    @classmethod
    def read(cls, folder: str | Path) -> Comparison:
        """A comparison that was written before."""
        folder = Path(folder)
        if not (folder / FILE).is_file():
            raise OnRampError(f"{folder}: is not a comparison (it has no {FILE})")
        found = json.loads((folder / FILE).read_text())
        labels = found.get("sides", SIDES)
        runs = {side: [Result(_place(folder, seed, side)) for seed in found["seeds"]] for side in labels}
        return cls(folder, runs, labels, found.get("stopped", ()))

    def moved(self, folder: Path) -> Comparison:
        """The same after its folder was renamed."""
        runs = {
            side: [Result(folder / r.folder.relative_to(self.folder)) for r in results]
            for side, results in self.runs.items()
        }
        moved = Comparison(folder, runs, self.labels, self.stopped)
        moved.rows, moved.arrivals = self.rows, self.arrivals
        return moved

    @property
    def without(self) -> list[Result]:
        """The first side, such as without On-Ramp: results by seed."""
        return next(iter(self.runs.values()))

    @property
    def with_(self) -> list[Result]:
        """The second side, such as with On-Ramp: results by seed."""
        return list(self.runs.values())[1]

    @property
    def is_of_onramp(self) -> bool:
        """True if the sides are without and with On-Ramp, so that their arrivals have to be the same."""
        return self.labels == SIDES

    @cached_property
    def arrivals(self) -> Arrivals:
        """True if all sides had the same."""
        return _arrivals(list(self.runs.values()))

    @cached_property
    def rows(self) -> list[Row]:
        """Metrics of all sides, and the first over each other."""
        return _rows(list(self.runs.values()), paired=self.arrivals.identical)

    @property
    def scenario(self) -> Scenario:
        """The scenario of the second side, with On-Ramp."""
        return self.with_[0].scenario

    @property
    def title(self) -> str:
        """Scenario's name, or the sides'."""
        if self.is_of_onramp:
            return str(self.scenario.document["name"])
        return ", ".join(self.labels.values())

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs."""
        return [r.summary["seed"] for r in self.with_]

    @property
    def all_runs(self) -> list[Result]:
        """Results of all sides."""
        return [result for results in self.runs.values() for result in results]

    @property
    def complete(self) -> bool:
        """True if no run was stopped before its end."""
        return not self.stopped and self.ended

    @property
    def ended(self) -> bool:
        """True if the runs that count came to their end; where they did not, there are no ratios."""
        return _complete(self.all_runs)

    @property
    def interval(self) -> str:
        """How the intervals were made."""
        if len(self.seeds) > 1:
            return BY_SEEDS
        if not self.arrivals.identical:
            return OTHER_ARRIVALS
        if not _all_finished(self.all_runs):
            return NOT_ALL
        paired = (group.key for group in self.scenario.groups if group.paired)
        requests = any(completed(self.with_[0].summary, key) > 0 for key in paired)
        return BY_BOOTSTRAP.format(what="requests and flows" if requests else "flows")

    @property
    def notes(self) -> list[str]:
        """Lines that a reader of table and plots must know."""
        first, *others = self.labels.values() if not self.is_of_onramp else self.runs
        over = others[0] if len(others) == 1 else "each other side"
        notes = [self._arrivals_text(), f"Ratio: {first} over {over}; {self.interval}."]
        if self.is_of_onramp:
            notes[0] += f" T = {self.scenario.document['onramp']['threshold']}."
        if self.stopped:
            notes.append(f"Seeds that were stopped and do not count: {', '.join(map(str, self.stopped))}.")
        if not self.ended:
            ends = " and ".join(_ends(results[0]) for results in self.runs.values())
            notes[1] = f"No ratios: the sides were stopped, at {ends}."
        if too_few := self.too_few:
            named = ", ".join(f"{group} ({n})" for group, n in too_few.items())
            need = f"{pairs_needed('mean')} pairs, 99th percentiles {pairs_needed('p99')}"
            notes.append(f"No intervals, of too few: {named}; they need {need}.")
        if any(self.is_rough(row) for row in self.rows):
            notes.append(ROUGH_NOTE)
        if len(self.seeds) > 1:
            notes.append(
                f"Plots show means over seeds as bars, else seed {self.seeds[0]}; "
                "each seed's results are in a folder of its own."
            )
        return notes

    @property
    def too_few(self) -> dict[str, int]:
        """Times of one seed that are too few for an interval, by what they are of: how many there are."""
        found: dict[str, int] = {}
        if self.interval in (BY_SEEDS, OTHER_ARRIVALS, NOT_ALL):
            return found
        for row in self.rows:
            metric = row.metric
            if row.ratio is None or row.interval or metric.unit != "µs" or not metric.sample:
                continue
            n = min(completed(r.summary, metric.sample) for r in self.all_runs)
            if n < pairs_needed(metric.statistic):
                found[metric.group] = n
        return found

    def _arrivals_text(self) -> str:
        both = "both" if len(self.runs) == 2 else "all"
        if self.arrivals.identical:
            return f"Arrivals: identical on {both} sides ({self.arrivals.flows:,} flows)."
        if self.is_of_onramp:
            return "Arrivals: NOT identical on both sides; the ratios mean nothing. Please report this."
        return "Arrivals: not the same on all sides; ratios are of different loads."

    @property
    def tests(self) -> list[str]:
        """Tests in words, for each side: times' means and 99th percentiles, and whatever is worse."""
        lines = []
        for n, label in enumerate(list(self.labels.values())[1:]):
            for row in self.rows:
                ratio = row.ratios[n]
                if not ratio or not ratio.interval or row.metric.unit != "µs":
                    continue
                if row.metric.statistic in TESTED or (row.metric.sample and ratio.interval[1] < 1):
                    what = f"{row.metric.group}, {row.metric.label}"
                    lines.append(f"{label}: {what} {in_words(ratio)}.")
        return lines

    def is_rough(self, row: Row) -> bool:
        """True if the row is about a percentile of few times, on any side of any seed."""
        return any(is_rough(row.metric, result.summary) for result in self.all_runs)

    @property
    def sides(self) -> Mapping[str, Sequence[Result]]:
        """All sides by label, for plots: results by seed."""
        return {self.labels[side]: results for side, results in self.runs.items()}

    def to_json(self) -> dict[str, object]:
        """Content of comparison.json."""
        rows = []
        for row in self.rows:
            numbers: dict[str, object] = dict(zip(self.runs, row.values, strict=True))
            ratios = [
                {
                    "ratio": ratio.value if ratio and math.isfinite(ratio.value) else None,
                    "interval": ratio.interval if ratio else None,
                }
                for ratio in row.ratios
            ]
            if len(ratios) == 1:
                numbers |= ratios[0]
            else:
                numbers["ratios"] = dict(zip(list(self.runs)[1:], ratios, strict=True))
            rows.append({**dataclasses.asdict(row.metric), **numbers})
        return {
            "scenario": self.scenario.document["name"],
            "sides": dict(self.labels),
            "seeds": self.seeds,
            "stopped": self.stopped,
            "complete": self.complete,
            "arrivals": dataclasses.asdict(self.arrivals),
            "interval": self.interval,
            "rows": rows,
        }


def in_words(ratio: Ratio) -> str:
    """Meaning of a ratio of times and its 95% interval."""
    low, high = ratio.interval or (0.0, math.inf)
    if ratio.interval and low > 0 and max(high, 1 / low) < 1 + NEAR:
        return f"differs by less than {NEAR:.1%}"
    if low > 1:
        return f"is {number(ratio.value)} times as fast ({number(low)} to {number(high)})"
    if high < 1:
        return f"takes {number(1 / ratio.value)} times as long ({number(1 / high)} to {number(1 / low)})"
    return f"shows no difference ({number(low)} to {number(high)} times as fast)"


def _place(folder: Path, seed: int, side: str) -> Path:
    """Where the results of one run are; with several seeds each has a folder."""
    by_seed = folder / f"seed-{seed}"
    return (by_seed if by_seed.exists() else folder) / side


@dataclass(frozen=True)
class Plan:
    """Sides to run for some seeds.

    Attributes
    ----------
    sides : mapping of str to Scenario
        By name, which is a folder's.
    labels : mapping of str to str
        What tables and plots call them.
    """

    name: str
    sides: Mapping[str, Scenario]
    labels: Mapping[str, str]
    seeds: Sequence[int]

    @classmethod
    def of(cls, source: Source, overrides: Overrides | None, seeds: Sequence[int] | None, on: str) -> Plan:
        """Of a scenario with and without On-Ramp; without `seeds` its own."""
        scenario = load(source, {**(overrides or {}), "onramp.enabled": True}, on)
        sides = {"without": scenario.replace({"onramp.enabled": False}), "with": scenario}
        return cls(scenario.name, sides, SIDES, list(seeds or [scenario.seed]))

    @classmethod
    def of_several(cls, sides: Mapping[str, Scenario], seeds: Sequence[int] | None) -> Plan:
        """Of scenarios by label, the first one the others are compared with; without `seeds` that one's.

        Raises
        ------
        OnRampError
            If they are too few or too many.
        """
        if len(sides) < 2:
            raise OnRampError(f"a comparison has 2 to {MOST} sides that differ, and here is one")
        if len(sides) > MOST:
            raise OnRampError(f"{len(sides)} sides: a comparison has 2 to {MOST}")
        labels: dict[str, str] = {}
        for label in sides:
            stem = re.sub(r"[^\w.+=-]+", "-", label).strip("-.")[:LONGEST] or "side"
            taken = stem in labels or stem in TAKEN
            labels[f"{stem}-{len(labels)}" if taken else stem] = label
        scenarios = dict(zip(labels, sides.values(), strict=True))
        first = next(iter(sides.values()))
        return cls("-".join(labels)[:LONGEST], scenarios, labels, list(seeds or [first.seed]))

    @property
    def advice(self) -> list[str]:
        """Values that are possible, but hardly meant, one line each."""
        return [line for scenario in self.sides.values() for line in scenario.advice]

    @cached_property
    def runs(self) -> Mapping[str, Scenario]:
        """Scenarios to run, by the place of their results."""
        return {
            f"seed-{seed}/{side}" if len(self.seeds) > 1 else side: scenario.replace({"seed": seed})
            for seed in self.seeds
            for side, scenario in self.sides.items()
        }

    def cache(self, folder: Path) -> Cache:
        """The runs in `folder`, by their places."""
        return Cache(folder, {s.digest: place for place, s in self.runs.items()}, keep_stopped=True)

    def resumes(self, folder: Path) -> bool:
        """True if `folder` holds runs of this comparison, but not all of it."""
        found = [r for place, s in self.runs.items() if (r := results_of(s, folder / place))]
        file = folder / FILE
        if file.is_file():
            return bool(found) and not json.loads(file.read_text())["complete"]
        return any(result.summary["complete"] for result in found)

    def missing(self, target: Path) -> Mapping[str, Scenario]:
        """Scenarios still to run for results in `target`."""
        before = begun(target, self.resumes)
        return self.cache(before).missing(self.runs) if before else self.runs

    def execute(self, folder: Path, *, workers: Workers, watch: Watch) -> Comparison:
        """Run what is missing into `folder`, which exists, and write comparison.json.

        Raises
        ------
        KeyboardInterrupt
            If it was stopped before there were results of all sides.
        """
        cache = self.cache(folder)
        cache.clear()
        cache.run(self.runs, workers=workers, watch=watch)
        comparison = gather(folder, self.seeds, self.labels)
        text = json.dumps(comparison.to_json(), indent=2, allow_nan=False, ensure_ascii=False)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")
        return comparison


def gather(folder: Path, seeds: Sequence[int], labels: Mapping[str, str] = SIDES) -> Comparison:
    """Results that `seeds` have left in `folder`.

    Raises
    ------
    KeyboardInterrupt
        If none has results of all sides.
    """
    done = [s for s in seeds if all((_place(folder, s, side) / "summary.json").exists() for side in labels)]
    if not done:
        raise KeyboardInterrupt
    by_seed = {seed: [Result(_place(folder, seed, side)) for side in labels] for seed in done}
    # Sides that were stopped at different times are not compared. Without any other the first seed is shown.
    whole = [seed for seed, sides in by_seed.items() if _complete(sides)] or done[:1]
    runs = {side: [by_seed[seed][n] for seed in whole] for n, side in enumerate(labels)}
    return Comparison(folder, runs, labels, [seed for seed in seeds if seed not in whole])


def _complete(results: Sequence[Result]) -> bool:
    return all(r.summary["complete"] for r in results)


def _ends(result: Result) -> str:
    return f"{result.summary['engine']['simulated_us'] / 1e3:,.2f} ms"


def _all_finished(results: Sequence[Result]) -> bool:
    return all(r.summary["unfinished"]["flows"] == 0 for r in results)


def _arrivals(sides: Sequence[Sequence[Result]]) -> Arrivals:
    flows, identical = 0, True
    for of_seed in zip(*sides, strict=True):
        until = min(r.summary["engine"]["simulated_us"] for r in of_seed) * 1e6
        first, *others = (_arrived(r, until) for r in of_seed)
        flows += len(first["id"])
        identical &= all(np.array_equal(first[name], other[name]) for other in others for name in first)
    return Arrivals(flows, identical)


def _arrived(result: Result, until_ps: float) -> Mapping[str, Floats]:
    """Arrivals before a time, by flow number; of long flows without the bytes, which are an outcome."""
    table = result.flows
    columns = {name: table[name].to_numpy() for name in ("id", "traffic", "src", "dst", "bytes", "start_ps")}
    columns["request"] = table["request"].fill_null(-1).to_numpy()
    columns["bytes"] = np.where(np.isin(columns["traffic"], result.scenario.endless), 0, columns["bytes"])
    order = np.argsort(columns["id"], kind="stable")
    order = order[columns["start_ps"][order] < until_ps]
    return {name: values[order] for name, values in columns.items()}


def _paired(a: Result, b: Result, sample: str) -> tuple[Floats, Floats]:
    """Times in microseconds of what completed on both sides, of a size class or a group."""
    times = []
    for result in (a, b):
        if sample in SIZES:
            table = in_class(background(result.flows, result.scenario.endless), sample)
            table = table.select(["id", "fct_ps"]).drop_null()
            times.append((table["id"].to_numpy(), table["fct_ps"].to_numpy() / 1e6))
        else:
            group = next(group for group in result.scenario.groups if group.key == sample)
            rows = result.rows(group)
            times.append((group.ids(rows), rows[group.time].to_numpy() / 1e6))
    _, i, j = np.intersect1d(times[0][0], times[1][0], assume_unique=True, return_indices=True)
    return times[0][1][i], times[1][1][j]


def _rows(sides: Sequence[Sequence[Result]], *, paired: bool) -> list[Row]:
    first, *others = sides
    found: dict[str, Metric] = {}
    for results in sides:
        found |= {f"{m.group} {m.label}": m for m in metrics(results[0].summary)}
    compared = [ratios(first, other, list(found.values()), paired=paired) for other in others]
    rows = []
    for n, metric in enumerate(found.values()):
        values = tuple(_mean([metric.of(r.summary) for r in results]) for results in sides)
        if any(value is not None for value in values):
            rows.append(Row(metric, values, tuple(ratios[n] for ratios in compared)))
    return rows


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def ratios(
    first: Sequence[Result], other: Sequence[Result], shown: Sequence[Metric], *, paired: bool
) -> list[Ratio | None]:
    """First over other, by metric.

    Parameters
    ----------
    first, other : sequence of Result
        Runs of the same seeds, in the same order.
    paired : bool
        Arrivals are the same, so that a single seed has intervals as well, by resampling pairs.
    """
    intervals: dict[tuple[str, str], tuple[float, float]] = {}
    if paired and len(first) == 1 and _all_finished([*first, *other]):
        # Where requests follow answers, there are no pairs of them.
        groups = [group.key for group in other[0].scenario.groups if group.paired]
        for sample in (*groups, *SIZES):
            names = [m.statistic for m in shown if m.sample == sample and m.unit == "µs"]
            pairs = _paired(first[0], other[0], sample)
            intervals |= {(sample, name): v for name, v in bootstrap_ratio(*pairs, names).items()}
    comparable = _complete([*first, *other])
    found: list[Ratio | None] = []
    for metric in shown:
        ones, others = ([metric.of(r.summary) for r in results] for results in (first, other))
        a, b = _mean(ones), _mean(others)
        if a is None or b is None or not (a or b) or not comparable:
            found.append(None)
            continue
        ratio, interval = a / b if b else math.inf, intervals.get((metric.sample, metric.statistic))
        each = [x / y for x, y in zip(ones, others, strict=True) if x is not None and y]
        if len(each) == len(ones) > 1 and all(r > 0 for r in each):
            # A ratio and its inverse are the same news, so the logarithm is what is averaged.
            mean, half = over_seeds([math.log(r) for r in each])
            ratio, interval = math.exp(mean), (math.exp(mean - half), math.exp(mean + half))
        found.append(Ratio(ratio, interval))
    return found
