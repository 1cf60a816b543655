"""The same arrivals in the simulator and on Linux: how far their answers are apart."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from onramp.engine import Status
from onramp.errors import OnRampError
from onramp.jobs import Job, run_all
from onramp.metrics import Metric, over_seeds
from onramp.result import Result
from onramp.scenario import Scenario
from onramp.summary import SIZES

SUBSTRATES = {"sim": "simulator", "linux": "Linux"}
SIDES = {"without": "without On-Ramp", "with": "with On-Ramp"}
IMPROVEMENT = "improvement by On-Ramp"

#: How far a statistic may be off, and On-Ramp's improvement of any.
GOALS: Mapping[str, float] = {"mean": 0.10, "p50": 0.15, "p95": 0.15, "p99": 0.15}
IMPROVEMENT_GOAL = 0.10

TIMES = (
    *(Metric("Incast RCT", name, "µs", "incast", name) for name in GOALS),
    *(Metric(f"FCT {size}", name, "µs", size, name) for size in SIZES if size != "all" for name in GOALS),
)
COUNTERS = (
    Metric("Network", "drops", "packets", "", "drops"),
    Metric("Network", "retransmissions", "packets", "", "retransmitted_packets"),
    Metric("Network", "timeouts", "", "", "timeouts"),
)


@dataclass(frozen=True)
class Row:
    """A number on both substrates, means over the seeds.

    Attributes
    ----------
    side : str
        Without or with On-Ramp, or its improvement: without over with.
    ratio : float, optional
        Simulator over Linux: the geometric mean of the seeds' ratios.
    interval : tuple, optional
        Its 95% interval by Student's t on the logarithm; of several seeds only.
    within : bool, optional
        Whether the ratio is within the goal; None where there is none.
    """

    side: str
    metric: Metric
    sim: float
    linux: float
    ratio: float | None
    interval: tuple[float, float] | None
    within: bool | None


class Agreement:
    """Runs of one scenario on both substrates, by side and substrate a list over seeds."""

    def __init__(self, folder: Path, runs: Mapping[str, Mapping[str, list[Result]]]) -> None:
        self.folder, self.runs = folder, runs

    @classmethod
    def read(cls, folder: Path) -> Agreement:
        """One that was written before."""
        found = json.loads((folder / "agreement.json").read_text())
        runs = {
            side: {
                on: [Result(_place(folder, seed, on, side)) for seed in found["seeds"]] for on in SUBSTRATES
            }
            for side in found["sides"]
        }
        return cls(folder, runs)

    @property
    def scenario(self) -> Scenario:
        """The scenario, as Linux has it."""
        return next(iter(self.runs.values()))["linux"][0].scenario

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs."""
        return [r.summary["seed"] for r in next(iter(self.runs.values()))["linux"]]

    @property
    def complete(self) -> bool:
        """Whether no run was stopped before its end."""
        return all(r.summary["complete"] for side in self.runs.values() for on in side.values() for r in on)

    @cached_property
    def rows(self) -> list[Row]:
        """All numbers: by side, then On-Ramp's improvement."""
        rows = []
        for side, runs in self.runs.items():
            for metric in (*TIMES, *COUNTERS):
                sim, linux = ([metric.of(r.summary) for r in runs[on]] for on in SUBSTRATES)
                rows += _row(SIDES[side], metric, sim, linux, GOALS.get(metric.statistic))
        if len(self.runs) == len(SIDES):
            for metric in TIMES:
                sim, linux = (
                    [_over(metric.of(a.summary), metric.of(b.summary)) for a, b in self._pairs(on)]
                    for on in SUBSTRATES
                )
                rows += _row(IMPROVEMENT, dataclasses.replace(metric, unit="×"), sim, linux, IMPROVEMENT_GOAL)
        return rows

    def _pairs(self, on: str) -> list[tuple[Result, Result]]:
        return list(zip(self.runs["without"][on], self.runs["with"][on], strict=True))

    @property
    def judged(self) -> tuple[int, int]:
        """Numbers within their goals, and all that have one."""
        judged = [row.within for row in self.rows if row.within is not None]
        return sum(judged), len(judged)

    def to_json(self) -> dict[str, object]:
        """What agreement.json holds."""
        return {
            "scenario": self.scenario.document["name"],
            "seeds": self.seeds,
            "sides": list(self.runs),
            "complete": self.complete,
            "rows": [dataclasses.asdict(row) for row in self.rows],
        }


