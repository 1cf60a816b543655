"""The same arrivals with and without On-Ramp."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from onramp.cache import Cache, results_of
from onramp.engine import Watch
from onramp.errors import OnRampError
from onramp.folders import begun
from onramp.metrics import ROUGH_NOTE, Metric, bootstrap_ratio, completed, is_rough, metrics, over_seeds
from onramp.result import Result
from onramp.scenario import Overrides, Scenario, Source, load
from onramp.summary import SIZES, Floats, background, in_class

SIDES = {"without": "without On-Ramp", "with": "with On-Ramp"}

BY_SEEDS = "geometric mean of the seeds' ratios, 95% interval by Student's t on its logarithm"
NOT_ALL = "no intervals, since not all flows finished: those that did are not the same on both sides"
BY_BOOTSTRAP = (
    "95% interval by resampling this run's {what} in pairs; "
    "it leaves out how much runs with other seeds differ"
)


@dataclass(frozen=True)
class Row:
    """One line of the comparison; with several seeds the means over them."""

    metric: Metric
    without: float | None
    with_: float | None
    ratio: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Arrivals:
    """Comparison of both sides' arrivals: the same flows at the same times?"""

    flows: int
    identical: bool

    def __str__(self) -> str:
        if self.identical:
            return f"Arrivals: identical on both sides ({self.flows:,} flows)."
        return "Arrivals: NOT identical on both sides; the ratios mean nothing. Please report this."


