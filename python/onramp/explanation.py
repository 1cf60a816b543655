"""A scenario before its run: network, paths, offered traffic, and the time and memory that a run takes."""

from __future__ import annotations

import json
import math
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from onramp import _sim, tables
from onramp.engine import STEP_MS, Watch
from onramp.scenario import Overrides, Scenario, Source, load, quantity

#: Names and kinds of links in a sentence, at most.
SHOWN = 6
#: Acknowledgements for each data packet: of RDMA, and of TCP, whose receivers acknowledge every other one.
ACKNOWLEDGED = {False: 1.0, True: 0.5}
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True)
class Cost:
    """Time and memory of a run, judged by its beginning.

    Attributes
    ----------
    seconds : float
        Wall time of a run, including the part that was tried; NaN where nothing was sent in that.
    megabytes : float
        Largest memory of the process, Python included.
    progress : float
        Share of the run that was tried, from 0 to 1.
    threads : int
        Threads it ran on.
    packet_hops : int
        Packets times links so far, acknowledgements and headers of all kinds included.
    """

    seconds: float
    megabytes: float
    progress: float
    threads: int
    packet_hops: int


@dataclass(frozen=True)
class Explanation:
    """Facts of a scenario.

    Attributes
    ----------
    scenario : Scenario
        The checked scenario.
    facts : dict
        Network, paths, traffic by section, payload between hosts or switches ("rows", "matrix"), and links by
        offered load ("loads"). Times are in picoseconds, sizes in bytes, rates in bits per second.
    cost : Cost, optional
        None where nothing was tried.
    """

    scenario: Scenario
    facts: dict[str, Any]
    cost: Cost | None

    def __repr__(self) -> str:
        lines = (f"{name:10} {text}" for name, text in self.lines)
        return "\n".join([self.scenario.name, *lines])

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON takes it."""
        cost = asdict(self.cost) if self.cost else None
        if cost and math.isnan(cost["seconds"]):
            cost["seconds"] = None
        return {"scenario": self.scenario.name, **self.facts, "cost": cost}

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Subjects, and a sentence on each."""
        f = self.facts
        parts = [
            ("network", self._network()),
            (
                "paths",
                f"{_range(*f['hops'])} links; a packet of {f['packet']} B takes "
                f"{_between(*(_time(ps) for ps in f['owd_ps']))} one way if nothing else is under way",
            ),
            (
                "window",
                f"longest base RTT {_time(f['rtt_ps'])}, bandwidth-delay product {_si(f['bdp'], 'B')}",
            ),
        ]
        if f["buffer"]:
            drains = f["buffer"] * 8e12 / f["host_rate"]
            shared = f"{_si(f['buffer'], 'B')} shared by a switch's ports"
            parts.append(("buffers", f"{shared}; one host link drains them in {_time(drains)}"))
        elif "linux" in self.scenario.document:
            linux = self.scenario.document["linux"]
            own = linux.get("buffer") or f"{linux['buffer_packets']} packets"
            parts.append(("buffers", f"{own} for each switch port"))
        parts.append(("On-Ramp", self._onramp()))
        parts += [(f"traffic {n}", _section(s, f["span_ps"])) for n, s in enumerate(f["sections"])]
        if f["is_cut"]:
            parts.append(("", "there is more: only the first 20 million flows and messages were looked at"))
        parts += self._links()
        if self.cost:
            parts.append(("cost", self._cost(self.cost)))
        return parts

    def _network(self) -> str:
        (_, hosts), *tiers = self.facts["nodes"]
        switches = _few([f"{count} {name}" for name, count in tiers])
        nodes = f"{hosts} hosts; switches: {switches}"
        links = _few([f"{count} links of {_si(rate, 'b/s')}" for rate, count in self.facts["links"]])
        cells = self.facts["cells"]
        return f"{nodes}; {links}; {cells} {'cell' if cells == 1 else 'cells'}"

    def _onramp(self) -> str:
        threshold, longest = self.facts["threshold"], self.facts["owd_ps"][1]
        if threshold is None:
            return "off"
        if threshold == "auto":
            return "T follows each path's least delay"
        room = quantity(threshold) * 1e12 - longest
        if room <= 0:
            return f"T = {threshold} is below the longest path's delay: it holds without a queue"
        queue = _si(room * self.facts["host_rate"] / 8e12, "B")
        return f"T = {threshold} leaves the longest path {_time(room)} of queueing, {queue} at a host link"

    def _links(self) -> list[tuple[str, str]]:
        kinds: dict[str, list[float]] = {}
        for load_ in self.facts["loads"]:
            kinds.setdefault(load_["kind"], []).append(load_["load"])
        fullest = sorted(kinds.items(), key=lambda kind: -max(kind[1]))
        sentences = [
            f"{kind}: {_percent(sum(loads) / len(loads))} offered on average, {_percent(max(loads))} at most"
            for kind, loads in fullest[:SHOWN]
        ]
        if len(fullest) > SHOWN:
            sentences.append(f"and {len(fullest) - SHOWN} more kinds of links, with less")
        over = [f"{o['link']} {_percent(o['load'])}" for o in self.facts["loads"] if o["load"] > 1.005]
        if over:
            sentences.append(f"more than they can carry is offered to {_few(over)}")
        return [("" if n else "links", sentence) for n, sentence in enumerate(sentences)]

    def _cost(self, cost: Cost) -> str:
        if math.isnan(cost.seconds):
            return "nothing was sent while it was tried, which tells nothing; --trial tries for longer"
        threads = "1 thread" if cost.threads == 1 else f"{cost.threads} threads"
        took = f"{_time(cost.seconds * 1e12)} and {cost.megabytes:,.0f} MB on {threads}"
        if cost.progress >= 1:
            return f"{took}; {_si(cost.packet_hops, '')} packet-hops"
        # Rows of shorter ones would hardly be there before the end.
        meanwhile = "; onramp show has its rows meanwhile" if cost.seconds > 60 else ""
        return f"about {took}, judged by its first {_percent(cost.progress)}{meanwhile}"


