"""Equivalence tests: are the simulator's completion times Linux's, within stated margins?

Two one-sided tests at 5% (Schuirmann 1987): two numbers are equivalent where the 90% interval of their
ratio lies within the margin, different where it lies beyond, and else the runs are too few to tell. Pairs
are runs of the same arrivals; a cell is a scenario's pairs, over seeds. Percentiles are of all times of a
cell, since those of some hundred times move by more than the margins.

What waits for a timer is told apart: a mean over both kinds is a count of timers, and a percentile between
them is one or the other. A loss probe waits for 2 ms and two round trips; an RTO, and a loss probe with a
single packet out, for 200 ms; a delayed acknowledgement for 40 ms. Stacks do not tell who has waited, so the
time does, on both alike: 2 ms more than twice what the empty network needs. Twice is for what shares it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onramp import groups
from onramp.agreement import SIDES, Agreement
from onramp.metrics import student
from onramp.result import Result
from onramp.summary import SIZES, Floats, background, in_class, microseconds, statistic

#: Share of what waits for a timer, then statistics of what does not: by how much the ratio may be off.
MARGINS: Mapping[str, float] = {"waits": 0.20, "mean": 0.05, "p95": 0.10, "p99": 0.15}
#: Linux's least RTO (`tcp_rto_min_us`), its least delay of an ACK (`TCP_DELACK_MIN`), and the least that a
#: sender's timer takes (`TCP_TIMEOUT_MIN`, two jiffies of 1 ms) [µs].
RTO_MIN, DELAYED_ACK, LEAST_TIMER = 200_000.0, 40_000.0, 2_000.0
#: A statistic of fewer times says little [times of a cell].
LEAST = {"mean": 5, "p95": 20, "p99": 100}


@dataclass(frozen=True)
class Test:
    """One number on both substrates, over all cells that have it.

    Attributes
    ----------
    transport, side, sample : str
        Congestion control; "without" or "with"; "incast", "small", …
    statistic : str
        A key of `MARGINS`.
    cells, pairs : int
        Scenarios, and pairs of runs in all.
    sim, linux : float
        The share of all pairs together; or the mean over the cells of the statistic [µs].
    ratio : float, optional
        Of the shares; or the geometric mean of the cells' ratios. None where one is always 0.
    interval : tuple, optional
        Its 90% interval.
    """

    transport: str
    side: str
    sample: str
    statistic: str
    cells: int
    pairs: int
    sim: float
    linux: float
    ratio: float | None
    interval: tuple[float, float] | None

    @property
    def verdict(self) -> str:
        """One of "equivalent", "different" and "inconclusive"."""
        if self.sim == self.linux == 0 and self.pairs > self.cells:
            return "equivalent"
        if self.interval is None:
            return "inconclusive"
        low, high = 1 - MARGINS[self.statistic], 1 + MARGINS[self.statistic]
        if low <= self.interval[0] and self.interval[1] <= high:
            return "equivalent"
        return "different" if self.interval[1] < low or self.interval[0] > high else "inconclusive"


@dataclass(frozen=True)
class Times:
    """Completion times of a run [µs]: all, and those of what waited for no timer."""

    all: Floats
    timely: Floats

    @classmethod
    def of(cls, times: Floats, limits: Floats | float) -> Times:
        """With the time from which on each has waited for a timer."""
        return cls(times, times[times < limits])


#: Times of the same arrivals in the simulator and on Linux.
Pair = tuple[Times, Times]
Cell = Sequence[Pair]
#: Their times that waited for no timer.
Timely = Sequence[tuple[Floats, Floats]]


def tests(found: Sequence[Agreement], first: str = "sim", second: str = "linux") -> list[Test]:
    """All tests, by transport, side and sample; `first` is held to `second`."""
    cells: dict[tuple[str, str, str], list[Cell]] = {}
    for agreement in found:
        transport = str(agreement.scenario.document["transport"]["kind"])
        for side, runs in agreement.runs.items():
            ones, others = ([_samples(run) for run in runs[on]] for on in (first, second))
            for sample in ones[0]:
                cell = [(one[sample], other[sample]) for one, other in zip(ones, others, strict=True)]
                cells.setdefault((transport, side, sample), []).append(cell)
    order = {side: i for i, side in enumerate(SIDES)}
    keys = sorted(cells, key=lambda key: (key[0], order[key[1]]))
    return [test for key in keys for test in compare(*key, cells[key])]


def _samples(result: Result) -> dict[str, Times]:
    """Completion times by sample."""
    flows = result.flows
    ideal = _ideal(flows)
    found = {}
    for group in groups.of_summary(result.summary):
        rows = result.rows(group)
        rows = rows.filter(pc.is_valid(rows[group.time]))
        # Exchanges on open connections and iterations of jobs have no flows that tell what they need.
        whose = group.ids(rows) if group.table == "requests" else None
        limits = DELAYED_ACK if whose is None else limit(np.array([ideal.get(id_, 0.0) for id_ in whose]))
        found[group.key] = Times.of(microseconds(rows[group.time]), limits)
    of_background = background(flows, result.scenario.endless)
    for size in SIZES:
        if size != "all":
            rows = in_class(of_background, size)
            rows = rows.filter(pc.is_valid(rows["fct_ps"]))
            found[size] = Times.of(microseconds(rows["fct_ps"]), limit(microseconds(rows["ideal_ps"])))
    return found


def limit(ideal: Floats) -> Floats:
    """From which time on something has waited for a timer that takes `ideal` on an empty network [µs]."""
    return 2 * ideal + LEAST_TIMER


def _ideal(flows: pa.Table) -> dict[int, float]:
    """Time of each request on an empty network [µs]: its flows come over one link, one by one."""
    of_requests = flows.filter(pc.is_valid(flows["request"]))
    sums = of_requests.group_by("request").aggregate([("ideal_ps", "sum")])
    return dict(zip(sums["request"].to_pylist(), microseconds(sums["ideal_ps_sum"]).tolist(), strict=True))


def compare(transport: str, side: str, sample: str, cells: Sequence[Cell]) -> Iterable[Test]:
    """Tests of one sample over its cells."""
    rest = [[(a.timely, b.timely) for a, b in cell] for cell in cells]
    counts, timely = [_counts([(a.all, b.all) for a, b in cell]) for cell in cells], [*map(_counts, rest)]
    if any(cell.min(axis=1).any() for cell in counts):
        yield _shares(transport, side, sample, counts, timely)
    for name, least in LEAST.items():
        enough = [cell for cell, of in zip(rest, timely, strict=True) if of.sum(axis=0).min() >= least]
        if enough:
            yield _ratios(transport, side, sample, name, enough)


def _counts(cell: Timely) -> Floats:
    """Numbers of times, a row for each pair."""
    return np.array([[len(times) for times in pair] for pair in cell], dtype=float)


def _shares(
    transport: str, side: str, sample: str, counts: Sequence[Floats], timely: Sequence[Floats]
) -> Test:
    """Of all cells together: in most of them few times wait."""
    every, rest = (np.sum([cell.sum(axis=0) for cell in of], axis=0) for of in (counts, timely))
    shares = 1 - rest / every
    ratio, interval = None, None
    if shares.min() > 0:
        ratio = float(shares[0] / shares[1])
        # Where all that waits is in one pair, there is no ratio without it, and no interval.
        with np.errstate(divide="ignore", invalid="ignore"):
            left_out = [1 - (rest - of) / (every - all_) for all_, of in zip(counts, timely, strict=True)]
            interval = _interval(ratio, [np.log(share[:, 0] / share[:, 1]) for share in left_out])
    pairs, (one, other) = sum(len(cell) for cell in counts), map(float, shares)
    return Test(transport, side, sample, "waits", len(counts), pairs, one, other, ratio, interval)


def _ratios(transport: str, side: str, sample: str, name: str, cells: Sequence[Timely]) -> Test:
    """Of each cell, over its runs together; the ratio is the geometric mean over cells."""
    values = np.array([_pooled(cell, name) for cell in cells])
    ratio = math.exp(float(np.log(values[:, 0] / values[:, 1]).mean()))
    left_out = []
    for cell in cells:
        without = np.array([_pooled([*cell[:i], *cell[i + 1 :]], name) for i in range(len(cell))])
        # One cell moves the mean by its share.
        left_out.append(np.log(without[:, 0] / without[:, 1]) / len(cells))
    pairs, (one, other) = sum(len(cell) for cell in cells), map(float, values.mean(axis=0))
    return Test(
        transport, side, sample, name, len(cells), pairs, one, other, ratio, _interval(ratio, left_out)
    )


def _pooled(cell: Timely, name: str) -> list[float]:
    """A statistic of all times of a cell, on both substrates."""
    times = [np.concatenate(side) for side in zip(*cell, strict=True)] if cell else []
    return [statistic(of, name) or math.nan for of in times] or [math.nan, math.nan]


def _interval(ratio: float, left_out: Sequence[Floats]) -> tuple[float, float] | None:
    """The jackknife's over the pairs of each cell: logarithms of the ratio where one of them is left out.

    Degrees of freedom are Satterthwaite's. None where a cell has one pair only.
    """
    pairs = np.array([len(logs) for logs in left_out])
    if pairs.min() < 2:
        return None
    if not all(np.isfinite(logs).all() for logs in left_out):
        return None
    squares = np.array([((logs - logs.mean()) ** 2).sum() for logs in left_out])
    variances = (pairs - 1) / pairs * squares
    total = float(variances.sum())
    freedom = total**2 / (variances**2 / (pairs - 1)).sum() if total > 0 else 1.0
    half = student(0.95, max(1, int(freedom))) * math.sqrt(total)
    return ratio * math.exp(-half), ratio * math.exp(half)


def passed(found: Iterable[Test]) -> tuple[int, int, int]:
    """How many are equivalent, different, inconclusive."""
    verdicts = [test.verdict for test in found]
    equivalent, different = verdicts.count("equivalent"), verdicts.count("different")
    return equivalent, different, len(verdicts) - equivalent - different


def table(found: Sequence[Test], different: str, inconclusive: str) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a line for each sample; ratios that are not equivalent go into a template of theirs."""
    templates = {"equivalent": "{}", "different": different, "inconclusive": inconclusive}
    head = ["", "", "", "wait", "Linux", *(f"{name} ±{margin:.0%}" for name, margin in MARGINS.items())]
    lines = []
    last: tuple[str, ...] = ()
    for key, of in groupby(found, lambda test: (test.transport, test.side, test.sample)):
        by = {test.statistic: test for test in of}
        wait = by.get("waits")
        shares = [f"{100 * share:.2g}%" for share in (wait.sim, wait.linux)] if wait else ["", ""]
        cells = [templates[by[s].verdict].format(_text(by[s])) if s in by else "" for s in MARGINS]
        shown = ["" if last[: i + 1] == key[: i + 1] else name for i, name in enumerate(key)]
        lines.append([*shown, *shares, *cells])
        last = key
    return head, lines


def _text(test: Test) -> str:
    if test.ratio is None:
        return "–"
    if test.interval is None:
        return f"{test.ratio:.2f}"
    return f"{test.ratio:.2f} ({test.interval[0]:.2f}–{test.interval[1]:.2f})"


def lines(found: Sequence[Test]) -> list[str]:
    """How many passed, in all and by transport."""
    said = []
    for name, of in (("all", found), *((k, list(g)) for k, g in groupby(found, lambda test: test.transport))):
        equivalent, different, unclear = passed(of)
        said.append(
            f"{name}: {equivalent} of {len(of)} equivalent, {different} different, {unclear} inconclusive"
        )
    return said


def write(folder: Path, found: Iterable[Test], floor: Iterable[Test]) -> None:
    """Write equivalence.json: all tests, and those of Linux against itself."""
    both = {"simulator": found, "linux again": floor}
    document = {
        name: [{**asdict(test), "margin": MARGINS[test.statistic], "verdict": test.verdict} for test in of]
        for name, of in both.items()
    }
    text = json.dumps(document, indent=2, allow_nan=False)
    (folder / "equivalence.json").write_text(text + "\n", encoding="utf-8")
