"""Delays of sampled packets beside those acknowledged before, in the simulator and on Linux."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import onramp
from onramp.paper import fig6
from onramp.result import Result
from test_linux import needs_agent, needs_kernel

STAR: dict[str, Any] = {
    "name": "delays",
    "duration": "100ms",
    "network": {"kind": "star", "hosts": 8, "host_rate": "1Gbps", "link_delay": "2us"},
    "transport": {"kind": "cubic"},
    "measure": {"next_owd": 3000},
    "traffic": [{"kind": "background", "workload": "WebSearch", "load": 0.4}],
}
#: A full packet takes this long through two links that have nothing else to send, in nanoseconds.
ALONE = 2 * (2_000 + 1514 * 8)


def both(tmp_path: Path, seed: int) -> tuple[Result, Result]:
    """Results in the simulator and on Linux."""
    sim, linux = (onramp.run(STAR, seed=seed, out=tmp_path / on, on=on) for on in ("sim", "linux"))
    return sim, linux


@needs_kernel
def test_where_queues_are_short_packets_have_the_delays_of_the_simulator(tmp_path: Path) -> None:
    sim, linux = (result.next_owd for result in both(tmp_path, seed=3))
    assert len(sim) == len(linux) > 2500, "all that leave after one was acknowledged"
    for column in ("owd_ns", "next_owd_ns", "rtt_ns"):
        a, b = (np.percentile(np.asarray(table[column]), (10, 50, 90, 99)) for table in (sim, linux))
        assert np.abs(a / b - 1).max() < 0.01, (column, a, b)
    assert abs(np.median(np.asarray(linux["next_owd_ns"])) - ALONE) < 10


@needs_kernel
def test_where_queues_are_long_delays_tell_of_the_next_as_in_the_simulator(tmp_path: Path) -> None:
    sim, linux = both(tmp_path, seed=1)
    for column, least in (("owd_ns", 0.9), ("rtt_ns", 0.6)):
        a, b = (fig6.pearson(*fig6.signal(result, column)) for result in (sim, linux))
        assert least < a < 1 and abs(a - b) < 0.1, (column, a, b)


@needs_agent
def test_measured_delays_have_the_clocks_errors(tmp_path: Path) -> None:
    clock = {"sync": "huygens", "stamps": "software", "window": "100ms", "probe_interval": "2ms"}
    watched = {**STAR, "duration": "50ms", "onramp": {"threshold": "100ms"}}
    known = onramp.run(watched, out=tmp_path / "known", on="linux").next_owd
    own = onramp.run({**watched, "clock": clock}, out=tmp_path / "own", on="linux").next_owd
    least = [np.asarray(table["owd_ns"]).min() for table in (known, own)]
    # Hosts' clocks are off by up to 5 ms before they are corrected.
    assert 0 < abs(least[0] - least[1]) < 5_000
