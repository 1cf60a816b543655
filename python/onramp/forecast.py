"""Gains of On-Ramp for recorded traffic: the same flows with and without, for some thresholds."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from onramp import recording
from onramp.cache import Cache, Workers
from onramp.comparison import Comparison, Row
from onramp.engine import Watch
from onramp.errors import OnRampError, ScenarioError, of_os
from onramp.metrics import Metric, metrics
from onramp.recording import NONE, Flows
from onramp.result import Result
from onramp.scenario import OVERRIDES, Scenario, load
from onramp.summary import SIZES, Floats, statistics

#: Answers of a request begin within this time of each other.
GAP_NS = 20_000
#: A replay is as the recording where their mean times are within this factor.
FAITHFUL = 1.15


@dataclass(frozen=True)
class Plan:
    """Runs of a forecast.

    Attributes
    ----------
    without : Scenario
        The recorded flows without On-Ramp.
    with_ : mapping
        With it, by threshold.
    """

    flows: Flows
    without: Scenario
    with_: Mapping[str, Scenario]

    @property
    def runs(self) -> dict[str, Scenario]:
        """All of them, by label."""
        return {"without On-Ramp": self.without, **{f"T = {t}": s for t, s in self.with_.items()}}


def plan(
    files: Sequence[Path],
    network: Path,
    folder: Path,
    thresholds: Sequence[str] = (),
    *,
    hosts: Path | None = None,
    gap_ns: int = GAP_NS,
) -> Plan:
    """Read recordings and write their flows into `folder`, as a trace.

    Parameters
    ----------
    network : path
        A scenario, whose traffic and duration do not count.
    thresholds : sequence of str
        Default: that of `network`.
    hosts : path, optional
        Lines `address,host`. Default: addresses in their order are the network's hosts in theirs.

    Raises
    ------
    OnRampError, ScenarioError
        One line per mistake.
    """
    # With traffic of its own, so that it may have none.
    given = {
        "traffic": [{"kind": "background", "workload": "WebSearch", "load": 0.1}],
        "duration": "1ms",
        "warmup": "0ms",
    }
    names = load(network, given).loaded.hosts
    named = _named(hosts) if hosts else {}
    flows = recording.combine([recording.read(file) for file in files], names, named, gap_ns)
    trace = folder / "flows.csv"
    _write(trace, flows)
    chosen = {
        "traffic": [{"kind": "trace", "file": str(trace.resolve())}],
        "duration": f"{flows.span_ns}ns",
        "warmup": "0ns",
        "name": network.stem,
    }
    without = load(network, {**chosen, "onramp.enabled": False}, "sim")
    on = {"onramp.enabled": True}
    first = load(network, {**chosen, **on}, "sim")
    asked = list(thresholds) or [str(first.document["onramp"]["threshold"])]
    try:
        with_ = {t: load(network, {**chosen, **on, "onramp.threshold": t}, "sim") for t in asked}
    except ScenarioError as e:
        raise ScenarioError(str(e).replace(f"{OVERRIDES}onramp.threshold", "--threshold")) from None
    return Plan(flows, without, with_)


def _named(path: Path) -> Mapping[str, str]:
    try:
        rows = [line.split(",") for line in path.read_text(encoding="utf-8").split()]
    except OSError as e:
        raise OnRampError(of_os(path, e)) from e
    for n, row in enumerate(rows, 1):
        if len(row) != 2:
            raise OnRampError(f"{path}:{n}: write address,host, such as 10.0.0.1,h0")
    return dict(rows)


def _write(path: Path, flows: Flows) -> None:
    request = ["" if number == NONE else number for number in flows.request]
    rows = zip(flows.source, flows.destination, flows.bytes, flows.start_ns, request, strict=True)
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(["src", "dst", "bytes", "start_ns", "request"])
            lines.writerows(rows)
    except OSError as e:
        raise OnRampError(of_os(path, e)) from e


@dataclass(frozen=True)
class Line:
    """A metric as it was recorded, without On-Ramp, and with it by threshold."""

    metric: Metric
    recorded: float | None
    without: float | None
    with_: Mapping[str, Row]


class Forecast:
    """Outcome of a plan.

    Attributes
    ----------
    comparisons : mapping
        Without and with On-Ramp, by threshold.
    """

    def __init__(self, folder: Path, flows: Flows, comparisons: Mapping[str, Comparison]) -> None:
        self.folder, self.flows, self.comparisons = folder, flows, comparisons

    @property
    def without(self) -> Result:
        """The run without On-Ramp."""
        return next(iter(self.comparisons.values())).without[0]

    @cached_property
    def recorded(self) -> Mapping[tuple[str, str], float]:
        """Statistics of the recorded times in µs, by sample and name, as a `Metric` has them."""
        by_sample = {sample: statistics(times) for sample, times in _recorded(self.flows).items()}
        return {(s, name): v for s, found in by_sample.items() for name, v in found.items() if v is not None}

    @property
    def faithfulness(self) -> Mapping[str, float]:
        """How many times as long as recorded the replay's mean times are, by sample."""
        found = {}
        for metric in metrics(self.without.summary):
            there = self.recorded.get((metric.sample, metric.statistic))
            here = metric.of(self.without.summary)
            if metric.statistic == "mean" and there and here:
                found[metric.sample] = here / there
        return found

    @property
    def unfaithful(self) -> Mapping[str, float]:
        """Those of `faithfulness` that are more than `FAITHFUL` apart."""
        return {s: f for s, f in self.faithfulness.items() if not 1 / FAITHFUL < f < FAITHFUL}

    @property
    def rows(self) -> list[Line]:
        """The metrics of the runs."""
        by_threshold = {t: {row.metric: row for row in c.rows} for t, c in self.comparisons.items()}
        return [
            Line(
                row.metric,
                self.recorded.get((row.metric.sample, row.metric.statistic)),
                row.without,
                {t: rows[row.metric] for t, rows in by_threshold.items() if row.metric in rows},
            )
            for row in next(iter(self.comparisons.values())).rows
        ]

    @property
    def notes(self) -> list[str]:
        """Lines that a reader must know."""
        flows, requests = self.flows, self.flows.requests
        answers = np.sum(flows.request != NONE) / max(requests, 1)
        lines = [
            f"Recorded: {len(flows):,} flows in {flows.span_ns / 1e9:.3g} s; {requests:,} requests"
            + (f" of {answers:.3g} answers on average." if requests else ".")
        ]
        named = {metric.sample: metric.group for metric in metrics(self.without.summary) if metric.sample}
        said = ", ".join(f"{named[s]} {f:.3g}" for s, f in self.faithfulness.items())
        lines.append(f"Replay over recording, mean times: {said or 'nothing in common'}.")
        if far := self.unfaithful:
            lines.append(
                f"More than {FAITHFUL:.2f} apart ({', '.join(named[s] for s in far)}): network, transport or "
                "buffers are not those of the recorded hosts, and what is forecast for them says little."
            )
        lines.append("Flows begin when they did: answers that come sooner ask for nothing sooner.")
        return [*lines, *self.flows.missing]

    def to_json(self) -> dict[str, object]:
        """Content of forecast.json."""
        return {
            "flows": len(self.flows),
            "requests": self.flows.requests,
            "span_ns": self.flows.span_ns,
            "replay_over_recording": dict(self.faithfulness),
            "thresholds": list(self.comparisons),
            "rows": [
                {
                    **dataclasses.asdict(line.metric),
                    "recorded": line.recorded,
                    "without": line.without,
                    "with": {
                        t: {"value": row.with_, "ratio": _finite(row.ratio), "interval": row.interval}
                        for t, row in line.with_.items()
                    },
                }
                for line in self.rows
            ],
            "notes": self.notes,
        }


