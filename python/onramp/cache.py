"""Runs kept by content: only missing ones are computed."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from onramp.engine import Watch, execute
from onramp.errors import OnRampError, of_os
from onramp.jobs import Job, run_all
from onramp.result import Result
from onramp.scenario import Scenario
from onramp.summary import Summary


class Cache:
    """A folder with one result folder per scenario, named by `Scenario.digest`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise OnRampError(of_os(folder, e)) from e

    def get(self, scenario: Scenario) -> Result | None:
        """Results of a scenario, if it was run before."""
        path = self.place(scenario)
        return Result(path) if (path / "summary.json").exists() else None

    def place(self, scenario: Scenario) -> Path:
        """Where results of a scenario are, once it was run."""
        return self.folder / scenario.digest

    def missing(self, scenarios: Mapping[str, Scenario]) -> dict[str, Scenario]:
        """What was not run yet, each scenario once."""
        by_digest: dict[str, tuple[str, Scenario]] = {}
        for label, scenario in scenarios.items():
            if self.get(scenario) is None:
                by_digest.setdefault(scenario.digest, (label, scenario))
        return dict(by_digest.values())

    def run(self, scenarios: Mapping[str, Scenario], *, workers: int, watch: Watch) -> None:
        """Run what is missing, by processes here; what is stopped midway is not kept."""
        jobs = [Job(label, s, self._stage(s)) for label, s in self.missing(scenarios).items()]

        def keep(job: Job, summary: Summary) -> None:
            if summary["complete"]:
                job.folder.rename(self.place(job.scenario))

        try:
            for job in jobs:
                job.folder.mkdir()
            run_all(jobs, workers, watch=watch, finished=keep)
        except OSError as e:
            raise OnRampError(of_os(self.folder, e)) from e
        finally:
            for job in jobs:
                shutil.rmtree(job.folder, ignore_errors=True)

    def run_on_dask(self, scenarios: Mapping[str, Scenario], address: str, *, watch: Watch) -> None:
        """Run what is missing on a Dask cluster that shares this file system.

        Raises
        ------
        OnRampError
            If Dask is not installed or the cluster cannot be reached.
        """
        try:
            from distributed import Client, wait
        except ModuleNotFoundError as e:
            raise OnRampError("--dask: needs the extra, pip install 'onramp[dask]'") from e
        try:
            client = Client(address, timeout="10s")
        except (OSError, ValueError) as e:
            raise OnRampError(f"--dask {address}: no cluster answers there ({e})") from e
        with client:
            futures = {}
            for label, s in self.missing(scenarios).items():
                stage, target = self._stage(s).resolve(), self.place(s).resolve()
                places = [str(p) for p in (s.base.resolve(), stage, target)]
                future = client.submit(_remote, s.text, s.on, *places, key=f"onramp-{s.digest}")
                futures[future] = label
            waiting = set(futures)
            while waiting and not watch.stop():
                try:
                    done = wait(waiting, timeout=1, return_when="FIRST_COMPLETED").done
                except asyncio.TimeoutError:
                    continue
                for future in done:
                    future.result()
                    watch.report(futures[future], None)
                waiting -= done
            client.cancel(list(waiting))

    def _stage(self, scenario: Scenario) -> Path:
        return self.folder / f".{scenario.digest}.{os.getpid()}"


def _remote(text: str, on: str | None, base: str, stage: str, target: str) -> None:
    folder = Path(stage)
    folder.mkdir(exist_ok=True)
    execute(Scenario(text, Path(base), on), folder)
    folder.rename(target)
