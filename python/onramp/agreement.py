"""The same arrivals in the simulator and on Linux: how far their answers are apart."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from onramp import groups
from onramp.cache import Cache
from onramp.comparison import BY_SEEDS
from onramp.errors import OnRampError
from onramp.metrics import ROUGH_NOTE, Metric, is_rough, metrics, over_seeds
from onramp.result import Result
from onramp.scenario import SUBSTRATES, Overrides, Scenario, load, quantity
from onramp.summary import SIZES, Summary
from onramp.sweeps import combinations

#: Linux again with links a nanosecond longer, as a key of `runs`: other packets meet; what differs is chance.
MOVED = "moved"
SIDES = {"without": "without On-Ramp", "with": "with On-Ramp"}
IMPROVEMENT = "improvement by On-Ramp"

#: Statistics of completion times that are compared.
STATISTICS = ("mean", "p50", "p95", "p99")


def _times(summary: Summary) -> list[Metric]:
    """Statistics of completion times that are compared."""
    titles = {group.key: group.label for group in groups.of_summary(summary)}
    titles |= {size: f"FCT {size}" for size in SIZES if size != "all"}
    return [
        Metric(title, name, "µs", sample, name) for sample, title in titles.items() for name in STATISTICS
    ]


def _counters(summary: Summary) -> list[Metric]:
    """Other numbers that are compared."""
    compared = ("gbps", "iteration_ms", "drops", "retransmitted_packets", "timeouts")
    return [metric for metric in metrics(summary) if metric.statistic in compared]


@dataclass(frozen=True)
class Point:
    """A scenario at one combination of the values varied: what to run for one agreement.

    Attributes
    ----------
    scenarios : mapping
        By substrate, and perhaps `MOVED`.
    """

    values: Mapping[str, str]
    scenarios: Mapping[str, Scenario]
    seeds: Sequence[int]

    @property
    def label(self) -> str:
        """The scenario's name and the values, in one line."""
        return _label(self.scenarios["linux"].name, self.values)

    @property
    def runs(self) -> dict[str, dict[str, list[Scenario]]]:
        """Runs over seeds, by side and substrate. Where On-Ramp is on, also without it."""
        sides = list(SIDES) if self.scenarios["linux"].onramp else ["without"]
        return {
            side: {
                on: [s.replace({"seed": seed, "onramp.enabled": side == "with"}) for seed in self.seeds]
                for on, s in self.scenarios.items()
            }
            for side in sides
        }


def grid(
    paths: Sequence[Path],
    overrides: Overrides,
    vary: Mapping[str, Sequence[str]],
    seeds: Sequence[int],
    *,
    floor: bool = False,
) -> list[Point]:
    """Each scenario at all combinations of `vary`, with its own seed if none is given.

    `floor` adds `MOVED`.
    """
    points = []
    for path in paths:
        for values in combinations(vary):
            scenarios = {on: load(path, {**overrides, **values}, on) for on in SUBSTRATES}
            if floor:
                scenarios[MOVED] = _moved(scenarios["linux"])
            points.append(Point(values, scenarios, seeds or [scenarios["linux"].seed]))
    return points


def _moved(linux: Scenario) -> Scenario:
    delay = linux.document["network"].get("link_delay")
    if delay is None:
        raise OnRampError(f"{linux.name}: --floor makes network.link_delay longer, and this network has none")
    return linux.replace({"network.link_delay": f"{round(quantity(delay) * 1e12) + 1000}ps"})


def scenarios(points: Sequence[Point]) -> dict[str, Scenario]:
    """All runs that points need, by label."""
    return {
        f"{SUBSTRATES.get(on, 'Linux again')} {SIDES[side]}, {point.label}, seed {s.seed}": s
        for point in points
        for side, of in point.runs.items()
        for on, runs in of.items()
        for s in runs
    }


def _label(name: str, values: Mapping[str, str]) -> str:
    return f"{name} · {', '.join(f'{k}={v}' for k, v in values.items())}" if values else name


@dataclass(frozen=True)
class Row:
    """A number on both substrates, means over the seeds.

    Attributes
    ----------
    side : str
        Without or with On-Ramp, or its improvement: without over with.
    ratio : float, optional
        Simulator over Linux: the geometric mean of the seeds' ratios.
    interval : tuple, optional
        Its 95% interval by Student's t on the logarithm; of several seeds only.
    """

    side: str
    metric: Metric
    sim: float
    linux: float
    ratio: float | None
    interval: tuple[float, float] | None

    @property
    def text(self) -> str:
        """The ratio."""
        return "–" if self.ratio is None else f"{self.ratio:.2f}"


