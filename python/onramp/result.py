"""Results of a run, read from its folder."""

from __future__ import annotations

import json
import tempfile
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onramp import tables
from onramp.errors import OnRampError
from onramp.folders import PARTS, begun, is_free
from onramp.groups import Group
from onramp.scenario import Scenario, quantity
from onramp.summary import Floats, Summary, summarize


class Result:
    """Results of a run.

    Parameters
    ----------
    folder : path
        A result folder.
    partial : bool
        It may also be that of a run under way, or of one that was killed. Tables then have the rows so far:
        flows and requests that were complete up to some seconds ago, in the order of the final tables. The
        summary is of these.

    Raises
    ------
    OnRampError
        If it is none.
    """

    def __init__(self, folder: str | Path, *, partial: bool = False) -> None:
        self.folder = Path(folder)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        #: The run has not ended: the tables have the rows so far.
        self.is_partial = False
        #: A run is writing it.
        self.is_under_way = False
        if (self.folder / "summary.json").is_file():
            return
        if partial and (under_way := begun(self.folder, tables.has_parts)):
            self.is_under_way = not is_free(self.folder)
            self.folder, self.is_partial = under_way, True
            return
        why = "it has no summary.json"
        if partial:
            why += f", and no run has rows for it yet, which it has after {tables.Parts.SECONDS:g} s"
        raise OnRampError(f"{self.folder}: is not a result folder ({why})")

    @classmethod
    def in_temporary(cls, folder: tempfile.TemporaryDirectory[str]) -> Result:
        """Results that vanish with the object."""
        result = cls(folder.name)
        result._temporary = folder
        return result

    def __repr__(self) -> str:
        return f"Result({str(self.folder)!r})"

    @cached_property
    def summary(self) -> Summary:
        """summary.json: the run in numbers; times in microseconds, sizes in bytes."""
        if self.is_partial:
            state = json.loads((self.folder / PARTS / tables.Parts.STATE).read_text())
            return summarize(self.scenario, self.folder, **state)
        summary: Summary = json.loads((self.folder / "summary.json").read_text())
        return summary

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario that was run, with every value written out."""
        text = (self.folder / "scenario.toml").read_text(encoding="utf-8")
        # The cluster has no rows before the end.
        return Scenario(text, self.folder, "sim" if self.is_partial else self.summary["substrate"])

    @property
    def flows(self) -> pa.Table:
        """One row per flow; units in the schema's metadata, `fct_ps` null for unfinished flows."""
        return tables.read(self.folder, "flows")

    @property
    def requests(self) -> pa.Table:
        """One row per completed incast request."""
        return tables.read(self.folder, "requests")

    @property
    def exchanges(self) -> pa.Table:
        """One row per request and answer between programs: an RPC, a block read or written, …"""
        return tables.read(self.folder, "exchanges")

    @property
    def operations(self) -> pa.Table:
        """One row per operation of a rank of a distributed program."""
        return tables.read(self.folder, "operations")

    @property
    def collectives(self) -> pa.Table:
        """One row per collective, with its bandwidths as nccl-tests define them."""
        return tables.read(self.folder, "collectives")

    @property
    def goodput(self) -> pa.Table:
        """One row per flow without an end of its own (`kind = "long"`): what it moved, in how long."""
        return tables.read(self.folder, "goodput")

    @property
    def links(self) -> pa.Table:
        """One row per link and direction, from time 0 to the end of the run: bytes, losses, marks, queue."""
        return tables.read(self.folder, "links")

    @property
    def messages(self) -> pa.Table:
        """One row per message between programs, such as a collective's, if the scenario records them."""
        return tables.read(self.folder, "messages")

    @property
    def pauses(self) -> pa.Table:
        """One row per PFC pause of a port's class, if the scenario records them."""
        return tables.read(self.folder, "pauses")

    def rows(self, group: Group) -> pa.Table:
        """The rows that one of the scenario's groups sums up."""
        return group.rows(tables.read(self.folder, group.table))

    @property
    def series(self) -> pa.Table:
        """Samples over time, one row per sample: `time_ps`, `name`, `value`."""
        return tables.read(self.folder, "series")

    @property
    def clock(self) -> pa.Table:
        """Errors of the hosts' clocks over time, if they were synchronised over the network."""
        return tables.read(self.folder, "clock")

    @property
    def next_owd(self) -> pa.Table:
        """Packets beside those acknowledged before they left, if the scenario records them."""
        return tables.read(self.folder, "next_owd")

    @cached_property
    def series_names(self) -> list[str]:
        """Names of what was recorded over time."""
        return sorted(pc.unique(tables.read(self.folder, "series", ["name"])["name"]).to_pylist())

    def samples(self, name: str, *, measured: bool = False) -> tuple[Floats, Floats]:
        """Times in seconds and values of one series, both shape (n,).

        A run goes on until its flows are complete; `measured` leaves out what is later than its `duration`.
        """
        wanted = pc.field("name") == name
        if measured:
            wanted &= pc.field("time_ps") <= round(1e12 * quantity(self.scenario.document["duration"]))
        table = tables.read(self.folder, "series", ["time_ps", "value"], wanted)
        return np.asarray(table["time_ps"]) / 1e12, np.asarray(table["value"])
