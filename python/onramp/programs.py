"""Distributed programs in numbers: how long their iterations take, and how much of it nobody computes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: Kinds of operations, by their code in tables.
KINDS = (
    "computation",
    "send",
    "receive",
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "broadcast",
    "reduce",
    "all-to-all",
)
COMPUTATION = 0
#: The first that is a collective.
COLLECTIVE = 3


@dataclass(frozen=True)
class Iteration:
    """One repetition of a program.

    Attributes
    ----------
    traffic, number : int
        The traffic section, and which repetition.
    start_us, duration_us : float
        From the first rank's start until the last one is complete.
    exposed : float
        Share of it in which a rank computes nothing, on average over ranks: exposed communication
        and waiting.
    last : int
        Host that was complete last.
    """

    traffic: int
    number: int
    start_us: float
    duration_us: float
    exposed: float
    last: int


@dataclass(frozen=True)
class Kind:
    """Operations of one kind and number of ranks, collectives also of one size, in all programs of a run.

    Attributes
    ----------
    operation : str
        One of `KINDS`, but for computations.
    ranks, bytes : int
        Ranks that take part; the whole buffer as in nccl-tests, of messages their mean payload.
    count : int
        Collectives, or messages that are sent or received.
    mean_us : float
        Mean time of a rank's part.
    busbw : float, optional
        Mean bus bandwidth [GB/s] of collectives of several ranks.
    exposed : float
        Share of the iterations in which a rank has one under way and computes nothing, on average over
        ranks. Kinds that are under way at the same time both count it.
    """

    operation: str
    ranks: int
    bytes: int
    count: int
    mean_us: float
    busbw: float | None
    exposed: float


@dataclass(frozen=True)
class Rank:
    """A rank in one iteration.

    Attributes
    ----------
    traffic, number, rank, host : int
        The traffic section, which repetition, and who it is.
    finished_us : float
        From the first rank's start until it is complete.
    computed_us, exposed_us : float
        Time in which it computes, and the rest until it is complete: exposed communication and waiting.
    """

    traffic: int
    number: int
    rank: int
    host: int
    finished_us: float
    computed_us: float
    exposed_us: float


class _Busy:
    """Union of half-open intervals, in order."""

    def __init__(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> None:
        order = np.argsort(start, kind="stable")
        start, reach = start[order], np.maximum.accumulate(end[order])
        first = np.append(True, start[1:] > reach[:-1])[: len(start)]
        self.start = start[first]
        self.end = reach[np.append(np.flatnonzero(first)[1:] - 1, len(reach) - 1)] if len(start) else start
        self._before = np.append(0, np.cumsum(self.end - self.start))

    def until(self, time: NDArray[np.int64]) -> NDArray[np.int64]:
        """Length of the intervals before each of some times."""
        at = np.searchsorted(self.start, time, side="right")
        if not len(self.start):
            return np.zeros_like(time)
        beyond = np.maximum(0, self.end[at - 1] - time) * (at > 0)
        return np.asarray(self._before[at] - beyond)

    def beside(self, other: _Busy) -> int:
        """Length of what `other` does not cover."""
        covered = other.until(self.end) - other.until(self.start)
        return int((self.end - self.start - covered).sum())


@dataclass
class _Repetition:
    """Operations of one repetition of a section."""

    traffic: int
    number: int
    columns: dict[str, NDArray[np.int64]]

    @cached_property
    def start(self) -> int:
        return int(self.columns["start_ps"].min())

    @cached_property
    def span(self) -> int:
        return int(self.columns["end_ps"].max()) - self.start

    @cached_property
    def whole(self) -> int:
        """Time of all its ranks together."""
        return self.span * len(np.unique(self.columns["rank"]))

    @cached_property
    def _ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # Ranks one behind the other in time; 64 bits hold 100,000 of them for 90 s.
        rank = np.unique(self.columns["rank"], return_inverse=True)[1] * (self.span + 1)
        start, end = (self.columns[name] - self.start + rank for name in ("start_ps", "end_ps"))
        return start, end

    def busy(self, chosen: NDArray[Any]) -> _Busy:
        """When each rank has one of the chosen operations under way; ranks follow each other in time."""
        start, end = self._ends
        return _Busy(start[chosen], end[chosen])

    @cached_property
    def computing(self) -> _Busy:
        """When each rank computes."""
        return self.busy(self.columns["kind"] == COMPUTATION)


def _repetitions(operations: pa.Table) -> list[_Repetition]:
    """The repetitions of all programs, in order."""
    found = []
    for traffic in sorted(pc.unique(operations["traffic"]).to_pylist()):
        of_section = operations.filter(pc.equal(operations["traffic"], traffic))
        columns = {name: of_section[name].to_numpy().astype(np.int64) for name in _COLUMNS}
        columns["end_ps"] = columns["start_ps"] + columns["duration_ps"]
        for number in np.unique(columns["iteration"]):
            own = columns["iteration"] == number
            part = {name: values[own] for name, values in columns.items()}
            found.append(_Repetition(traffic, int(number), part))
    return found


def ended(operations: pa.Table) -> pa.Table:
    """Operations of the repetitions that all ranks have behind them, of a run that has not ended."""
    kept = pa.array(np.zeros(len(operations), bool))
    last = operations.group_by(["traffic", "rank"]).aggregate([("iteration", "max")])
    for traffic in pc.unique(last["traffic"]):
        of = last.filter(pc.equal(last["traffic"], traffic))
        # A rank of which nothing is complete has no row.
        if pc.max(of["rank"]).as_py() == len(of) - 1:
            until = pc.less(operations["iteration"], pc.min(of["iteration_max"]))
            kept = pc.or_(kept, pc.and_(pc.equal(operations["traffic"], traffic), until))
    return operations.filter(kept)


def iterations(operations: pa.Table) -> list[Iteration]:
    """The repetitions of all programs, in order.

    Parameters
    ----------
    operations : pyarrow.Table
        `Result.operations`.
    """
    found = []
    for one in _repetitions(operations):
        computing, columns = one.computing, one.columns
        exposed = 1 - int((computing.end - computing.start).sum()) / one.whole if one.whole else 0.0
        last = int(columns["host"][columns["end_ps"].argmax()])
        found.append(Iteration(one.traffic, one.number, one.start / 1e6, one.span / 1e6, exposed, last))
    return found


def kinds(operations: pa.Table, collectives: pa.Table) -> list[Kind]:
    """Communication by operation, ranks and, of collectives, size, the most exposed first.

    Parameters
    ----------
    operations, collectives : pyarrow.Table
        `Result.operations` and `Result.collectives`.
    """
    names = ("kind", "ranks", "bytes")
    several = collectives.filter(pc.greater(collectives["ranks"], 1))
    means = several.group_by(list(names)).aggregate([("busbw", "mean")]).to_pylist()
    busbw = {tuple(row[name] for name in names): row["busbw_mean"] for row in means}
    took: dict[tuple[int, ...], list[int]] = {}
    whole = 0
    for one in _repetitions(operations):
        columns = one.columns
        whole += one.whole
        own = np.flatnonzero(columns["kind"] != COMPUTATION)
        kind, among, each = (columns[name][own] for name in names)
        sizes, place = np.unique(np.where(kind < COLLECTIVE, 0, each), return_inverse=True)
        # A file has fewer than 2^21 ranks and 2^27 operations.
        keys, which, counts = np.unique(
            kind << 48 | among << 27 | place, return_inverse=True, return_counts=True
        )
        parts = np.split(own[np.argsort(which, kind="stable")], np.cumsum(counts)[:-1])
        for at, part in zip(keys.tolist(), parts, strict=False):
            what = (at >> 48, at >> 27 & (1 << 21) - 1, int(sizes[at & (1 << 27) - 1]))
            sums = took.setdefault(what, [0, 0, 0, 0])
            sums[0] += len(part)
            sums[1] += int(columns["bytes"][part].sum())
            sums[2] += int(columns["duration_ps"][part].sum())
            sums[3] += one.busy(part).beside(one.computing)
    found = []
    for key, (parts_of, size, time, exposed) in took.items():
        count = parts_of // key[1] if key[0] >= COLLECTIVE else parts_of
        mean, share = time / parts_of / 1e6, exposed / whole if whole else 0.0
        found.append(Kind(KINDS[key[0]], key[1], size // parts_of, count, mean, busbw.get(key), share))
    return sorted(found, key=lambda kind: kind.exposed, reverse=True)


def by_rank(operations: pa.Table) -> list[Rank]:
    """Each rank's time in each repetition of all programs, in order.

    Parameters
    ----------
    operations : pyarrow.Table
        `Result.operations`.
    """
    found = []
    for one in _repetitions(operations):
        columns, computing = one.columns, one.computing
        ranks, first = np.unique(columns["rank"], return_index=True)
        edges = np.arange(len(ranks) + 1) * (one.span + 1)
        computed = np.diff(computing.until(edges))
        ends = np.zeros(len(ranks), np.int64)
        np.maximum.at(ends, np.searchsorted(ranks, columns["rank"]), columns["end_ps"] - one.start)
        for rank, host, end, busy in zip(ranks, columns["host"][first], ends, computed, strict=True):
            times = (end / 1e6, busy / 1e6, (end - busy) / 1e6)
            found.append(Rank(one.traffic, one.number, int(rank), int(host), *map(float, times)))
    return found


_COLUMNS = ("rank", "host", "iteration", "kind", "ranks", "bytes", "start_ps", "duration_ps")
