"""The numbers that tables show, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from onramp import groups
from onramp.summary import PERCENTILES, SIZES, Floats, Summary, statistic, times

#: Quantiles of Student's t for 1, 2, … 30 degrees of freedom, and of the normal distribution.
_T: Mapping[float, tuple[float, ...]] = {
    0.95: (
        *(6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761),
        *(1.753, 1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701),
        *(1.699, 1.697),
    ),
    0.975: (
        *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145),
        *(2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048),
        *(2.045, 2.042),
    ),
}


def student(quantile: float, freedom: int) -> float:
    """95% or 97.5% quantile of Student's t; beyond 30 degrees of freedom to 0.001 (Cornish and Fisher)."""
    table = _T[quantile]
    if freedom <= len(table):
        return table[freedom - 1]
    z = NormalDist().inv_cdf(quantile)
    return z + (z**3 + z) / (4 * freedom)


@dataclass(frozen=True)
class Metric:
    """One number of a summary.

    Attributes
    ----------
    sample : str
        The completion times it is a statistic of: a size class, or a group by its key; empty for a counter.
    statistic : str
        "mean", "p95", …; of a counter its name, of some groups also "per_s" and "gbps".
    """

    group: str
    label: str
    unit: str
    sample: str
    statistic: str

    @property
    def heading(self) -> str:
        """With its unit: "mean (µs)"."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def of(self, summary: Summary) -> float | None:
        """The number; None if nothing completed."""
        if self.sample:
            value = summary.get(self.sample, {}).get(self.statistic)
            value = times(summary, self.sample).get(self.statistic, value)
        else:
            value = summary["network"]
            for key in self.statistic.split("."):
                value = (value or {}).get(key)
        return None if value is None else float(value)


def _times(group: str, sample: str, statistics: Sequence[str]) -> list[Metric]:
    return [Metric(group, name, "µs", sample, name) for name in statistics]


#: Names of size classes.
CLASSES: Mapping[str, str] = {
    "small": "FCT small (≤ 10 KB)",
    "medium": "FCT medium (≤ 1 MB)",
    "large": "FCT large (> 1 MB)",
    "all": "FCT all",
}
#: Of flows without an end of their own.
LONG: tuple[Metric, ...] = (
    Metric("Long flows", "goodput of all", "Gb/s", "long", "gbps"),
    Metric("Long flows", "Jain's index", "", "long", "jain"),
)
#: Heading of a job whose hosts only send and receive: rates without rows of their group.
JOB = "Job"
#: Of switches' ports over time in the simulator, of packets at them on Linux.
DELAYS: Mapping[str, str] = {"sim": "queueing delay", "linux": "packets' queueing delay"}
NETWORK: tuple[Metric, ...] = (
    Metric("Network", "drops", "packets", "", "drops"),
    Metric("Network", "retransmissions", "packets", "", "retransmitted_packets"),
    Metric("Network", "timeouts", "", "", "timeouts"),
    Metric("Network", "PFC pauses", "", "", "pfc_pauses"),
    Metric("Network", "PFC paused", "µs", "", "pfc_paused_us"),
)


def metrics(summary: Summary) -> list[Metric]:
    """The numbers that a run's tables show: of its groups, of flows by size, of the network."""
    found: list[Metric] = []
    for group in groups.of_summary(summary):
        found += _times(group.label, group.key, ("mean", "p50", "p95", "p99"))
        name = group.label if completed(summary, group.key) else JOB
        found += [Metric(name, label, unit, group.key, key) for key, label, unit in group.rates]
    for size, label in CLASSES.items():
        found += _times(label, size, ("mean", "p95"))
    delay = DELAYS[summary.get("substrate", "sim")]
    queues = [Metric("Network", f"{delay}, {name}", "µs", "", f"queue_us.{name}") for name in ("mean", "p99")]
    return [*found, *(LONG if "long" in summary else ()), *queues, *NETWORK]


def completed(summary: Summary, sample: str) -> int:
    """How many requests or flows a sample of completion times has."""
    if sample in SIZES:
        return int(summary["background"][sample]["flows"])
    tables = [group.table for group in groups.of_summary(summary) if group.key == sample]
    return int(summary[sample][tables[0]]) if tables else 0


#: Meaning of the mark in tables at percentiles of few times.
MARK = " *"
ROUGH_NOTE = "* Few samples (p95: fewer than 20, p99: fewer than 100): the number is close to the maximum."


def is_rough(metric: Metric, summary: Summary) -> bool:
    """True for a percentile of fewer than 20 (p95) or 100 (p99) times: less than one is beyond it."""
    if metric.of(summary) is None or metric.statistic not in PERCENTILES:
        return False
    return completed(summary, metric.sample) < _one_beyond(metric.statistic)


def _one_beyond(percentile: str) -> int:
    """Of so many times at least one is beyond a percentile."""
    return math.ceil(100 / (100 - PERCENTILES[percentile]))


def over_seeds(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half of its 95% interval by Student's t (nan for a single value)."""
    n = len(values)
    if n < 2:
        return float(np.mean(values)), math.nan
    return float(np.mean(values)), student(0.975, n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n)


#: Resampling fewer pairs shows them again and again, and not how others would differ.
LEAST_PAIRS = 20


def pairs_needed(statistic: str) -> int:
    """How many pairs an interval by resampling needs: at least one beyond a percentile."""
    return max(LEAST_PAIRS, _one_beyond(statistic) if statistic in PERCENTILES else 0)


def bootstrap_ratio(
    first: Floats, second: Floats, statistics: Sequence[str]
) -> Mapping[str, tuple[float, float]]:
    """95% intervals of the ratio of statistics of paired times; only of those that have `pairs_needed`.

    Parameters
    ----------
    first, second : array, shape (n,)
        Times of the same requests or flows on both sides, resampled together.
    """
    n = len(first)
    statistics = [name for name in statistics if n >= pairs_needed(name)]
    if not statistics:
        return {}
    random = np.random.default_rng(0)
    ratios: dict[str, list[float]] = {name: [] for name in statistics}
    for _ in range(int(np.clip(2e7 // n, 40, 400))):
        index = random.integers(n, size=n)
        a, b = first[index], second[index]
        for name in statistics:
            above, below = statistic(a, name), statistic(b, name)
            ratios[name].append((above or math.nan) / (below or math.nan))
    return {name: (float(np.quantile(r, 0.025)), float(np.quantile(r, 0.975))) for name, r in ratios.items()}


def decimals(value: float) -> int:
    """How many show three significant digits of a finite value other than 0."""
    return max(0, 2 - math.floor(math.log10(abs(value))))


def number(value: float | None) -> str:
    """Three significant digits, all digits of what is larger; a dash for None."""
    if value is None:
        return "–"
    if value == 0 or not math.isfinite(value):
        return {0.0: "0", math.inf: "∞"}.get(value, "–")
    return f"{value:,.{decimals(value)}f}" if not float(value).is_integer() else f"{value:,.0f}"
