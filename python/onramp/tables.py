"""The tables of a result folder: their columns and how they are streamed to Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def _field(name: str, kind: pa.DataType, unit: str, meaning: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"unit": unit, "meaning": meaning})


U32, U64, F64 = pa.uint32(), pa.uint64(), pa.float64()
I32, I64 = pa.int32(), pa.int64()

LAST_ACK = "until the sender has the last ACK; on Linux, until the receiver has the last byte"

FLOWS = pa.schema(
    [
        _field("id", U64, "1", "number of the flow, in the order of arrival"),
        _field("traffic", U32, "1", "index of its source in the scenario's traffic list"),
        _field("request", I64, "1", "request it belongs to; null for none", nullable=True),
        _field("src", U32, "1", "sending host"),
        _field("dst", U32, "1", "receiving host"),
        _field("bytes", U64, "B", "payload"),
        _field("start_ps", U64, "ps", "arrival, from the start of the run"),
        _field("fct_ps", U64, "ps", f"{LAST_ACK}; null: not finished", nullable=True),
        _field("receiver_fct_ps", U64, "ps", "until the receiver has the last byte", nullable=True),
        _field("ideal_ps", U64, "ps", "FCT on an empty network"),
        _field("retransmitted", U32, "packets", "packets sent again"),
        _field("timeouts", U32, "1", "retransmission timeouts"),
        _field("paused_ps", U64, "ps", "held by On-Ramp"),
    ]
)

REQUESTS = pa.schema(
    [
        _field("id", U64, "1", "number of the request, in the order of arrival"),
        _field("traffic", U32, "1", "index of its source in the scenario's traffic list"),
        _field("requester", U32, "1", "host that asked and receives"),
        _field("flows", U32, "1", "flows that answer it"),
        _field("bytes", U64, "B", "payload of all answers"),
        _field("start_ps", U64, "ps", "arrival, from the start of the run"),
        _field("rct_ps", U64, "ps", f"of its last flow, {LAST_ACK}"),
        _field("receiver_rct_ps", U64, "ps", "until the requester has the last byte"),
    ]
)

EXCHANGES = pa.schema(
    [
        _field("traffic", U32, "1", "index of its section in the scenario's traffic list"),
        _field("session", U32, "1", "number of the connection in the section"),
        _field("number", U64, "1", "number in the session, in the order of asking"),
        _field("client", U32, "1", "host that asked"),
        _field("server", U32, "1", "host that answered"),
        _field("bytes", U64, "B", "of the response, or of the block read or written"),
        _field("write", pa.uint8(), "1", "1: a block was written"),
        _field("start_ps", U64, "ps", "when it was asked, from the start of the run"),
        _field("latency_ps", U64, "ps", "until the client has all of the answer"),
    ]
)

SERIES = pa.schema(
    [
        _field("time_ps", U64, "ps", "when, from the start of the run"),
        _field(
            "name", pa.string(), "1", 'what: "queue s0->h1", "utilization s0->h1", "rate flow 3 h3->h1", …'
        ),
        _field("value", F64, "by name: queue B, utilization share, rate bit/s, owd ns", "how much"),
    ]
)

CLOCK = pa.schema(
    [
        _field("time_ps", U64, "ps", "when, from the start of the run"),
        _field("host", U32, "1", "whose clock"),
        _field("error_ns", F64, "ns", "how far it is ahead of the mean of all hosts, corrected"),
        _field("uncertainty_ns", F64, "ns", "standard deviation of the error, as the host knows it"),
    ]
)

NEXT_OWD = pa.schema(
    [
        _field("time_ps", U64, "ps", "when the packet left, from the start of the run"),
        _field("src", U32, "1", "sending host"),
        _field("dst", U32, "1", "receiving host"),
        _field("owd_ns", I32, "ns", "measured one-way delay of the packet acknowledged last before it left"),
        _field("rtt_ns", U64, "ns", "round-trip time of that packet"),
        _field("next_owd_ns", U64, "ns", "true one-way delay of the packet itself"),
    ]
)

Columns = Mapping[str, bytes]


def _column(columns: Columns, field: pa.Field) -> np.ndarray:
    kind = np.dtype(field.type.to_pandas_dtype()).newbyteorder("<")
    return np.frombuffer(columns[field.name], dtype=kind)


def flows(columns: Columns, *, finished: bool = True) -> pa.Table:
    """Flows as a table; of unfinished ones the times are null."""
    arrays = []
    for field in FLOWS:
        values = _column(columns, field)
        absent = None
        if field.name == "request":
            absent = values < 0
        elif field.name in ("fct_ps", "receiver_fct_ps"):
            absent = np.full(len(values), not finished)
        arrays.append(pa.array(values, field.type, mask=absent))
    return pa.table(arrays, schema=FLOWS)


def rows(columns: Columns, schema: pa.Schema) -> pa.Table:
    """Columns without nulls as a table of `schema`."""
    return pa.table([pa.array(_column(columns, f), f.type) for f in schema], schema=schema)


def exchanges(folder: Path, columns: list[str] | None = None) -> pa.Table:
    """The exchanges of a result folder; none, where it has no such table."""
    path = folder / "exchanges.parquet"
    if path.exists():
        return pq.read_table(path, columns=columns)
    none = EXCHANGES.empty_table()
    return none.select(columns) if columns else none


def series(columns: Columns, names: list[str]) -> pa.Table:
    """Samples as a table; `names` is what the engine's name column counts in."""
    time = np.frombuffer(columns["time_ps"], dtype="<u8")
    index = np.frombuffer(columns["name"], dtype="<u4")
    value = np.frombuffer(columns["value"], dtype="<f8")
    return pa.table(
        [pa.array(time), pa.array(names, pa.string()).take(pa.array(index)), value], schema=SERIES
    )


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
