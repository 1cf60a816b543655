"""How results are summed up besides flows of the background: groups that workloads describe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onramp import _sim


@dataclass(frozen=True)
class Group:
    """The rows of a table that belong to one kind of traffic, and their time.

    Attributes
    ----------
    key : str
        Its key in summary.json: "incast", "rpc", …
    label : str
        Its time's name: "Incast RCT".
    table, time : str
        The table, "requests" or "exchanges", and the column with the time.
    statistics : str
        The key of the time's statistics in its part of the summary.
    rates : sequence of (key, label, unit)
        What tables show besides: "per_s", rows a second, "gbps", their bytes, or a column, by its mean.
    sections : sequence of int
        Traffic sections that it is of.
    paired : bool
        Requests arrive whatever happens, so that those of two runs of the same arrivals are pairs.
    """

    key: str
    label: str
    table: str
    time: str
    statistics: str
    rates: Sequence[Sequence[str]]
    sections: Sequence[int]
    paired: bool

    def rows(self, table: pa.Table) -> pa.Table:
        """Its rows of its table."""
        return table.filter(pc.is_in(table["traffic"], pa.array(self.sections, pa.uint32())))

    def ids(self, rows: pa.Table) -> np.ndarray:
        """A number for each of its rows, which a run of the same arrivals gives the same row."""
        if "id" in rows.column_names:
            return np.asarray(rows["id"])
        session = (
            rows["session"] if "session" in rows.column_names else pa.nulls(len(rows), "u4").fill_null(0)
        )
        traffic, session, number = (
            np.asarray(column).astype("u8") for column in (rows["traffic"], session, rows["number"])
        )
        return np.asarray(traffic << 54 | session << 40 | number)

    def to_json(self) -> dict[str, Any]:
        """Content of summary.json."""
        return asdict(self)


def of_scenario(resolved: str) -> tuple[list[Group], list[int]]:
    """The groups of a resolved scenario, and the sections whose flows end when the scenario says."""
    found = json.loads(_sim.groups(resolved))
    return [Group(**group) for group in found["groups"]], found["endless"]


def of_summary(summary: Mapping[str, Any]) -> list[Group]:
    """The groups of a run; none in a summary of an earlier version."""
    return [Group(**group) for group in summary.get("groups", ())]