class Comparison:
    """Runs with and without On-Ramp, by seed.

    Attributes
    ----------
    without, with_ : list of Result
        One per seed.
    stopped : list of int
        Further seeds, of which a side was stopped before its end: they do not count.
    """

    def __init__(
        self, folder: Path, without: list[Result], with_: list[Result], stopped: Sequence[int] = ()
    ) -> None:
        self.folder, self.without, self.with_, self.stopped = folder, without, with_, list(stopped)
        self.temporary: object = None  # keeps a temporary folder alive

    @classmethod
    def read(cls, folder: str | Path) -> Comparison:
        """A comparison that was written before."""
        folder = Path(folder)
        if not (folder / "comparison.json").is_file():
            raise OnRampError(f"{folder}: is not a comparison (it has no comparison.json)")
        found = json.loads((folder / "comparison.json").read_text())
        without, with_ = ([Result(_place(folder, seed, side)) for seed in found["seeds"]] for side in SIDES)
        return cls(folder, without, with_, found.get("stopped", ()))

    def moved(self, folder: Path) -> Comparison:
        """The same after its folder was renamed."""
        without, with_ = (
            [Result(folder / r.folder.relative_to(self.folder)) for r in side]
            for side in (self.without, self.with_)
        )
        moved = Comparison(folder, without, with_, self.stopped)
        moved.rows, moved.arrivals = self.rows, self.arrivals
        return moved

    @cached_property
    def arrivals(self) -> Arrivals:
        """True if both sides had the same."""
        return _arrivals(self.without, self.with_)

    @cached_property
    def rows(self) -> list[Row]:
        """Metrics of both sides and their ratio, without over with."""
        return _rows(self.without, self.with_)

    @property
    def scenario(self) -> Scenario:
        """The scenario with On-Ramp."""
        return self.with_[0].scenario

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs."""
        return [r.summary["seed"] for r in self.with_]

    @property
    def complete(self) -> bool:
        """True if no run was stopped before its end."""
        return not self.stopped and self.ended

    @property
    def ended(self) -> bool:
        """True if the runs that count came to their end; where they did not, there are no ratios."""
        return _complete(self.without, self.with_)

    @property
    def interval(self) -> str:
        """How the intervals were made."""
        if len(self.seeds) > 1:
            return BY_SEEDS
        if not _all_finished(self.without, self.with_):
            return NOT_ALL
        paired = (group.key for group in self.scenario.groups if group.paired)
        requests = any(completed(self.with_[0].summary, key) > 0 for key in paired)
        return BY_BOOTSTRAP.format(what="requests and flows" if requests else "flows")

    @property
    def notes(self) -> list[str]:
        """Lines that a reader of table and plots must know."""
        notes = [str(self.arrivals), f"Ratio: without over with; {self.interval}."]
        if self.stopped:
            notes.append(f"Seeds that were stopped and do not count: {', '.join(map(str, self.stopped))}.")
        if not self.ended:
            notes[1] = (
                f"No ratios: the sides were stopped, at {_ends(self.without[0])} and {_ends(self.with_[0])}."
            )
        if any(self.is_rough(row) for row in self.rows):
            notes.append(ROUGH_NOTE)
        if len(self.seeds) > 1:
            notes.append(
                f"Plots show means over seeds as bars, else seed {self.seeds[0]}; "
                "each seed's results are in a folder of its own."
            )
        return notes

    def is_rough(self, row: Row) -> bool:
        """True if the row is about a percentile of few times, on any side of any seed."""
        return any(is_rough(row.metric, result.summary) for result in (*self.without, *self.with_))

    @property
    def sides(self) -> Mapping[str, Sequence[Result]]:
        """Both sides by label, for plots: results by seed."""
        return {SIDES["without"]: self.without, SIDES["with"]: self.with_}

    def to_json(self) -> dict[str, object]:
        """Content of comparison.json."""
        rows = []
        for row in self.rows:
            ratio = row.ratio if row.ratio is not None and math.isfinite(row.ratio) else None
            numbers = {"without": row.without, "with": row.with_, "ratio": ratio, "interval": row.interval}
            rows.append({**dataclasses.asdict(row.metric), **numbers})
        return {
            "scenario": self.scenario.document["name"],
            "seeds": self.seeds,
            "stopped": self.stopped,
            "complete": self.complete,
            "arrivals": dataclasses.asdict(self.arrivals),
            "interval": self.interval,
            "rows": rows,
        }


def _place(folder: Path, seed: int, side: str) -> Path:
    """Where the results of one run are; with several seeds each has a folder."""
    by_seed = folder / f"seed-{seed}"
    return (by_seed if by_seed.exists() else folder) / side


@dataclass(frozen=True)
class Plan:
    """Both sides of a scenario for some seeds."""

    scenario: Scenario
    seeds: Sequence[int]

    @classmethod
    def of(cls, source: Source, overrides: Overrides | None, seeds: Sequence[int] | None, on: str) -> Plan:
        """Of a scenario that is checked with On-Ramp; without `seeds` its own."""
        scenario = load(source, {**(overrides or {}), "onramp.enabled": True}, on)
        return cls(scenario, list(seeds or [scenario.seed]))

    @cached_property
    def runs(self) -> Mapping[str, Scenario]:
        """Scenarios to run, by the place of their results."""
        return {
            f"seed-{seed}/{side}" if len(self.seeds) > 1 else side: self.scenario.replace(
                {"seed": seed, "onramp.enabled": side == "with"}
            )
            for seed in self.seeds
            for side in SIDES
        }

    def cache(self, folder: Path) -> Cache:
        """The runs in `folder`, by their places."""
        return Cache(folder, {s.digest: place for place, s in self.runs.items()}, keep_stopped=True)

    def resumes(self, folder: Path) -> bool:
        """True if `folder` holds runs of this comparison, but not all of it."""
        found = [r for place, s in self.runs.items() if (r := results_of(s, folder / place))]
        file = folder / "comparison.json"
        if file.is_file():
            return bool(found) and not json.loads(file.read_text())["complete"]
        return any(result.summary["complete"] for result in found)

    def missing(self, target: Path) -> Mapping[str, Scenario]:
        """Scenarios still to run for results in `target`."""
        before = begun(target, self.resumes)
        return self.cache(before).missing(self.runs) if before else self.runs

    def execute(self, folder: Path, *, workers: int, watch: Watch) -> Comparison:
        """Run what is missing into `folder`, which exists, and write comparison.json.

        Raises
        ------
        KeyboardInterrupt
            If it was stopped before there were results of both sides.
        """
        cache = self.cache(folder)
        cache.clear()
        cache.run(self.runs, workers=workers, watch=watch)
        comparison = gather(folder, self.seeds)
        text = json.dumps(comparison.to_json(), indent=2, allow_nan=False, ensure_ascii=False)
        (folder / "comparison.json").write_text(text + "\n", encoding="utf-8")
        return comparison


def gather(folder: Path, seeds: Sequence[int]) -> Comparison:
    """Results that `seeds` have left in `folder`.

    Raises
    ------
    KeyboardInterrupt
        If none has results of both sides.
    """
    done = [s for s in seeds if all((_place(folder, s, side) / "summary.json").exists() for side in SIDES)]
    if not done:
        raise KeyboardInterrupt
    pairs = {seed: [Result(_place(folder, seed, side)) for side in SIDES] for seed in done}
    # Sides that were stopped at different times are no pair. Without any other the first seed is shown.
    whole = [seed for seed, pair in pairs.items() if _complete(pair)] or done[:1]
    without, with_ = (list(side) for side in zip(*(pairs[seed] for seed in whole), strict=True))
    return Comparison(folder, without, with_, [seed for seed in seeds if seed not in whole])


def _complete(*sides: Sequence[Result]) -> bool:
    return all(r.summary["complete"] for side in sides for r in side)


def _ends(result: Result) -> str:
    return f"{result.summary['engine']['simulated_us'] / 1e3:,.2f} ms"


def _all_finished(without: Sequence[Result], with_: Sequence[Result]) -> bool:
    return all(r.summary["unfinished"]["flows"] == 0 for r in (*without, *with_))


def _arrivals(without: Sequence[Result], with_: Sequence[Result]) -> Arrivals:
    flows, identical = 0, True
    for a, b in zip(without, with_, strict=True):
        until = min(r.summary["engine"]["simulated_us"] for r in (a, b)) * 1e6
        one, other = (_arrived(r, until) for r in (a, b))
        flows += len(one["id"])
        identical &= all(np.array_equal(one[name], other[name]) for name in one)
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


def _rows(without: Sequence[Result], with_: Sequence[Result]) -> list[Row]:
    intervals: dict[tuple[str, str], tuple[float, float]] = {}
    shown = metrics(with_[0].summary)
    if len(without) == 1 and _all_finished(without, with_):
        # Where requests follow answers, there are no pairs of them.
        paired = [group.key for group in with_[0].scenario.groups if group.paired]
        for sample in (*paired, *SIZES):
            names = [m.statistic for m in shown if m.sample == sample and m.unit == "µs"]
            pairs = _paired(without[0], with_[0], sample)
            intervals |= {(sample, name): v for name, v in bootstrap_ratio(*pairs, names).items()}
    rows = []
    comparable = _complete(without, with_)
    for metric in shown:
        one, other = ([metric.of(r.summary) for r in side] for side in (without, with_))
        a, b = (
            None if None in side else float(np.mean([v for v in side if v is not None]))
            for side in (one, other)
        )
        ratio, interval = None, intervals.get((metric.sample, metric.statistic))
        if a is not None and b is not None and (a or b) and comparable:
            ratio = a / b if b else math.inf
            ratios = [x / y for x, y in zip(one, other, strict=True) if x is not None and y]
            if len(ratios) == len(one) > 1 and all(r > 0 for r in ratios):
                # A ratio and its inverse are the same news, so the logarithm is what is averaged.
                mean, half = over_seeds([math.log(r) for r in ratios])
                ratio, interval = math.exp(mean), (math.exp(mean - half), math.exp(mean + half))
        if a is not None or b is not None:
            rows.append(Row(metric, a, b, ratio, interval))
    return rows
