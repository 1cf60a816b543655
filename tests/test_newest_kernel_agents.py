"""Agents on the newest stock kernel, one after the other and in a fleet.

A file of its own, so that it runs beside the gate's tests.
"""

from __future__ import annotations

import pytest

import stock

pytestmark = stock.needs_x86


# Agents that crash and are upgraded are below, too, under systemd.
@pytest.mark.kernels
def test_the_next_agent_takes_the_gate_over_and_no_packet_is_lost() -> None:
    said = stock.boot("newest", "--takeover")
    for when in ("killed", "upgraded", "with fewer interfaces"):
        assert f"{when}: the same gate, no packet lost" in said, said
    assert "a transfer during an upgrade to another program: ok" in said, said


def test_systemd_runs_agent_and_coordinator_and_keeps_what_the_next_one_needs() -> None:
    said = stock.boot("newest", "--systemd")
    for when in ("after a crash", "after an upgrade"):
        assert f"{when}: the same gate, no packet lost" in said, said
    assert "a transfer during an upgrade to another program: ok" in said, said
    for step in ("as its user", "systemd keeps as many", "systemd keeps nothing", "nothing is left on a"):
        assert f"{step}: ok" in said, said
    for step in ("the coordinator's user", "both are synchronised again", "the coordinator ended well"):
        assert f"{step}: ok" in said, said


def test_two_machines_form_a_fleet_and_enforce_without_a_module() -> None:
    said = stock.boot("newest", "--fleet")
    for step in ("by a program", "probes and answers", "the clock is known still", "nothing is left"):
        assert said.count(f"{step}: ok") == 2, said
    assert any(line.startswith("held ") and line.endswith(" times") for line in said), said
