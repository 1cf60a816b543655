"""Distributed programs in numbers: how long their iterations take, and how much of it nobody computes."""

from __future__ import annotations

from dataclasses import dataclass

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


def _covered(start: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    """Length of the union of intervals."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    before = np.concatenate([start[:1], reach[:-1]])
    return int(np.maximum(0, end - np.maximum(start, before)).clip(0).sum()) if len(start) else 0


def iterations(operations: pa.Table) -> list[Iteration]:
    """The repetitions of all programs, in order.

    Parameters
    ----------
    operations : pyarrow.Table
        `Result.operations`.
    """
    found = []
    for traffic in sorted(pc.unique(operations["traffic"]).to_pylist()):
        of_section = operations.filter(pc.equal(operations["traffic"], traffic))
        columns = {name: of_section[name].to_numpy().astype(np.int64) for name in _COLUMNS}
        ends = columns["start_ps"] + columns["duration_ps"]
        for number in np.unique(columns["iteration"]):
            own = columns["iteration"] == number
            start, end = columns["start_ps"][own], ends[own]
            rank, kind = columns["rank"][own], columns["kind"][own]
            ranks = np.unique(rank)
            span = int(end.max() - start.min())
            computed = 0
            busy = kind == COMPUTATION
            order = np.argsort(rank[busy], kind="stable")
            cuts = np.searchsorted(rank[busy][order], ranks)
            for part in np.split(order, cuts[1:]):
                computed += _covered(start[busy][part], end[busy][part])
            exposed = 1 - computed / (span * len(ranks)) if span else 0.0
            last = int(columns["host"][own][end.argmax()])
            found.append(Iteration(traffic, int(number), start.min() / 1e6, span / 1e6, exposed, last))
    return found


_COLUMNS = ("rank", "host", "iteration", "kind", "start_ps", "duration_ps")
