"""The gate, the programs and the agent on older kernels as distributions ship them."""

from __future__ import annotations

import pytest

import stock

pytestmark = stock.needs_x86

#: Series whose kernels show in `make test` what the others show before a release.
SERIES = ["6.1", pytest.param("6.12", marks=pytest.mark.kernels)]


@pytest.mark.parametrize("series", SERIES)
def test_the_gate_builds_without_warnings(series: str) -> None:
    stock.builds(series)


@pytest.mark.parametrize("series", SERIES)
def test_everything_works_and_nothing_is_left(series: str) -> None:
    stock.works(series)


@pytest.mark.kernels
def test_a_new_kernel_enforces_without_a_module() -> None:
    stock.enforces("6.17")


def test_an_old_kernel_observes() -> None:
    said = stock.boot("5.10", "--observe")
    assert any(line.startswith("delays: ") and line.endswith(" OR-ACKs") for line in said), said


@pytest.mark.parametrize("series", SERIES)
def test_bonds_vlans_pods_and_several_addresses_are_measured_and_held(series: str) -> None:
    said = stock.boot(series, "--hosts")
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
