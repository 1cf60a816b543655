"""Plays scenarios on the Linux cluster, with commands beside them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onramp import tables, testbed
from onramp.errors import OnRampError
from onramp.scenario import to_toml

ROOT = Path(__file__).parents[1]


def seen(path: str | Path) -> str:
    """A file of the machine in a command of the cluster's hosts.

    Their /tmp, /run and /dev are their own; under /run/host they see all that the machine has.
    """
    return shlex.quote(f"/run/host{path}")


PYTHON = seen(sys.executable)


def _missing() -> str:
    try:
        testbed.kernel()
    except OnRampError as e:
        return str(e)
    return "" if testbed.agent() else "onrampd is not built: run `make testbed`"


#: Skips a module where the cluster was not built.
needs_cluster = pytest.mark.skipif(bool(_missing()), reason=_missing())


@dataclass(frozen=True)
class Played:
    """What came of a run on the cluster."""

    counters: dict[str, Any]
    flows: np.ndarray[Any, Any]
    requests: np.ndarray[Any, Any]
    #: Errors of the hosts' clocks over time.
    clock: np.ndarray[Any, Any]
    #: What each command beside it said.
    said: list[str]

    @property
    def rct_us(self) -> np.ndarray[Any, Any]:
        """Completion times of the requests, in their order."""
        ordered = np.sort(self.requests, order="start_ps")
        return np.asarray(ordered["rct_ps"] / 1e6)

    @property
    def quartile_us(self) -> float:
        """Of all requests' completion times: a quarter took no longer.

        Not the median: without On-Ramp a request that waits for a tail loss probe takes twice as long, and
        chance decides whether 5% or 55% do.
        """
        return quartile(self.rct_us)


def quartile(rct_us: np.ndarray[Any, Any]) -> float:
    """The time within which a quarter of the requests completed."""
    return float(np.percentile(rct_us, 25))


def play(folder: Path, scenario: dict[str, Any], *jobs: str) -> Played:
    """Play a scenario in `folder`, with commands beside it."""
    (folder / "scenario.toml").write_text(to_toml(scenario))
    out = folder / "out"
    done = run("run", "--scenario", folder / "scenario.toml", "--out", out, *jobs)
    assert done.returncode == 0, done.stderr
    return Played(
        json.loads((out / "counters.json").read_text()),
        records(out, "flows"),
        records(out, "requests"),
        records(out, "clock"),
        [(out / f"{i}.out").read_text() for i in range(len(jobs))],
    )


def records(folder: Path, name: str) -> np.ndarray:
    """A table that the cluster has left, as records."""
    columns = tables.read_columns(folder / f"{name}.bin", name)
    kinds = {column["name"]: column["kind"] for column in tables.DESCRIBED[name]}
    arrays = [np.frombuffer(columns[column], kind) for column, kind in kinds.items()]
    return np.rec.fromarrays(arrays, dtype=np.dtype(list(kinds.items())))


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Call the cluster's program."""
    agent = testbed.agent()
    return subprocess.run(
        [testbed.runner(), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "ONRAMPD": str(agent)},
        check=False,
    )


def agent() -> str:
    """The agent's program, as hosts see it."""
    program = testbed.agent()
    assert program is not None
    return seen(program.resolve())


def finished(played: Played) -> None:
    """No flow was left over."""
    assert played.counters["unfinished"] == {"flows": 0, "requests": 0}, played.counters["unfinished"]
