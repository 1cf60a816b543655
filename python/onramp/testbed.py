"""The virtual-time Linux cluster: its programs, and a run on it."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from onramp.errors import OnRampError, RunError

#: Seconds between two looks at what the caller wants.
STEP_S = 0.1


def _program(name: str, variable: str) -> Path | None:
    """A program: named in the environment, installed beside Python, or built in the checkout."""
    if named := os.environ.get(variable):
        return Path(named)
    builds = [Path(__file__).parents[2] / "target" / build / name for build in ("release", "debug")]
    for path in (Path(sys.executable).with_name(name), *builds):
        if path.is_file():
            return path
    found = shutil.which(name)
    return Path(found) if found else None


def runner() -> Path:
    """The program that boots the cluster.

    Raises
    ------
    OnRampError
        If there is none.
    """
    path = _program("onramp-testbed", "ONRAMP_TESTBED")
    if path is None or not path.is_file():
        how = "`make testbed` in a checkout builds it; --on sim runs without"
        raise OnRampError(f"{path or 'onramp-testbed'}: not found: {how}")
    return path


@cache
def kernel() -> Path:
    """The kernel that the cluster runs on.

    Raises
    ------
    OnRampError
        If there is none; says what to run.
    """
    asked = subprocess.run([runner(), "kernel"], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise OnRampError(asked.stderr.strip())
    return Path(asked.stdout.strip())


def agent() -> Path | None:
    """The agent's program, if it is built."""
    return _program("onrampd", "ONRAMPD")


def programs(*, onramp: bool) -> list[Path]:
    """Everything that a result depends on; with `onramp` the agent, too."""
    found = agent() if onramp else None
    return [runner(), kernel(), *([found] if found else [])]


def run(
    folder: Path,
    *,
    stop: Callable[[], bool],
    report: Callable[[dict[str, Any]], None],
    traced: Sequence[int] = (),
) -> tuple[Path, bool]:
    """Play `scenario.toml` of a folder on the cluster.

    Parameters
    ----------
    stop : callable
        Asked ten times a second; once true, the run ends with what it has.
    report : callable
        Told how far the run is: the fields of `engine.Status`.
    traced : sequence of int
        Flows whose packets are captured, by number.

    Returns
    -------
    folder, complete
        Where the cluster's files are, and whether it came to its end.

    Raises
    ------
    OnRampError
        If it cannot start, or fails.
    """
    kernel()
    raw = folder / "raw"
    command: list[str | Path] = [runner(), "run", "--tied", "--scenario", folder / "scenario.toml"]
    command += ["--base", folder, "--out", raw]
    if traced:
        command += ["--trace", ",".join(map(str, traced))]
    environment = dict(os.environ)
    if found := agent():
        environment["ONRAMPD"] = str(found)
    done: dict[str, Any] | None = None
    with (
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        assert process.stdout is not None and process.stderr is not None
        selector.register(process.stdout, selectors.EVENT_READ)
        os.set_blocking(process.stdout.fileno(), False)
        partial, stopping = b"", False
        try:
            while True:
                if stop() and not stopping:
                    stopping = True
                    process.terminate()
                if not selector.select(STEP_S):
                    continue
                said = process.stdout.read()
                if said == b"":
                    break
                *lines, partial = (partial + (said or b"")).split(b"\n")
                for line in map(json.loads, lines):
                    if "status" in line:
                        report(line["status"])
                    done = line.get("done", done)
            error = process.stderr.read().decode(errors="replace").strip()
        except BaseException:
            process.kill()
            raise
    if process.returncode == OnRampError.exit_code:
        raise OnRampError(error)
    if process.returncode or done is None:
        raise RunError(error or f"the cluster ended early (exit status {process.returncode})")
    return raw, bool(done["complete"])
