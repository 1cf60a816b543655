"""A grid of runs. A varied seed repeats each point, which gives intervals; On-Ramp off and on are pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.cache import Cache
from onramp.comparison import BY_SEEDS, Ratio, ratios
from onramp.errors import OnRampError
from onramp.groups import of_summary
from onramp.metrics import MARK, ROUGH_NOTE, Metric, is_rough, metrics, number, over_seeds
from onramp.plots import style
from onramp.result import Result
from onramp.scenario import Overrides, Scenario, Source, dimension, load, quantity

FILE = "sweep.parquet"
#: Keys that are varied to repeat a point, and to have it without and with On-Ramp.
SEED, GATE = "seed", "onramp.enabled"
#: Statistics that the table and the plot of a sweep show, and of flows the size classes.
STATISTICS, CLASSES = ("mean", "p95"), ("small", "large")
#: Counters of the network that the table shows.
COUNTERS = {"drops": "drops", "PFC pauses": "pfc_pauses"}


@dataclass(frozen=True)
class Point:
    """One point of the grid: the varied keys with their values, and the scenario."""

    values: Mapping[str, str]
    scenario: Scenario

    @property
    def label(self) -> str:
        """The values in one line."""
        return ", ".join(f"{key}={value}" for key, value in self.values.items())


def grid(
    source: Source, overrides: Overrides, vary: Mapping[str, Sequence[str]], on: str = "sim"
) -> list[Point]:
    """A point for each combination of `vary`, key to values.

    Without On-Ramp its other keys make no difference: then the points are of one run.
    """
    return [
        Point(values, load(source, {**overrides, **_that_count(values)}, on)) for values in combinations(vary)
    ]


def _that_count(values: Mapping[str, str]) -> dict[str, str]:
    """Values of a point that its run depends on."""
    off = values.get(GATE) == "false"
    return {k: v for k, v in values.items() if not (off and k.startswith("onramp.") and k != GATE)}


def combinations(vary: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """All combinations of the values of keys; the last key varies fastest."""
    return [dict(zip(vary, values, strict=True)) for values in itertools.product(*vary.values())]


@dataclass(frozen=True)
class Sweep:
    """A sweep that was run before.

    Attributes
    ----------
    keys : sequence of str
        The varied keys.
    done : sequence of pairs
        Points and their results.
    """

    folder: Path
    keys: Sequence[str]
    done: Sequence[tuple[Point, Result]]

    @classmethod
    def read(cls, folder: Path) -> Sweep:
        """The sweep in a folder that has its sweep.parquet."""
        rows = pq.read_table(folder / FILE)
        keys = _keys(folder)
        done = []
        for row in rows.to_pylist():
            result = Result(folder / row["folder"])
            done.append((Point({key: row[key] for key in keys}, result.scenario), result))
        return cls(folder, keys, done)


def shown(done: Sequence[tuple[Point, Result]]) -> list[Metric]:
    """Metrics that table and plot show: of requests, exchanges and collectives, and of flows by size."""
    found: dict[str, Metric] = {}
    for _, result in done:
        groups = [group.key for group in of_summary(result.summary)]
        for metric in metrics(result.summary):
            wanted = metric.sample in (*groups, *CLASSES) and metric.statistic in STATISTICS
            if wanted and metric.of(result.summary) is not None:
                short = f"FCT {metric.sample}" if metric.sample in CLASSES else metric.group
                found.setdefault(f"{short} {metric.label}", replace(metric, group=short))
    return list(found.values())


@dataclass(frozen=True)
class Repeated:
    """A point of the grid with its runs, by seed if that is varied.

    Attributes
    ----------
    values : mapping of str to str
        The varied keys with their values, but for the seed.
    runs : dict of str to Result
        By seed; of a seed that is not varied, by "".
    """

    values: Mapping[str, str]
    runs: dict[str, Result]

    def of(self, metric: Metric) -> tuple[float, float] | None:
        """Mean over the runs, and half of its 95% interval (nan for one run); None if nothing completed."""
        found = [value for run in self.runs.values() if (value := metric.of(run.summary)) is not None]
        return over_seeds(found) if found else None

    def text(self, metric: Metric) -> str:
        """The number as tables show it."""
        if (found := self.of(metric)) is None:
            return number(None)
        mean, half = found
        rough = any(is_rough(metric, run.summary) for run in self.runs.values())
        # Where all seeds say the same, an interval would say nothing.
        return number(mean) + MARK * rough + (f"\n±{number(half)}" if half > 0 else "")


def repeated(done: Sequence[tuple[Point, Result]]) -> list[Repeated]:
    """Points with their runs, in the order of the grid."""
    found: dict[tuple[str, ...], Repeated] = {}
    for point, result in done:
        values = {key: value for key, value in point.values.items() if key != SEED}
        runs = found.setdefault(tuple(values.values()), Repeated(values, {})).runs
        runs[point.values.get(SEED, "")] = result
    return list(found.values())


def overview(done: Sequence[tuple[Point, Result]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table: varied keys, metrics, counters. Heads have two lines.

    With several seeds, numbers are means over them with their 95% intervals (Student's t).
    """
    points = repeated(done)
    of = [*shown(done), *(Metric("", label, "", "", name) for label, name in COUNTERS.items())]
    head = [f"\n{key}" for key in points[0].values] if points else []
    head += [f"{metric.group}\n{metric.heading}" for metric in of]
    return head, [[*point.values.values(), *map(point.text, of)] for point in points]


