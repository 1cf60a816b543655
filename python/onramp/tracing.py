"""The packets of single flows, on one substrate or on both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from onramp import capture, engine, spacetime
from onramp.capture import Packets
from onramp.engine import NOBODY, Watch
from onramp.errors import OnRampError, RunError, ScenarioError
from onramp.result import Result
from onramp.scenario import SUBSTRATES, Overrides, Scenario, Source, load

ENDS = ("sender", "receiver")


@dataclass(frozen=True)
class Capture:
    """A flow's packets at one of its hosts.

    Attributes
    ----------
    flow : int
        Number of the flow, as in the flows table.
    on : {"sim", "linux"}
        Where it ran.
    end : {"sender", "receiver"}
        Which of its hosts,
    host : str
        and that one's name.
    path : Path
        A pcap file.
    left_out : int
        Packets for which it had no room.
    """

    flow: int
    on: str
    end: str
    host: str
    path: Path
    left_out: int

    @cached_property
    def packets(self) -> Packets:
        """Packets in the file."""
        return capture.read(self.path)

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """Counts; times in microseconds from time 0 of the scenario."""
        packets = self.packets
        moved = packets.data | packets.acks
        times = packets.time_ns[moved] / 1e3
        return {
            "protocol": "RoCEv2" if packets.rdma.any() else "TCP",
            "packets": len(packets),
            "data_packets": int(packets.data.sum()),
            "acks": int(packets.acks.sum()),
            "naks": int(packets.nak.sum()),
            "or_acks": int(packets.or_acks.sum()),
            "bytes": int(packets.payload[packets.data].sum()),
            "acked": int(packets.acked.max(initial=0)),
            "retransmitted": int(packets.retransmitted.sum()),
            "marked": int(packets.marked.sum()),
            "echoes": int(packets.echo.sum()),
            "most_in_flight": int(max(packets.in_flight()[1], default=0)),
            "first_us": float(times[0]) if len(times) else None,
            "last_us": float(np.max(times)) if len(times) else None,
        }


class Trace:
    """Captures of flows, read from their folder.

    Parameters
    ----------
    folder : path
        What `onramp trace` wrote.

    Raises
    ------
    OnRampError
        If it is no such folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        file = self.folder / "trace.json"
        if not file.is_file():
            raise OnRampError(f"{self.folder}: holds no trace (it has no trace.json)")
        self._found: dict[str, Any] = json.loads(file.read_text())
        self.temporary: object = None

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return str(self._found["scenario"])

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self._found["seed"])

    @property
    def complete(self) -> bool:
        """True if all runs came to their end."""
        return bool(self._found["complete"])

    @property
    def flows(self) -> list[int]:
        """Numbers of the flows that were asked for."""
        return list(self._found["flows"])

    @property
    def substrates(self) -> list[str]:
        """Where they ran."""
        return list(self._found["runs"])

    @cached_property
    def captures(self) -> list[Capture]:
        """By flow, substrate and end."""
        return [
            Capture(**{**one, "path": self.folder / one["path"]})
            for one in ({k: e[k] for k in Capture.__annotations__} for e in self._found["captures"])
        ]

    def capture(self, flow: int, on: str, end: str = "sender") -> Capture | None:
        """One of them, if there is one."""
        found = (c for c in self.captures if (c.flow, c.on, c.end) == (flow, on, end))
        return next(found, None)

    def result(self, on: str) -> Result:
        """All that the run on a substrate yielded."""
        return Result(self.folder / on)

    def fct_us(self, flow: int, on: str) -> float | None:
        """Completion time of a flow, as the flows table has it; None if it did not finish."""
        fct: float | None = self._found["runs"][on]["fct_us"].get(str(flow))
        return fct

    @property
    def pages(self) -> list[Path]:
        """Pages of space and time, one for each substrate, if they were asked for."""
        return [self.folder / name for name in self._found["pages"]]

    def to_json(self) -> dict[str, Any]:
        """Content of trace.json."""
        return self._found


def prepare(
    source: Source,
    overrides: Overrides,
    flows: Sequence[int],
    on: str,
    *,
    request: int | None = None,
) -> tuple[dict[str, Scenario], list[int]]:
    """A scenario as it is loaded for each substrate, "both" being all, and its flows, which can be traced.

    Parameters
    ----------
    request : int, optional
        Number of a request, as in the requests table: its flows are traced, too.

    Raises
    ------
    ScenarioError
        One line per mistake in the scenario.
    OnRampError
        If a flow is not there, or they are too many.
    """
    loaded, chosen = {}, list(dict.fromkeys(flows))
    for substrate in SUBSTRATES if on == "both" else (on,):
        scenario = loaded[substrate] = load(source, overrides, substrate, keep=True)
        try:
            if request is not None:
                chosen = list(dict.fromkeys([*flows, *scenario.loaded.flows_of(request)]))
            scenario.loaded.check_traced(chosen)
        except ScenarioError as e:
            raise OnRampError(f"{scenario.name}: {e}") from e
    return loaded, chosen


