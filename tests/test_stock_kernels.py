"""The gate, the programs and the agent on kernels as distributions ship them."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

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

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason=f"Debian's kernels for x86_64, not for {platform.machine()}"
)


def series(*names: str) -> list[ParameterSet]:
    """Tests with these kernels: those with the same one share files, and run one after the other."""
    return [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]


def _run(script: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [STOCK / script, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    said = done.stderr.strip()
    if done.returncode and any(reason in said for reason in CANNOT):
        pytest.skip(said.splitlines()[0])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("series", series("6.1", "6.12", "newest"))
def test_the_gate_builds_without_warnings(series: str) -> None:
    assert "sch_onramp.ko for Linux" in _run("modules", series)


def _boot(series: str, *what: str) -> list[str]:
    agent = testbed.agent()
    if agent is None:
        pytest.skip("onrampd is not built: run `make testbed`")
    _run("modules", "--images", series)
    said = _run("boot", series, agent.resolve(), *what).splitlines()
    assert said[-1] == "all held"
    return said


@pytest.mark.parametrize("series", series("6.1", "6.12", "newest"))
def test_everything_works_and_nothing_is_left(series: str) -> None:
    said = _boot(series)
    for step in ("verifier and JIT", "nothing is left on a", "nothing is left on b", "the module unloads"):
        assert any(line.startswith(f"{step}: ok") for line in said), said
    assert any(line.startswith("eth0: held ") and line.endswith("let go") for line in said), said
    for refused in ("a limit of 0", "a class of drr", "root of a user namespace"):
        assert f"{refused}: refused" in said, said


@pytest.mark.parametrize("series", series("6.17", "newest"))
def test_a_new_kernel_enforces_without_a_module(series: str) -> None:
    said = _boot(series, "--bpf")
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
    for what in ("10000 flows wait", "limit = 100: 900", 'bytes = "100000B": 900', "flow_limit = 10: 900"):
        assert any(line.startswith(what) for line in said), said


@pytest.mark.xdist_group("newest")
def test_the_next_agent_takes_the_gate_over_and_no_packet_is_lost() -> None:
    said = _boot("newest", "--takeover")
    for when in ("killed", "upgraded", "with fewer interfaces"):
        assert f"{when}: the same gate, no packet lost" in said, said
    assert "a transfer during an upgrade to another program: ok" in said, said


@pytest.mark.xdist_group("newest")
def test_systemd_runs_agent_and_coordinator_and_keeps_what_the_next_one_needs() -> None:
    said = _boot("newest", "--systemd")
    for when in ("after a crash", "after an upgrade"):
        assert f"{when}: the same gate, no packet lost" in said, said
    for step in ("as its user", "systemd keeps as many", "systemd keeps nothing", "nothing is left on a"):
        assert f"{step}: ok" in said, said
    for step in ("the coordinator's user", "both are synchronised again", "the coordinator ended well"):
        assert f"{step}: ok" in said, said


@pytest.mark.xdist_group("newest")
def test_whatever_happens_to_gates_no_packet_stays_in_one() -> None:
    # Half an hour of it is in `make test-kernel`.
    said = _boot("newest", "--stress", "20", "1")
    for host in ("a", "b"):
        assert f"no packet stays on {host}: ok" in said, said
        assert f"nothing is left on {host}: ok" in said, said


@pytest.mark.xdist_group("newest")
def test_requests_to_many_hosts_gain_by_the_program_as_by_the_module() -> None:
    said = _boot("newest", "--incast", "15", "4")

    def mean(gate: str) -> float:
        line = next(line for line in said if line.startswith(f"{gate}: requests "))
        return float(line.split("mean ")[1].split()[0])

    assert mean("bpf") < 0.8 * mean("observe"), said
    assert abs(mean("bpf") / mean("module") - 1) < 0.4, said


@pytest.mark.xdist_group("newest")
def test_two_machines_form_a_fleet_and_enforce_without_a_module() -> None:
    said = _boot("newest", "--fleet")
    for step in ("by a program", "probes and answers", "the clock is known still", "nothing is left"):
        assert said.count(f"{step}: ok") == 2, said
    assert any(line.startswith("held ") and line.endswith(" times") for line in said), said


@pytest.mark.xdist_group("5.10")
def test_an_old_kernel_observes() -> None:
    said = _boot("5.10", "--observe")
    assert any(line.startswith("delays: ") and line.endswith(" OR-ACKs") for line in said), said


@pytest.mark.parametrize("series", series("6.1", "6.12"))
def test_bonds_vlans_pods_and_several_addresses_are_measured_and_held(series: str) -> None:
    said = _boot(series, "--hosts")
    for where in (
        "bond0, active-backup",
        "bond0, balance-xor",
        "VLAN, the agents on it",
        "VLAN, the agents below it",
        "VLAN, the receiver's agent below it",
        "pods",
        "10.0.0.3, with the others",
        "fd00::2, with the others",
    ):
        assert any(line.startswith(f"{where}: ") and " OR-ACKs" in line for line in said), where
    for where in ("two tags", "pods that are not listed"):
        assert f"{where}: left alone" in said, said