@dataclass(frozen=True)
class Gain:
    """Without over with On-Ramp at a point, by metric."""

    values: Mapping[str, str]
    ratios: Mapping[Metric, Ratio | None]


def gains(done: Sequence[tuple[Point, Result]]) -> list[Gain]:
    """Without over with On-Ramp, where both were run: over the seeds that both have."""
    sides: dict[tuple[str, ...], dict[str, Repeated]] = {}
    for point in repeated(done):
        others = tuple(value for key, value in point.values.items() if key != GATE)
        sides.setdefault(others, {})[point.values.get(GATE, "")] = point
    of = [metric for metric in shown(done) if metric.unit == "µs"]
    found = []
    for both in sides.values():
        if not {"false", "true"} <= both.keys():
            continue
        without, with_ = both["false"], both["true"]
        seeds = [seed for seed in without.runs if seed in with_.runs]
        first, other = ([side.runs[seed] for seed in seeds] for side in (without, with_))
        values = {key: value for key, value in without.values.items() if key != GATE}
        if seeds:
            found.append(Gain(values, dict(zip(of, ratios(first, other, of, paired=False), strict=True))))
    return found


#: Title of a table of gains.
GAINS = "without over with On-Ramp"


def notes(done: Sequence[tuple[Point, Result]]) -> list[str]:
    """Lines that a reader of the tables must know."""
    lines = []
    most = max((len(point.runs) for point in repeated(done)), default=0)
    if most > 1:
        lines.append(f"±: 95% interval of the mean over {most} seeds, by Student's t.")
    if gains(done):
        lines.append(f"Ratio: {GAINS}{f'; {BY_SEEDS}' if most > 1 else ''}.")
    if any(is_rough(metric, result.summary) for metric in shown(done) for _, result in done):
        lines.append(ROUGH_NOTE)
    return lines


def results(points: Sequence[Point], cache: Cache) -> list[tuple[Point, Result]]:
    """The points that have results."""
    return [(p, r) for p in points if (r := cache.get(p.scenario)) is not None]


def continues(folder: Path, keys: Sequence[str], points: Sequence[Point]) -> bool:
    """True if a folder is one of runs, and these points have all that its sweep, if there is one, has."""
    return folder.is_dir() and _differs(folder, keys, points) is None


def check_folder(folder: Path, keys: Sequence[str], points: Sequence[Point]) -> None:
    """Refuse a folder with a sweep that would be written over."""
    if held := _differs(folder, keys, points):
        raise OnRampError(f"{folder}: holds {held}; give another --out")


def _differs(folder: Path, keys: Sequence[str], points: Sequence[Point]) -> str | None:
    """Something of the sweep in a folder that these points have not."""
    if not (folder / FILE).is_file():
        return None
    held = _keys(folder)
    if held != list(keys):
        return f"a sweep over {', '.join(held)}"
    ours = {point.scenario.digest for point in points}
    for row in pq.read_table(folder / FILE, columns=[*held, "folder"]).to_pylist():
        if row["folder"] not in ours:
            values = ", ".join(f"{key}={row[key]}" for key in held)
            return f"a sweep with {values}, of another scenario or with values that this one has not"
    return None


def _keys(folder: Path) -> list[str]:
    columns: list[str] = pq.read_schema(folder / FILE).names
    return columns[: columns.index("folder")]


def table(done: Sequence[tuple[Point, Result]]) -> pa.Table:
    """One row per point: the varied keys, the folder, and every number of its summary."""
    rows: list[dict[str, Any]] = []
    for point, result in done:
        summary = {k: v for k, v in _flat(result.summary) if not isinstance(v, (list, dict))}
        rows.append({**point.values, "folder": result.folder.name, **summary})
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return pa.table({name: [row.get(name) for row in rows] for name in columns})