class Agreement:
    """Runs of one scenario on both substrates, by side and substrate a list over seeds.

    `folder` has agreement.json; the runs are beside it.
    """

    def __init__(
        self, folder: Path, values: Mapping[str, str], runs: Mapping[str, Mapping[str, list[Result]]]
    ) -> None:
        self.folder, self.values, self.runs = folder, values, runs

    @classmethod
    def read(cls, folder: Path) -> Agreement:
        """One that was written before."""
        found = json.loads((folder / "agreement.json").read_text())
        runs = {
            side: {on: [Result(folder.parent / name) for name in names] for on, names in of.items()}
            for side, of in found["runs"].items()
        }
        return cls(folder, found["values"], runs)

    @property
    def scenario(self) -> Scenario:
        """The scenario, as Linux has it."""
        return next(iter(self.runs.values()))["linux"][0].scenario

    @property
    def label(self) -> str:
        """The scenario's name and the values varied."""
        return _label(self.scenario.name, self.values)

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs."""
        return [r.summary["seed"] for r in next(iter(self.runs.values()))["linux"]]

    @cached_property
    def rows(self) -> list[Row]:
        """All numbers: by side, then On-Ramp's improvement."""
        rows = []
        summary = next(iter(self.runs.values()))["sim"][0].summary
        times = _times(summary)
        for side, runs in self.runs.items():
            for metric in (*times, *_counters(summary)):
                sim, linux = ([metric.of(r.summary) for r in runs[on]] for on in SUBSTRATES)
                rows += _row(SIDES[side], metric, sim, linux)
        if len(self.runs) == len(SIDES):
            for metric in times:
                sim, linux = (
                    [_over(metric.of(a.summary), metric.of(b.summary)) for a, b in self._pairs(on)]
                    for on in SUBSTRATES
                )
                rows += _row(IMPROVEMENT, dataclasses.replace(metric, unit="×"), sim, linux)
        return rows

    def is_rough(self, row: Row) -> bool:
        """True if the row is about a percentile of few times, in any of the runs."""
        runs = (r for of in self.runs.values() for results in of.values() for r in results)
        return any(is_rough(row.metric, result.summary) for result in runs)

    @property
    def notes(self) -> list[str]:
        """Lines that a reader of the table must know."""
        by_seeds = [f"Ratio: simulator over Linux; {BY_SEEDS}."] if len(self.seeds) > 1 else []
        return [*by_seeds, *([ROUGH_NOTE] if any(self.is_rough(row) for row in self.rows) else [])]

    def _pairs(self, on: str) -> list[tuple[Result, Result]]:
        return list(zip(self.runs["without"][on], self.runs["with"][on], strict=True))

    def to_json(self) -> dict[str, object]:
        """Content of agreement.json."""
        return {
            "scenario": self.scenario.name,
            "values": self.values,
            "seeds": self.seeds,
            "runs": {
                side: {on: [r.folder.name for r in runs] for on, runs in of.items()}
                for side, of in self.runs.items()
            },
            "rows": [dataclasses.asdict(row) for row in self.rows],
        }


def _over(a: float | None, b: float | None) -> float | None:
    return a / b if a and b else None


def _row(side: str, metric: Metric, sim: Sequence[float | None], linux: Sequence[float | None]) -> list[Row]:
    pairs = [(a, b) for a, b in zip(sim, linux, strict=True) if a is not None and b is not None]
    if not pairs:
        return []
    ratio, interval = None, None
    if all(a > 0 and b > 0 for a, b in pairs):
        mean, half = over_seeds([math.log(a / b) for a, b in pairs])
        ratio = math.exp(mean)
        if len(pairs) > 1:
            interval = (math.exp(mean - half), math.exp(mean + half))
    mean_sim, mean_linux = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
    return [Row(side, metric, mean_sim, mean_linux, ratio, interval)]


def judge(points: Sequence[Point], cache: Cache) -> list[Agreement]:
    """Of points whose runs are all in the cache, what came out; an agreement.json is written for each."""
    found: list[Agreement] = []
    for point in points:
        if cache.missing(scenarios([point])):
            continue
        runs = {
            side: {on: [Result(cache.place(s)) for s in runs] for on, runs in of.items()}
            for side, of in point.runs.items()
        }
        _same_arrivals(runs)
        folder = cache.folder / re.sub(r"[^\w.=-]+", "-", point.label)
        if any(folder == one.folder for one in found):
            raise OnRampError(f"{point.label}: two scenarios have this name; give one another")
        folder.mkdir(exist_ok=True)
        agreed = Agreement(folder, point.values, runs)
        text = json.dumps(agreed.to_json(), indent=2, allow_nan=False, ensure_ascii=False)
        (folder / "agreement.json").write_text(text + "\n", encoding="utf-8")
        found.append(agreed)
    return found


def _same_arrivals(runs: Mapping[str, Mapping[str, list[Result]]]) -> None:
    """Refuse runs that are no comparison: what arrives does not depend on where it runs."""
    columns = ["src", "dst", "bytes", "start_ps"]
    for side in runs.values():
        for sim, linux in zip(side["sim"], side["linux"], strict=True):
            if sim.scenario.endless:
                continue
            # Linux plays at its clock's nanoseconds what the simulator plays exactly.
            tables = [r.flows.sort_by("id").select(columns).to_pydict() for r in (sim, linux)]
            for table in tables:
                table["start_ps"] = [t // 1000 for t in table["start_ps"]]
            if tables[0] != tables[1]:
                raise OnRampError(f"{sim.folder}: other arrivals than on Linux; please report this")


#: Samples and statistics of a line where there are several agreements.
_SHOWN = {
    "RCT": ("incast", STATISTICS),
    "small": ("small", ("mean", "p99")),
    "medium": ("medium", ("mean", "p95")),
    "large": ("large", ("mean",)),
}


def overview(found: Sequence[Agreement]) -> tuple[list[str], list[list[str]]]:
    """Several agreements as one table, head and rows: for each side of each a line of ratios."""
    keys = list(dict.fromkeys(key for one in found for key in one.values))
    many = len({one.scenario.name for one in found}) > 1
    shown = {
        f"{label} {s}": (sample, s) for label, (sample, statistics) in _SHOWN.items() for s in statistics
    }
    head = [*(["scenario"] if many else []), *keys, "", *shown]
    lines = []
    for one in found:
        first = [*([one.scenario.name] if many else []), *(one.values.get(key, "") for key in keys)]
        for side in dict.fromkeys(row.side for row in one.rows):
            of = {(r.metric.sample, r.metric.statistic): r.text for r in one.rows if r.side == side}
            lines.append([*first, side, *(of.get(key, "–") for key in shown.values())])
            first = [""] * len(first)
    return head, lines
