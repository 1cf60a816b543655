"""Stock kernels under QEMU: how they are prepared and booted, and what holds on all of them."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from onramp import testbed

STOCK = Path(__file__).parents[1] / "testbed" / "stock"
#: What the scripts say where this machine cannot do it; all else is a failure.
CANNOT = (
    "missing; on Debian or Ubuntu",
    "no apt-get here",
    "apt knows no mirror",
    "apt-get update failed",
    "download failed",
    "no packaged kernel",
)

needs_x86 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason=f"Debian's kernels for x86_64, not for {platform.machine()}"
)


def _run(script: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [STOCK / script, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    said = done.stderr.strip()
    if done.returncode and any(reason in said for reason in CANNOT):
        pytest.skip(said.splitlines()[0])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def boot(series: str, *what: str) -> list[str]:
    """Boot a kernel and run one of the guests' scripts; the lines it says."""
    agent = testbed.agent()
    if agent is None:
        pytest.skip("onrampd is not built: run `make testbed`")
    _run("modules", "--images", series)
    said = _run("boot", series, agent.resolve(), *what).splitlines()
    assert said[-1] == "all held"
    return said


def builds(series: str) -> None:
    """The gate's module builds without warnings."""
    assert "sch_onramp.ko for Linux" in _run("modules", series)


def works(series: str) -> None:
    """Module, programs and agent work, and nothing is left."""
    said = boot(series)
    for step in ("verifier and JIT", "nothing is left on a", "nothing is left on b", "the module unloads"):
        assert any(line.startswith(f"{step}: ok") for line in said), said
    assert any(line.startswith("eth0: held ") and line.endswith("let go") for line in said), said
    for refused in ("a limit of 0", "a class of drr", "root of a user namespace"):
        assert f"{refused}: refused" in said, said


def enforces(series: str) -> None:
    """The agent enforces by a program, without a module."""
    said = boot(series, "--bpf")
    assert any(line.startswith("held ") and line.endswith("let go") for line in said), said
    for step in (
        "traffic goes on without an agent",
        "the next agent has a gate",
        "segments are large again",
        "or stay so",
        "a device that is deleted",
        "traffic goes on while queues come and go",
        "nothing is left on a",
        "a namespace that is deleted",
    ):
        assert f"{step}: ok" in said, said
    for what in ("10000 flows wait", "limit = 100: 900", 'bytes = "176800B": 900', "flow_limit = 10: 900"):
        assert any(line.startswith(what) for line in said), said
