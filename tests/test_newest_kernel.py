"""The gate, the programs and the agent on the newest stock kernel.

Apart from the others, so that both run side by side: tests of one kernel share its files.
"""

from __future__ import annotations

import stock

pytestmark = stock.needs_x86


def test_the_gate_builds_without_warnings() -> None:
    stock.builds("newest")


def test_everything_works_and_nothing_is_left() -> None:
    stock.works("newest")


def test_it_enforces_without_a_module() -> None:
    stock.enforces("newest")


def test_the_next_agent_takes_the_gate_over_and_no_packet_is_lost() -> None:
    said = stock.boot("newest", "--takeover")
    for when in ("killed", "upgraded", "with fewer interfaces"):
        assert f"{when}: the same gate, no packet lost" in said, said
    assert "a transfer during an upgrade to another program: ok" in said, said


def test_systemd_runs_agent_and_coordinator_and_keeps_what_the_next_one_needs() -> None:
    said = stock.boot("newest", "--systemd")
    for when in ("after a crash", "after an upgrade"):
        assert f"{when}: the same gate, no packet lost" in said, said
    for step in ("as its user", "systemd keeps as many", "systemd keeps nothing", "nothing is left on a"):
        assert f"{step}: ok" in said, said
    for step in ("the coordinator's user", "both are synchronised again", "the coordinator ended well"):
        assert f"{step}: ok" in said, said


def test_whatever_happens_to_gates_no_packet_stays_in_one() -> None:
    # Half an hour of it is in `make test-kernel`.
    said = stock.boot("newest", "--stress", "20", "1")
    for host in ("a", "b"):
        assert f"no packet stays on {host}: ok" in said, said
        assert f"nothing is left on {host}: ok" in said, said


def test_requests_to_many_hosts_gain_by_the_program_as_by_the_module() -> None:
    said = stock.boot("newest", "--incast", "15", "4")

    def mean(gate: str) -> float:
        line = next(line for line in said if line.startswith(f"{gate}: requests "))
        return float(line.split("mean ")[1].split()[0])

    assert mean("bpf") < 0.8 * mean("observe"), said
    assert abs(mean("bpf") / mean("module") - 1) < 0.4, said


def test_two_machines_form_a_fleet_and_enforce_without_a_module() -> None:
    said = stock.boot("newest", "--fleet")
    for step in ("by a program", "probes and answers", "the clock is known still", "nothing is left"):
        assert said.count(f"{step}: ok") == 2, said
    assert any(line.startswith("held ") and line.endswith(" times") for line in said), said
