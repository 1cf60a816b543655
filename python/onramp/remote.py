"""Runs on the workers of a Dask cluster: inputs and results travel, no files are shared."""

from __future__ import annotations

import asyncio
import io
import os
import tempfile
import time
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onramp.engine import Status, Watch
from onramp.errors import OnRampError, RunError
from onramp.jobs import Finished, Job, run_all
from onramp.scenario import Scenario
from onramp.summary import Summary

if TYPE_CHECKING:
    from distributed import Future

#: A run whose worker is lost is tried again so often.
RETRIES = 2
#: Seconds between two reports of a run.
EVERY_S = 1.0
#: Topic of the reports.
TOPIC = "onramp"


def run(jobs: Sequence[Job], address: str, *, watch: Watch, finished: Finished) -> list[Summary]:
    """As `jobs.run_all`, by the workers of the Dask scheduler at `address`.

    Raises
    ------
    OnRampError
        If Dask is not installed, or the cluster cannot be reached.
    RunError
        If a run failed, or its worker has another build of this package; the others are stopped.
    """
    try:
        from distributed import Client, wait
    except ModuleNotFoundError as e:
        raise OnRampError("--dask: needs the extra, pip install 'onramp-lab[dask]'") from e
    try:
        client = Client(address, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as e:
        raise OnRampError(f"--dask {address}: no cluster answers there ({e})") from e
    by_key = {f"onramp-{job.scenario.digest}-{os.getpid()}-{n}": job for n, job in enumerate(jobs)}

    def report(event: tuple[float, dict[str, Any]]) -> None:
        _, said = event
        if (job := by_key.get(said["key"])) is not None:
            watch.report(job.label, Status(**said["status"]))

    summaries: list[Summary] = []
    with client:
        client.subscribe_topic(TOPIC, report)  # type: ignore[no-untyped-call]
        futures = {
            client.submit(_there, *_pack(job), key, key=key, retries=RETRIES, pure=False): job
            for key, job in by_key.items()
        }
        waiting = set(futures)
        try:
            while waiting and not watch.stop():
                try:
                    done = wait(waiting, 1, "FIRST_COMPLETED").done  # type: ignore[no-untyped-call]
                except (asyncio.TimeoutError, TimeoutError):
                    continue
                for future in done:
                    job = futures[future]
                    by_key.pop(future.key)
                    summary = _take(future, job)
                    watch.report(job.label, None)
                    summaries.append(summary)
                    finished(job, summary)
                    # The worker need not keep what is here now.
                    future.release()
                waiting -= done
        finally:
            client.cancel(list(waiting), force=True)  # type: ignore[no-untyped-call]
    return summaries


def _pack(job: Job) -> tuple[bytes, dict[str, Any]]:
    """The scenario with its input files, and how it is named and checked."""
    scenario = job.scenario
    with tempfile.TemporaryDirectory(prefix="onramp-") as folder:
        scenario.write(Path(folder))
        packed = _zipped(Path(folder))
    facts = {
        "on": scenario.on,
        "label": job.label,
        "digest": scenario.digest,
        "programs": scenario.programs,
    }
    return packed, facts


def _there(packed: bytes, facts: dict[str, Any], key: str) -> tuple[bytes, Summary] | str:
    """On a worker: the results' folder and summary, or what is wrong."""
    from distributed import get_worker

    worker = get_worker()
    with ExitStack() as stack:
        given, folder = (
            stack.enter_context(tempfile.TemporaryDirectory(prefix="onramp-")) for _ in ("inputs", "results")
        )
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            archive.extractall(given)
        text = (Path(given) / "scenario.toml").read_text(encoding="utf-8")
        scenario = Scenario(text, Path(given), facts["on"])
        if scenario.programs != facts["programs"]:
            return f"worker {worker.address}: has another build of onramp; install the same one there"
        told = 0.0

        def report(_: str, status: Status | None) -> None:
            nonlocal told
            if status is not None and time.monotonic() - told > EVERY_S:
                told = time.monotonic()
                worker.log_event(TOPIC, {"key": key, "status": asdict(status)})

        def stop() -> bool:
            # Whoever asked has gone, or does not want it any more.
            task = worker.state.tasks.get(key)
            return task is None or task.state in ("cancelled", "released", "forgotten")

        job = Job(facts["label"], scenario, Path(folder), facts["digest"])
        try:
            summaries = run_all([job], 1, watch=Watch(stop, report))
        except OnRampError as e:
            return str(e)
        return (_zipped(Path(folder)), summaries[0]) if summaries else f"{facts['label']}: was stopped"


def _take(future: Future[Any], job: Job) -> Summary:
    """Put a run's results into the folder of its job."""
    try:
        said = future.result()
    except Exception as e:  # Dask raises its own, and those of pickling and of the network.
        text = " ".join(str(e).split()) or type(e).__name__
        raise RunError(f"{job.label}: was lost on the cluster: {text}") from e
    if isinstance(said, str):
        raise RunError(said)
    packed, summary = said
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        archive.extractall(job.folder)
    found: Summary = summary
    return found


def _zipped(folder: Path) -> bytes:
    """A folder with all below it. Tables are compressed already."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return packed.getvalue()