def _finite(ratio: float | None) -> float | None:
    return ratio if ratio is not None and math.isfinite(ratio) else None


def _recorded(flows: Flows) -> Mapping[str, Floats]:
    """Times in µs by sample: of flows without requests by their size, and of requests."""
    done, alone = flows.fct_ns != NONE, flows.request == NONE
    fct_us = flows.fct_ns / 1e3
    found = {
        size: fct_us[done & alone & (flows.bytes > above) & (flows.bytes <= up_to)]
        for size, (above, up_to) in SIZES.items()
    }
    numbers, which = np.unique(flows.request[~alone], return_inverse=True)
    starts, ends = np.full(len(numbers), np.inf), np.full(len(numbers), -np.inf)
    np.minimum.at(starts, which, flows.start_ns[~alone])
    # A request of which an answer's end was not seen has none.
    np.maximum.at(ends, which, np.where(done, flows.start_ns + flows.fct_ns, np.inf)[~alone])
    rct_us = (ends - starts) / 1e3
    return found | {"incast": rct_us[np.isfinite(rct_us)]}


def execute(made: Plan, folder: Path, *, workers: Workers, watch: Watch) -> Forecast:
    """Run what is missing into `folder`, which exists, and write forecast.json."""
    names = {s.digest: label.replace(" = ", "-").replace(" ", "-") for label, s in made.runs.items()}
    cache = Cache(folder, names)
    cache.run(made.runs, workers=workers, watch=watch)
    without = cache.get(made.without)
    found = {}
    for threshold, scenario in made.with_.items():
        with_ = cache.get(scenario)
        if without and with_:
            found[threshold] = Comparison(folder / f"T-{threshold}", {"without": [without], "with": [with_]})
    if not found:
        raise KeyboardInterrupt
    forecast = Forecast(folder, made.flows, found)
    text = json.dumps(forecast.to_json(), indent=2, allow_nan=False, ensure_ascii=False)
    (folder / "forecast.json").write_text(text + "\n", encoding="utf-8")
    return forecast
