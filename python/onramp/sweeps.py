"""A grid of runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.cache import Cache
from onramp.errors import OnRampError
from onramp.metrics import Metric
from onramp.plots import style
from onramp.result import Result
from onramp.scenario import Overrides, Scenario, Source, dimension, load, quantity

#: Metrics that the table and the plot of a sweep show.
SHOWN = (
    Metric("Incast RCT", "mean", "µs", "incast", "mean"),
    Metric("Incast RCT", "p95", "µs", "incast", "p95"),
    Metric("FCT small", "mean", "µs", "small", "mean"),
    Metric("FCT small", "p95", "µs", "small", "p95"),
    Metric("FCT large", "mean", "µs", "large", "mean"),
    Metric("FCT large", "p95", "µs", "large", "p95"),
)


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


def results(points: Sequence[Point], cache: Cache) -> list[tuple[Point, Result]]:
    """The points that have results."""
    return [(p, r) for p in points if (r := cache.get(p.scenario)) is not None]


def check_folder(folder: Path, keys: Sequence[str]) -> None:
    """Refuse a folder whose sweep varies other keys: it would be written over."""
    if not (folder / "sweep.parquet").is_file():
        return
    columns = pq.read_schema(folder / "sweep.parquet").names
    held = columns[: columns.index("folder")]
    if held != list(keys):
        raise OnRampError(f"{folder}: holds a sweep over {', '.join(held)}; give another --out")


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
    pq.write_table(rows, folder / "sweep.parquet")
    with style.styled():
        figure = draw(done)
    style.save(figure, folder / "sweep")
    return [folder / name for name in ("sweep.csv", "sweep.parquet", "sweep.png", "sweep.svg")]


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
    shown = [m for m in SHOWN if any(m.of(r.summary) is not None for _, r in done)] or [SHOWN[0]]
    groups = list(dict.fromkeys(m.group for m in shown))
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
            for metric in (m for m in shown if m.group == group):
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
