"""Every number of every case of a figure, as a table for whoever wants to plot or check it."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from onramp.metrics import Metric, metrics
from onramp.paper.verdict import Estimate
from onramp.result import Result

#: Columns: the mean over seeds and its 95% interval by Student's t.
COLUMNS = ("variant", "case", "of", "number", "unit", "mean", "low", "high", "seeds")


def write(path: Path, runs: Mapping[str, Mapping[tuple[str, ...], list[Result]]]) -> None:
    """Write a CSV file with a line for each variant of On-Ramp, case and number of its tables.

    A number that a seed does not have, such as the FCT of large flows where none was complete, is left out.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for variant, cases in runs.items():
            for key, results in cases.items():
                for metric in metrics(results[0].summary):
                    rows.writerows(_row(variant, key, metric, results))


def _row(variant: str, key: tuple[str, ...], metric: Metric, results: list[Result]) -> list[list[object]]:
    """The line of a number, if all seeds have it."""
    found = [value for result in results if (value := metric.of(result.summary)) is not None]
    if len(found) < len(results):
        return []
    of = Estimate(tuple(found))
    numbers = (f"{value:.6g}" for value in (of.mean, of.low, of.high))
    return [[variant, ", ".join(key), metric.group, metric.label, metric.unit, *numbers, len(found)]]
