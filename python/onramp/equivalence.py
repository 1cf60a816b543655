"""Equivalence tests: are the simulator's completion times Linux's, within stated margins?

Two one-sided tests at 5% (Schuirmann 1987): two numbers are equivalent where the 90% interval of their
ratio lies within the margin, different where it lies beyond, and else the runs are too few to tell. Pairs
are runs of the same arrivals.

What waits for a timer is told apart. An RTO, and a loss probe with a single packet out, wait for Linux's
least RTO of 200 ms; a mean over both kinds is a count of timers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from onramp import groups
from onramp.agreement import SIDES, Agreement
from onramp.metrics import student
from onramp.result import Result
from onramp.summary import SIZES, Floats, background, in_class, microseconds, statistic

#: Share of what waits for a timer, then statistics of what does not: by how much the ratio may be off.
MARGINS: Mapping[str, float] = {"waits": 0.20, "mean": 0.05, "p95": 0.10, "p99": 0.15}
#: Linux's least RTO (`tcp_rto_min_us`) [µs].
RTO_MIN = 200_000.0
#: A statistic of fewer times says little [times of one run].
LEAST = {"mean": 5, "p95": 20, "p99": 100}


@dataclass(frozen=True)
class Test:
    """One number on both substrates, over all pairs of runs that have it.

    Attributes
    ----------
    transport, side, sample : str
        Congestion control; "without" or "with"; "incast", "small", …
    statistic : str
        A key of `MARGINS`.
    pairs : int
        Pairs of runs.
    sim, linux : float
        Means over the pairs: of the share, or of the statistic [µs].
    ratio : float, optional
        Geometric mean of the pairs' ratios; for shares, of all pairs together. None where one is always 0.
    interval : tuple, optional
        Its 90% interval.
    """

    transport: str
    side: str
    sample: str
    statistic: str
    pairs: int
    sim: float
    linux: float
    ratio: float | None
    interval: tuple[float, float] | None

    @property
    def verdict(self) -> str:
        """One of "equivalent", "different" and "inconclusive"."""
        if self.sim == self.linux == 0:
            return "equivalent"
        if self.interval is None:
            return "inconclusive"
        low, high = 1 - MARGINS[self.statistic], 1 + MARGINS[self.statistic]
        if low <= self.interval[0] and self.interval[1] <= high:
            return "equivalent"
        return "different" if self.interval[1] < low or self.interval[0] > high else "inconclusive"


#: Completion times of the same arrivals in the simulator and on Linux [µs].
Pair = tuple[Floats, Floats]


def tests(found: Sequence[Agreement], first: str = "sim", second: str = "linux") -> list[Test]:
    """All tests, by transport, side and sample; `first` is held to `second`."""
    pairs: dict[tuple[str, str, str], list[Pair]] = {}
    for agreement in found:
        transport = str(agreement.scenario.document["transport"]["kind"])
        for side, runs in agreement.runs.items():
            for a, b in zip(runs[first], runs[second], strict=True):
                one, other = _samples(a), _samples(b)
                for sample in one:
                    pairs.setdefault((transport, side, sample), []).append((one[sample], other[sample]))
    order = {side: i for i, side in enumerate(SIDES)}
    keys = sorted(pairs, key=lambda key: (key[0], order[key[1]]))
    return [test for key in keys for test in compare(*key, pairs[key])]


def _samples(result: Result) -> dict[str, Floats]:
    """Completion times by sample."""
    found = {g.key: microseconds(result.rows(g)[g.time]) for g in groups.of_summary(result.summary)}
    flows = background(result.flows, result.scenario.endless)
    for size in SIZES:
        if size != "all":
            found[size] = microseconds(in_class(flows, size)["fct_ps"])
    return found


def compare(transport: str, side: str, sample: str, pairs: Sequence[Pair]) -> Iterable[Test]:
    """Tests of one sample over pairs of runs."""
    waits = [[float((times >= RTO_MIN).sum()) for times in pair] for pair in pairs]
    sizes = [[float(len(times)) for times in pair] for pair in pairs]
    if any(min(size) > 0 for size in sizes):
        yield _shares(transport, side, sample, waits, sizes)
    for name, least in LEAST.items():
        values = []
        for pair in pairs:
            rest = [times[times < RTO_MIN] for times in pair]
            if min(len(times) for times in rest) >= least:
                values.append([statistic(times, name) or 0.0 for times in rest])
        if values:
            yield _ratios(transport, side, sample, name, values)


def _ratios(transport: str, side: str, sample: str, name: str, values: Sequence[Sequence[float]]) -> Test:
    logs = [math.log(a / b) for a, b in values]
    mean = float(np.mean(logs))
    interval = None
    if len(logs) > 1:
        half = student(0.95, len(logs) - 1) * float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
        interval = (math.exp(mean - half), math.exp(mean + half))
    sim, linux = (float(np.mean(side)) for side in zip(*values, strict=True))
    return Test(transport, side, sample, name, len(values), sim, linux, math.exp(mean), interval)


def _shares(
    transport: str,
    side: str,
    sample: str,
    waits: Sequence[Sequence[float]],
    sizes: Sequence[Sequence[float]],
) -> Test:
    """The interval is the jackknife's over the pairs: what waits is rare, and comes in bursts."""
    counts, totals = np.array(waits), np.array(sizes)
    shares = counts.sum(axis=0) / totals.sum(axis=0)
    ratio, interval, n = None, None, len(counts)
    if shares.min() > 0:
        ratio = float(shares[0] / shares[1])
        left_out = (counts.sum(axis=0) - counts) / (totals.sum(axis=0) - totals).clip(1)
        if n > 1 and left_out.min() > 0:
            logs = np.log(left_out[:, 0] / left_out[:, 1])
            error = math.sqrt((n - 1) / n * float(((logs - logs.mean()) ** 2).sum()))
            half = student(0.95, n - 1) * error
            interval = (ratio * math.exp(-half), ratio * math.exp(half))
    return Test(transport, side, sample, "waits", n, float(shares[0]), float(shares[1]), ratio, interval)


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
