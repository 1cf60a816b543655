"""The tables of a result folder: their columns and how they are streamed to Parquet."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from onramp import _sim
from onramp.folders import PARTS, replacing

#: Columns of numbers that tables have as names: column there, by column here.
_NAMED = {"series": "name", "from": "from", "to": "to"}


def _field(column: Mapping[str, Any]) -> pa.Field:
    metadata = {"unit": column["unit"], "meaning": column["meaning"]}
    if named := _NAMED.get(column["name"]):
        return pa.field(named, pa.string(), nullable=False, metadata=metadata)
    kind = pa.from_numpy_dtype(np.dtype(column["kind"]))
    return pa.field(column["name"], kind, nullable=column["nullable"], metadata=metadata)


#: Each table's columns, as the engines describe them.
DESCRIBED: Mapping[str, list[dict[str, Any]]] = json.loads(_sim.schemas())
SCHEMAS: Mapping[str, pa.Schema] = {
    name: pa.schema([_field(column) for column in columns]) for name, columns in DESCRIBED.items()
}

Columns = Mapping[str, bytes]


def width(name: str) -> int:
    """Bytes of a row of a table in memory, where its columns have numbers."""
    return sum(np.dtype(column["kind"]).itemsize for column in DESCRIBED[name])


def _array(values: np.ndarray, column: Mapping[str, Any], finished: bool) -> pa.Array:
    absent = None
    if column["nullable"]:
        # Of signed numbers the negative ones are absent, of others all that are not known before the end.
        absent = values < 0 if values.dtype.kind == "i" else np.full(len(values), not finished)
    return pa.array(values, mask=absent)


def rows(name: str, columns: Columns, *, finished: bool = True, names: Sequence[str] = ()) -> pa.Table:
    """Columns of bytes as a table.

    Parameters
    ----------
    name : str
        The table's.
    finished : bool
        False where the rows are not complete, so that some values are null.
    names : sequence of str
        Names of the time series, or of the nodes.
    """
    arrays = []
    for column in DESCRIBED[name]:
        values = np.frombuffer(columns[column["name"]], column["kind"])
        if column["name"] in _NAMED:
            arrays.append(pa.array(names, pa.string()).take(pa.array(values)))
        else:
            arrays.append(_array(values, column, finished))
    return pa.table(arrays, schema=SCHEMAS[name])


def read_columns(path: Path, name: str) -> dict[str, bytes]:
    """The columns of a file that the cluster wrote: one after the other."""
    content = memoryview(path.read_bytes())
    widths = [np.dtype(column["kind"]).itemsize for column in DESCRIBED[name]]
    count, found, at = len(content) // sum(widths), {}, 0
    for column, width in zip(DESCRIBED[name], widths, strict=True):
        found[column["name"]] = bytes(content[at : at + count * width])
        at += count * width
    return found


def read(
    folder: Path, name: str, columns: list[str] | None = None, filters: pc.Expression | None = None
) -> pa.Table:
    """A table of a result folder; empty, where it has none. Of a run under way, its parts."""
    path, parts = folder / f"{name}.parquet", folder / PARTS
    # Before the end the file has no footer.
    files = sorted(parts.glob(f"{name}-*.parquet")) if parts.is_dir() else [path] if path.exists() else []
    if files:
        return pa.concat_tables([pq.read_table(file, columns=columns, filters=filters) for file in files])
    none = SCHEMAS[name].empty_table()
    return none.select(columns) if columns else none


class Writer:
    """Streams a table to a Parquet file.

    Row groups have a fixed number of rows, so that the file does not depend on how fast the run was.
    """

    ROWS = 1 << 16

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = pq.ParquetWriter(path, schema, compression="zstd")
        self._waiting = schema.empty_table()

    def add(self, table: pa.Table) -> None:
        """Append rows."""
        self._waiting = pa.concat_tables([self._waiting, table])
        while len(self._waiting) >= self.ROWS:
            self._file.write_table(self._waiting.slice(0, self.ROWS).combine_chunks(), self.ROWS)
            self._waiting = self._waiting.slice(self.ROWS)

    def close(self) -> None:
        """Write what is left; the file is readable afterwards."""
        if len(self._waiting):
            self._file.write_table(self._waiting.combine_chunks(), self.ROWS)
        self._file.close()


class Parts:
    """Rows so far of a run under way, in files that are complete: `parts/flows-000001.parquet`, …

    They are beside the tables, which have no footer before the end, and vanish then.
    """

    #: Wall time between two of them.
    SECONDS = 10.0
    #: With so many rows of all tables one comes earlier, so that few wait in memory.
    ROWS = 1 << 18
    #: The engine's part of the summary at the last one.
    STATE = "state.json"

    def __init__(self, folder: Path) -> None:
        self._folder = folder / PARTS
        self._waiting: dict[str, list[pa.Table]] = {}
        self._number = 0
        self._written = time.monotonic()

    def add(self, name: str, table: pa.Table) -> None:
        """Append rows of a table."""
        self._waiting.setdefault(name, []).append(table)

    @property
    def are_due(self) -> bool:
        """True if rows have waited for long, or are many."""
        rows = sum(len(table) for waiting in self._waiting.values() for table in waiting)
        return rows >= self.ROWS or time.monotonic() - self._written >= self.SECONDS

    def write(self, whole: Mapping[str, pa.Table], state: Mapping[str, Any]) -> None:
        """Make the rows so far readable, `whole` tables in place of those of the last time."""
        self._folder.mkdir(exist_ok=True)
        self._number += 1
        for name, waiting in self._waiting.items():
            self._write(f"{name}-{self._number:06}", pa.concat_tables(waiting))
        for name, table in whole.items():
            self._write(f"{name}-so-far", table)
        with replacing(self._folder / self.STATE) as path:
            path.write_text(json.dumps(state, allow_nan=False))
        self._waiting.clear()
        self._written = time.monotonic()

    def _write(self, name: str, table: pa.Table) -> None:
        with replacing(self._folder / f"{name}.parquet") as path:
            pq.write_table(table, path, compression="zstd")

    def remove(self) -> None:
        """Leave nothing."""
        shutil.rmtree(self._folder, ignore_errors=True)


def has_parts(folder: Path) -> bool:
    """True for the folder of a run under way, or of one that was killed, which has rows."""
    return (folder / PARTS / Parts.STATE).is_file()
