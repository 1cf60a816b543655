"""The gate and its programs on the newest stock kernel."""

from __future__ import annotations

import pytest

import stock

pytestmark = stock.needs_x86


def test_the_gate_builds_without_warnings() -> None:
    stock.builds("newest")


# 6.1 shows it of the module, and below this kernel of the program.
@pytest.mark.kernels
def test_everything_works_and_nothing_is_left() -> None:
    stock.works("newest")


def test_it_enforces_without_a_module() -> None:
    stock.enforces("newest")


def test_whatever_happens_to_gates_no_packet_stays_in_one() -> None:
    # Half an hour of it is in `make test-kernel`.
    said = stock.boot("newest", "--stress", "20", "1")
    for host in ("a", "b"):
        assert f"no packet stays on {host}: ok" in said, said
        assert f"nothing is left on {host}: ok" in said, said


@pytest.mark.kernels
def test_requests_to_many_hosts_gain_by_the_program_as_by_the_module() -> None:
    said = stock.boot("newest", "--incast", "15", "4")

    def mean(gate: str) -> float:
        line = next(line for line in said if line.startswith(f"{gate}: requests "))
        return float(line.split("mean ")[1].split()[0])

    assert mean("bpf") < 0.8 * mean("observe"), said
    assert abs(mean("bpf") / mean("module") - 1) < 0.4, said