def _flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, inner in value.items():
        name = f"{prefix}{key}"
        flat += _flat(inner, f"{name}.") if isinstance(inner, Mapping) else [(name, inner)]
    return flat


def write(done: Sequence[tuple[Point, Result]], folder: Path) -> list[Path]:
    """Write sweep.csv, sweep.parquet and the plot; the files."""
    rows = table(done)
    pa.csv.write_csv(rows, folder / "sweep.csv")
    pq.write_table(rows, folder / FILE)
    with style.styled():
        figure = draw(done)
    style.save(figure, folder / "sweep")
    return [folder / name for name in ("sweep.csv", FILE, "sweep.png", "sweep.svg")]


@dataclass(frozen=True)
class Axis:
    """Places of a key's values on an axis: by size where they have one, else one after another."""

    label: str
    places: Mapping[str, float]
    log: bool

    @classmethod
    def of(cls, key: str, values: Sequence[str]) -> Axis:
        sizes = _sizes(values)
        if sizes is None:
            return cls(key, {value: float(i) for i, value in enumerate(values)}, log=False)
        low, high = min(sizes), max(sizes)
        return cls(key, dict(zip(values, sizes, strict=True)), log=low > 0 and high / low > WIDE)

    def show(self, ax: Axes) -> None:
        """Label and ticks, which are the values as they were given."""
        if self.log:
            ax.set_xscale("log")
        ax.set_xlabel(self.label)
        ax.set_xticks(list(self.places.values()), list(self.places))
        ax.set_xticks([], minor=True)


#: Largest over smallest value from which on an axis is logarithmic.
WIDE = 10


def _sizes(values: Sequence[str]) -> list[float] | None:
    """Values as numbers, if all are numbers, or all quantities of a kind."""
    try:
        return [float(value) for value in values]
    except ValueError:
        pass
    try:
        kinds = {dimension(value) for value in values}
    except ValueError:
        return None
    return [quantity(value) for value in values] if len(kinds) == 1 else None


#: Lines that a plot has at most, and up to which it shows tails as well.
LINES, FEW = 12, 6


def draw(done: Sequence[tuple[Point, Result]]) -> Figure:
    """Completion times over the first varied key, one line per combination of the others."""
    of = shown(done) or [Metric("FCT all", "mean", "µs", "all", "mean")]
    groups = list(dict.fromkeys(m.group for m in of))
    figure, axes = style.panels(1, len(groups), (3.4, 3.0))
    points = repeated(done)
    # A sweep over seeds alone is a place for each.
    key = next(iter(points[0].values), SEED)
    axis = Axis.of(key, list(dict.fromkeys(point.values.get(key, "") for point in points)))
    every: dict[str, dict[float, Repeated]] = {}
    for point in points:
        counts = _that_count(point.values)
        others = ", ".join(f"{k}={v}" for k, v in counts.items() if k != key)
        every.setdefault(others, {})[axis.places[point.values.get(key, "")]] = point
    # Evenly chosen where they are too many to be told apart, and then their means.
    step = -(-len(every) // LINES)
    lines = {others: sorted(line.items()) for others, line in list(every.items())[::step]}
    told = [metric for metric in of if len(every) <= FEW or metric.statistic == "mean"]
    for ax, group in zip(axes, groups, strict=True):
        for i, (others, line) in enumerate(lines.items()):
            for metric in (m for m in told if m.group == group):
                numbers = [point.of(metric) or (math.nan, math.nan) for _, point in line]
                ax.errorbar(
                    [x for x, _ in line],
                    [mean for mean, _ in numbers],
                    yerr=[0.0 if math.isnan(half) else half for _, half in numbers],
                    fmt="o-" if metric.statistic == "mean" else "^--",
                    color=style.LAYERS[i % len(style.LAYERS)],
                    label=f"{others} {metric.label}".strip(),
                    ms=4,
                    lw=1.4,
                    capsize=2,
                )
        ax.set(title=group, ylabel="µs")
        ax.set_ylim(bottom=0)
        axis.show(ax)
    handles, labels = axes[0].get_legend_handles_labels()
    # A letter takes some 0.07 inches, a line before it 0.6.
    fit = int(figure.get_figwidth() / (0.6 + 0.07 * max(map(len, labels))))
    figure.legend(handles, labels, loc="outside upper center", ncols=min(4, max(1, fit)), fontsize=8)
    return figure
