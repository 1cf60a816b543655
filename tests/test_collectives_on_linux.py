"""The same collective over TCP in the simulator and on Linux."""

from __future__ import annotations

import pytest

from collectives_on_both import mean_us, scenario

pytestmark = pytest.mark.machines


@pytest.mark.parametrize(
    ("operation", "algorithm", "size"),
    [
        ("all-reduce", "ring", 8000),
        ("all-reduce", "halving-doubling", 800),
        ("broadcast", "ring", 4000),
        ("all-to-all", "pairwise-rendezvous", 1200),
    ],
)
def test_a_collective_takes_as_long_on_linux(operation: str, algorithm: str, size: int) -> None:
    source = scenario(operation, algorithm, size, 3)
    simulated, linux = (mean_us(source, on, 1) for on in ("sim", "linux"))
    assert simulated == pytest.approx(linux, rel=0.02)
