"""A grid of runs."""

from __future__ import annotations

import itertools
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
from onramp.errors import OnRampError
from onramp.groups import of_summary
from onramp.metrics import MARK, Metric, is_rough, metrics, number
from onramp.plots import style
from onramp.result import Result
from onramp.scenario import Overrides, Scenario, Source, dimension, load, quantity

FILE = "sweep.parquet"
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
    """A point for each combination of `vary`, key to values."""
    return [Point(values, load(source, {**overrides, **values}, on)) for values in combinations(vary)]


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


def overview(done: Sequence[tuple[Point, Result]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table: varied keys, metrics, counters. Heads have two lines."""
    of = shown(done)
    head = [f"\n{key}" for key in done[0][0].values] if done else []
    head += [f"{metric.group}\n{metric.heading}" for metric in of] + [f"\n{label}" for label in COUNTERS]
    rows = [
        [
            *point.values.values(),
            *(number(m.of(result.summary)) + MARK * is_rough(m, result.summary) for m in of),
            *(number(result.summary["network"][name]) for name in COUNTERS.values()),
        ]
        for point, result in done
    ]
    return head, rows


def is_any_rough(done: Sequence[tuple[Point, Result]]) -> bool:
    """True if a shown percentile is of few times."""
    return any(is_rough(metric, result.summary) for metric in shown(done) for _, result in done)


def results(points: Sequence[Point], cache: Cache) -> list[tuple[Point, Result]]:
    """The points that have results."""
    return [(p, r) for p in points if (r := cache.get(p.scenario)) is not None]


def check_folder(folder: Path, keys: Sequence[str]) -> None:
    """Refuse a folder whose sweep varies other keys: it would be written over."""
    if not (folder / FILE).is_file():
        return
    held = _keys(folder)
    if held != list(keys):
        raise OnRampError(f"{folder}: holds a sweep over {', '.join(held)}; give another --out")


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


def draw(done: Sequence[tuple[Point, Result]]) -> Figure:
    """Completion times over the first varied key, one line per combination of the others."""
    of = shown(done) or [Metric("FCT all", "mean", "µs", "all", "mean")]
    groups = list(dict.fromkeys(m.group for m in of))
    figure, axes = style.panels(1, len(groups), (3.4, 3.0))
    key = next(iter(done[0][0].values))
    axis = Axis.of(key, list(dict.fromkeys(p.values[key] for p, _ in done)))
    lines: dict[str, list[tuple[float, Result]]] = {}
    for point, result in done:
        others = ", ".join(f"{k}={v}" for k, v in point.values.items() if k != key)
        lines.setdefault(others, []).append((axis.places[point.values[key]], result))
    for line in lines.values():
        line.sort(key=lambda place: place[0])
    for ax, group in zip(axes, groups, strict=True):
        for i, (others, line) in enumerate(lines.items()):
            for metric in (m for m in of if m.group == group):
                y = [metric.of(r.summary) for _, r in line]
                ax.plot(
                    [x for x, _ in line],
                    [v if v is not None else float("nan") for v in y],
                    "o-" if metric.statistic == "mean" else "^--",
                    color=style.LAYERS[i % len(style.LAYERS)],
                    label=f"{others} {metric.label}".strip(),
                    ms=4,
                    lw=1.4,
                )
        ax.set(title=group, ylabel="µs")
        ax.set_ylim(bottom=0)
        axis.show(ax)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return figure
