"""Runs kept by content: only missing ones are computed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from onramp import remote
from onramp.engine import Watch
from onramp.errors import OnRampError, of_os
from onramp.jobs import Job, run_all
from onramp.result import Result
from onramp.scenario import Scenario
from onramp.summary import Summary

#: Who runs: so many processes here, or the workers of the Dask scheduler at an address.
Workers: TypeAlias = int | str


def results_of(scenario: Scenario, path: Path) -> Result | None:
    """Results of `scenario`, complete or not, if those are at `path`."""
    if not (path / "summary.json").is_file():
        return None
    result = Result(path)
    # Summaries of earlier versions do not say it, but their folders are named so.
    return result if result.summary.get("digest", path.name) == scenario.digest else None


class Cache:
    """A folder with one result folder per scenario.

    Parameters
    ----------
    names : mapping, optional
        Names of result folders by `Scenario.digest`. Default: that digest.
    keep_stopped : bool
        Results of runs that were stopped are there until they are run again; else they vanish.
    """

    def __init__(
        self, folder: Path, names: Mapping[str, str] | None = None, *, keep_stopped: bool = False
    ) -> None:
        self.folder, self.names, self.keep_stopped = folder, names or {}, keep_stopped
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise OnRampError(of_os(folder, e)) from e

    def get(self, scenario: Scenario) -> Result | None:
        """Results of a scenario, if it was run to its end before."""
        result = results_of(scenario, self.place(scenario))
        return result if result and result.summary["complete"] else None

    def place(self, scenario: Scenario) -> Path:
        """Where results of a scenario are, once it was run."""
        return self.folder / self.names.get(scenario.digest, scenario.digest)

    def missing(self, scenarios: Mapping[str, Scenario]) -> dict[str, Scenario]:
        """Scenarios that were not run yet, each once."""
        by_digest: dict[str, tuple[str, Scenario]] = {}
        for label, scenario in scenarios.items():
            if self.get(scenario) is None:
                by_digest.setdefault(scenario.digest, (label, scenario))
        return dict(by_digest.values())

    def clear(self) -> None:
        """Remove what killed runs have left, where no other process runs into this folder."""
        for left in self.folder.glob(".*"):
            shutil.rmtree(left)

    def run(self, scenarios: Mapping[str, Scenario], *, workers: Workers, watch: Watch) -> None:
        """Run what is missing; what was run before stays, also on an error."""
        self._clear_abandoned()
        jobs = [Job(label, s, self._stage(s)) for label, s in self.missing(scenarios).items()]

        def keep(job: Job, summary: Summary) -> None:
            if (summary["complete"] or self.keep_stopped) and self.get(job.scenario) is None:
                _replace(job.folder, self.place(job.scenario))

        try:
            for job in jobs:
                job.folder.mkdir()
            if isinstance(workers, str):
                remote.run(jobs, workers, watch=watch, finished=keep)
            else:
                run_all(jobs, workers, watch=watch, finished=keep)
        except OSError as e:
            raise OnRampError(of_os(self.folder, e)) from e
        finally:
            for job in jobs:
                shutil.rmtree(job.folder, ignore_errors=True)

    def _clear_abandoned(self) -> None:
        """Remove what runs of this machine have left that were killed an hour ago or earlier."""
        for left in self.folder.glob(".*.*"):
            process = left.suffix.removeprefix(".")
            if not process.isdigit() or Path("/proc", process).exists():
                continue
            changed = [path.stat().st_mtime for path in (left, *left.rglob("*"))]
            if max(changed) < time.time() - 3600:
                shutil.rmtree(left, ignore_errors=True)

    def _stage(self, scenario: Scenario) -> Path:
        return self.folder / f".{scenario.digest}.{os.getpid()}"


def _replace(folder: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(exist_ok=True)
    folder.rename(place)