def execute(
    scenarios: Mapping[str, Scenario],
    flows: Sequence[int],
    folder: Path,
    *,
    threads: int = 1,
    watch: Watch = NOBODY,
    html: bool = False,
) -> None:
    """Run a scenario on one or both substrates; captures, a result folder for each, and trace.json.

    Parameters
    ----------
    scenarios : mapping
        What `prepare` has returned.
    flows : sequence of int
        Numbers of flows, each once, as `prepare` has returned them.
    html : bool
        Also write a page of space and time for each substrate.

    Raises
    ------
    RunError
        If a flow does not begin before its run ends.
    """
    one = next(iter(scenarios.values()))
    runs: dict[str, Any] = {}
    captures: list[dict[str, Any]] = []
    pages: list[str] = []
    complete = True
    for on, scenario in scenarios.items():
        if watch.stop():
            complete = False
            break
        place = folder / on
        place.mkdir()
        label = SUBSTRATES[on]
        follows = html and on == "sim"
        summary = engine.execute(
            scenario, place, threads=threads, watch=watch, label=label, traced=flows, ways=follows
        )
        watch.report(label, None)
        complete &= summary["complete"]
        result = Result(place)
        runs[on] = {"complete": summary["complete"], "fct_us": _completion(result, flows)}
        found = _captures(result, on, flows, folder)
        captures += found
        ways = _ways(place) if follows else {}
        missing = set(flows) - {c["flow"] for c in found} - {flow for flow, _, _ in ways.get("flows", [])}
        if missing and summary["complete"]:
            limit = f"time_limit {scenario.document['time_limit']}"
            raise RunError(f"{scenario.name}: flow {min(missing)} does not begin before the end ({limit})")
        if html:
            files: dict[int, dict[str, Path]] = {}
            for end in found:
                files.setdefault(end["flow"], {})[end["end"]] = folder / end["path"]
            pages.append(f"space-time-{on}.html")
            numbered = {c["flow"] for c in found if c["protocol"] == "RoCEv2"}
            spacetime.write(folder / pages[-1], result, on, ways, files, numbered)
    captures.sort(key=lambda c: (flows.index(c["flow"]), list(SUBSTRATES).index(c["on"])))
    found_all = {
        "scenario": one.name,
        "seed": one.seed,
        "complete": complete,
        "flows": list(flows),
        "runs": runs,
        "captures": captures,
        "pages": pages,
    }
    (folder / "trace.json").write_text(json.dumps(found_all, indent=2) + "\n")


def _completion(result: Result, flows: Sequence[int]) -> dict[str, float | None]:
    table = result.flows.filter(pc.is_in(result.flows["id"], pc.cast(list(flows), "uint64")))
    times = zip(table["id"].to_pylist(), table["fct_ps"].to_pylist(), strict=True)
    return {str(flow): None if fct is None else fct / 1e6 for flow, fct in times}


def _ways(place: Path) -> dict[str, Any]:
    """Ways of packets that a run in the simulator has written, which go with that."""
    path = place / engine.WAYS
    ways: dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    return ways


def _captures(result: Result, on: str, flows: Sequence[int], folder: Path) -> list[dict[str, Any]]:
    """Move what a run has captured to `folder`, and describe it."""
    table = result.flows.select(["id", "src", "dst"]).to_pydict()
    ends = {flow: (src, dst) for flow, src, dst in zip(*table.values(), strict=True)}
    index = result.folder / engine.CAPTURES
    left_out = json.loads(index.read_text())
    index.unlink()
    found = []
    for flow in flows:
        for i, end in enumerate(ENDS):
            path = result.folder / f"flow-{flow}-{on}-{end}.pcap"
            if not path.is_file():
                continue
            host = result.scenario.host_name(ends[flow][i])
            path = path.rename(folder / path.name)
            one = Capture(flow, on, end, host, path, left_out[path.name])
            described = {"flow": flow, "on": on, "end": end, "host": host, "path": path.name}
            found.append({**described, "left_out": one.left_out, **one.numbers})
    return found