def explain(
    source: Source,
    overrides: Overrides | None = None,
    *,
    trial: float = 2.0,
    threads: int = 1,
    watch: Watch | None = None,
) -> Explanation:
    """Tell what a scenario is, and what a run of it takes, before the run.

    Programs play in an ideal network, so that what they offer to links is the most they can. A run of `trial`
    seconds in the simulator tells how fast it goes; how far it has to go follows from the offered packets.

    Parameters
    ----------
    source : path or mapping
        As of `onramp.run`.
    overrides : mapping, optional
        Dotted keys to values.
    trial : float
        Seconds after it is set up; 0 for no cost.
    threads : int
        Of the run that is tried.
    watch : Watch, optional
        Stops the trial when asked.

    Raises
    ------
    ScenarioError, OnRampError
        As of `onramp.run`.
    """
    scenario = load(source, overrides, keep=True)
    facts = json.loads(scenario.loaded.explain())
    cost = _try(scenario, facts, trial, threads, watch or Watch()) if trial > 0 else None
    return Explanation(scenario, facts, cost)


def _try(scenario: Scenario, facts: dict[str, Any], trial: float, threads: int, watch: Watch) -> Cost:
    begin = time.monotonic()
    simulation = _sim.Simulation(scenario.loaded, threads)
    set_up = time.monotonic() - begin
    complete = False
    # The network fills at first: how fast the run goes on is told by the second half.
    steps = [(set_up, 0)]
    while not complete and steps[-1][0] - set_up < trial and not watch.stop():
        complete = simulation.advance(STEP_MS)
        steps.append((time.monotonic() - begin, simulation.packet_hops))
    (now, done), (half, half_done) = steps[-1], steps[len(steps) // 2]
    hops = facts["packet_hops"] * (1 + ACKNOWLEDGED["linux" in scenario.document])
    # Nobody knows how many packets endless flows send; a trace may compute only.
    unknown = not hops or any(section["endless"] for section in facts["sections"])
    progress = simulation.progress if unknown else done / hops
    progress = 1.0 if complete else min(progress, 1.0)
    judged = complete or (done > 0 and progress > 0)
    left = done / progress - done if judged else math.nan
    rows = sum(section["count"] for section in facts["sections"] if not section["is_program"])
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cost(
        seconds=now + left * (now - half) / max(done - half_done, 1),
        megabytes=megabytes + (1 - progress) * rows * tables.width("flows") / 1e6,
        progress=progress,
        threads=threads,
        packet_hops=done,
    )


def save_plot(explanation: Explanation, path: Path) -> None:
    """Draw traffic matrix and offered loads; `.png` or `.svg` by the file's name."""
    from onramp.plots import offered, style

    with style.styled():
        figure = offered.draw(explanation.facts)
    style.save_as(figure, path)


def _section(section: dict[str, Any], span_ps: int) -> str:
    count = section["endless"]
    endless = (
        f"{count} flows that send as fast as they may"
        if count != 1
        else "1 flow that sends as fast as it may"
    )
    if section["endless"] and not section["count"]:
        return f"{section['kind']}: {endless}"
    what = "messages" if section["is_program"] else "flows"
    within = f"{'at least ' if section['is_job'] else ''}{_time(span_ps)}"
    most = "at most " if section["is_program"] and not section["is_job"] else ""
    rate = _si(section["bytes"] * 8e12 / span_ps, "b/s")
    more = f"; {endless}" if section["endless"] else ""
    sent = f"{most}{section['count']:,} {what}, {_si(section['bytes'], 'B')}"
    return (
        f"{section['kind']}: {sent} in {within} ({rate}), "
        f"from {section['senders']} hosts to {section['receivers']}{more}"
    )


def _few(names: list[str]) -> str:
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join(names[:SHOWN] + more)


def _si(value: float, unit: str) -> str:
    scale, prefix = next((p for p in _PREFIXES if value >= p[0]), _PREFIXES[-1])
    return f"{value / scale:.3g} {prefix}{unit}".rstrip()


def _time(ps: float) -> str:
    seconds = ps / 1e12
    if seconds >= 100:
        return f"{seconds / 60:,.0f} min"
    scale, unit = next((t for t in _TIMES if seconds >= t[0]), _TIMES[-1])
    return f"{seconds / scale:.3g} {unit}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