def _over(a: float | None, b: float | None) -> float | None:
    return a / b if a and b else None


def _row(
    side: str, metric: Metric, sim: Sequence[float | None], linux: Sequence[float | None], goal: float | None
) -> list[Row]:
    pairs = [(a, b) for a, b in zip(sim, linux, strict=True) if a is not None and b is not None]
    if not pairs:
        return []
    ratio, interval, within = None, None, None
    if all(a > 0 and b > 0 for a, b in pairs):
        mean, half = over_seeds([math.log(a / b) for a, b in pairs])
        ratio = math.exp(mean)
        if len(pairs) > 1:
            interval = (math.exp(mean - half), math.exp(mean + half))
        if goal is not None:
            within = abs(ratio - 1) <= goal
    mean_sim, mean_linux = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
    return [Row(side, metric, mean_sim, mean_linux, ratio, interval, within)]


def _place(folder: Path, seed: int, on: str, side: str) -> Path:
    return folder / f"seed-{seed}" / f"{on}-{side}"


def execute(
    scenarios: Mapping[str, Scenario],
    folder: Path,
    seeds: Sequence[int],
    *,
    workers: int,
    stop: Callable[[], bool],
    report: Callable[[str, Status | None], None],
) -> Agreement:
    """Run a scenario on both substrates for every seed into `folder`, and write agreement.json.

    Parameters
    ----------
    scenarios : mapping
        By substrate. Where On-Ramp is on, it runs without, too.

    Raises
    ------
    KeyboardInterrupt
        If it was stopped before all had run.
    """
    sides = list(SIDES) if scenarios["linux"].onramp else ["without"]
    jobs = []
    for seed in seeds:
        for side in sides:
            for on, name in SUBSTRATES.items():
                path = _place(folder, seed, on, side)
                path.mkdir(parents=True)
                variant = scenarios[on].replace({"seed": seed, "onramp.enabled": side == "with"})
                jobs.append(Job(f"{name} {SIDES[side]}, seed {seed}", variant, path))
    run_all(jobs, workers, stop=stop, report=lambda job, status: report(job.label, status))
    if not all((job.folder / "summary.json").exists() for job in jobs):
        raise KeyboardInterrupt
    runs = {
        side: {on: [Result(_place(folder, seed, on, side)) for seed in seeds] for on in SUBSTRATES}
        for side in sides
    }
    _same_arrivals(runs)
    found = Agreement(folder, runs)
    text = json.dumps(found.to_json(), indent=2, allow_nan=False, ensure_ascii=False)
    (folder / "agreement.json").write_text(text + "\n", encoding="utf-8")
    return found


def _same_arrivals(runs: Mapping[str, Mapping[str, list[Result]]]) -> None:
    """Refuse runs that are no comparison: what arrives does not depend on where it runs."""
    columns = ["src", "dst", "bytes", "start_ps"]
    for side in runs.values():
        for sim, linux in zip(side["sim"], side["linux"], strict=True):
            if sim.scenario.traffic_of_kind("long"):
                continue
            # Linux plays at its clock's nanoseconds what the simulator plays exactly.
            tables = [r.flows.sort_by("id").select(columns).to_pydict() for r in (sim, linux)]
            for table in tables:
                table["start_ps"] = [t // 1000 for t in table["start_ps"]]
            if tables[0] != tables[1]:
                raise OnRampError(f"{sim.folder}: other arrivals than on Linux; please report this")
