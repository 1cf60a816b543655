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
                    if (of := _over_seeds(metric, results)) is not None:
                        numbers = (f"{value:.6g}" for value in (of.mean, of.low, of.high))
                        about = (metric.group, metric.label, metric.unit)
                        rows.writerow([variant, ", ".join(key), *about, *numbers, len(results)])


def _over_seeds(metric: Metric, results: list[Result]) -> Estimate | None:
    """A number, if all seeds have it."""
    found = [value for result in results if (value := metric.of(result.summary)) is not None]
    return Estimate(tuple(found)) if len(found) == len(results) else None
