"""Runs in parallel, each in a process of its own."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from onramp.engine import Status, Watch
from onramp.errors import OnRampError, RunError
from onramp.scenario import Scenario
from onramp.summary import Summary


@dataclass(frozen=True)
class Job:
    """A run: what, and the existing folder its results go to."""

    label: str
    scenario: Scenario
    folder: Path
    #: Names its results. Default: the scenario's.
    digest: str | None = None


#: Is told of each completed run.
Finished = Callable[[Job, Summary], None]


class _Child:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.last: dict[str, object] = {}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "onramp.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches it through us alone
        )
        s = job.scenario
        task = {
            "text": s.text,
            "base": str(s.base),
            "on": s.on,
            "folder": str(job.folder),
            "digest": job.digest,
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(task).encode() + b"\n")
        self.process.stdin.close()
        assert self.process.stdout is not None
        self.stdout: IO[bytes] = self.process.stdout
        self._partial = b""
        os.set_blocking(self.stdout.fileno(), False)

    def read(self) -> bool:
        """Take what it said; False once it has ended."""
        said = self.stdout.read()
        *lines, self._partial = (self._partial + (said or b"")).split(b"\n")
        if lines:
            self.last = json.loads(lines[-1])
        return said != b""


def run_all(
    jobs: Iterable[Job],
    workers: int,
    *,
    watch: Watch,
    finished: Finished = lambda job, summary: None,
) -> list[Summary]:
    """Run `jobs`, at most `workers` at a time; summaries in the order of completion.

    Parameters
    ----------
    watch : Watch
        Once it stops, nothing new is started and what runs is stopped, with its results so far.
    finished : callable
        Told of each completed run.

    Raises
    ------
    OnRampError
        If a run failed; the others are stopped.
    """
    waiting = list(jobs)[::-1]
    running: set[_Child] = set()
    summaries: list[Summary] = []
    stopping = False
    with selectors.DefaultSelector() as selector:
        try:
            while running or (waiting and not stopping):
                if watch.stop() and not stopping:
                    stopping = True
                    for child in running:
                        child.process.terminate()
                while waiting and not stopping and len(running) < workers:
                    child = _Child(waiting.pop())
                    running.add(child)
                    selector.register(child.stdout, selectors.EVENT_READ, child)
                for key, _ in selector.select(timeout=0.1):
                    child = key.data
                    if child.read():
                        if isinstance(status := child.last.get("status"), dict):
                            watch.report(child.job.label, Status(**status))
                        continue
                    selector.unregister(child.stdout)
                    running.remove(child)
                    watch.report(child.job.label, None)
                    if stopping and child.process.wait() == -signal.SIGTERM:
                        continue  # It was stopped before it had begun.
                    summary = _summary(child)
                    summaries.append(summary)
                    finished(child.job, summary)
        finally:
            for child in running:
                child.process.kill()
                child.process.wait()
    return summaries


def _summary(child: _Child) -> Summary:
    code = child.process.wait()
    child.stdout.close()
    if isinstance(error := child.last.get("error"), str):
        raise (RunError if child.last["exit_code"] == RunError.exit_code else OnRampError)(error)
    if isinstance(summary := child.last.get("summary"), dict):
        return summary
    raise RunError(f"{child.job.label}: the run ended early (exit status {code}; out of memory?)")
