"""Programs at hosts: requests of three tiers, on both substrates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import onramp
from conftest import Command
from onramp.result import Result
from test_linux import needs_kernel

#: Two roots, two aggregators, eight workers on one switch.
TIERS: dict[str, Any] = {
    "name": "tiers",
    "duration": "10ms",
    "warmup": "2ms",
    "network": {"kind": "star", "hosts": 12, "host_rate": "10Gbps"},
    "transport": {"kind": "cubic"},
    "traffic": [
        {
            "kind": "partition-aggregate",
            "from": ["h0", "h1"],
            "aggregators": ["h2", "h3"],
            "workers": [f"h{i}" for i in range(4, 12)],
            "request": "500B",
            "answer": "10KB",
            "response": "20KB",
            "per_second": 2000,
            "service": "20us",
            "merge": "10us",
        }
    ],
}


def asked(result: Result) -> list[tuple[int, ...]]:
    """What was asked, and when, to the nanosecond."""
    table = result.exchanges.sort_by([("session", "ascending"), ("number", "ascending")])
    columns = [table[name].to_pylist() for name in ("session", "number", "client", "bytes")]
    return list(zip(*columns, (start // 1000 for start in table["start_ps"].to_pylist()), strict=True))


@needs_kernel
def test_three_tiers_take_as_long_on_linux_as_simulated(write: Callable[..., Path]) -> None:
    path = write(TIERS)
    sim, linux = (onramp.run(path, {"onramp.enabled": False}, on=on) for on in ("sim", "linux"))
    assert asked(sim) == asked(linux)
    assert len(asked(sim)) > 25
    times = [np.asarray(result.exchanges["latency_ps"]) / 1e6 for result in (sim, linux)]
    # Four ways of 2 us, 20 and 10 us of work, and 80 KB into the aggregators, which takes 64 us at 10 Gb/s.
    assert 60 < np.median(times[0]) < 200
    assert np.median(times[0]) == pytest.approx(np.median(times[1]), rel=0.05)
    assert times[0].mean() == pytest.approx(times[1].mean(), rel=0.1)


@needs_kernel
def test_requests_pass_a_long_flow_with_on_ramp_as_on_linux(write: Callable[..., Path]) -> None:
    """Workers' answers are held, too, and leave at once after that."""
    long = {"kind": "long", "src": ["h4"], "dst": "h2"}
    path = write({**TIERS, "traffic": [*TIERS["traffic"], long]})
    means = {}
    for on in ("sim", "linux"):
        for onramp_on in (False, True):
            result = onramp.run(path, {"onramp.enabled": onramp_on}, on=on)
            times = result.exchanges.filter(pc.equal(result.exchanges["traffic"], 0))["latency_ps"]
            means[on, onramp_on] = np.asarray(times).mean()
    for on in ("sim", "linux"):
        assert means[on, False] > 2 * means[on, True]
    for onramp_on in (False, True):
        assert means["sim", onramp_on] == pytest.approx(means["linux", onramp_on], rel=0.1)


@needs_kernel
@pytest.mark.parametrize(
    ("request_bytes", "response"),
    [("100B", "100B"), ("100B", "1KB"), ("500B", "10KB"), ("2KB", "20KB"), ("1KB", "1KB"), ("30KB", "60KB")],
)
def test_rpcs_send_as_many_packets_on_linux_as_simulated(
    write: Callable[..., Path], request_bytes: str, response: str
) -> None:
    """Data takes acknowledgements along, and delays them where it will."""
    rpcs = {"kind": "rpc", "from": ["h0"], "to": ["h1"], "request": request_bytes, "response": response}
    scenario = {
        **TIERS,
        "duration": "20ms",
        "network": {"kind": "star", "hosts": 2, "host_rate": "10Gbps"},
        "traffic": [{**rpcs, "per_second": 5000}],
    }
    path = write(scenario)
    sim, linux = (onramp.run(path, {"onramp.enabled": False}, on=on) for on in ("sim", "linux"))
    assert asked(sim) == asked(linux)
    assert len(asked(sim)) > 60
    packets = [result.summary["network"]["packets_sent"] for result in (sim, linux)]
    assert packets[0] == pytest.approx(packets[1], rel=0.01)


def test_a_group_is_shown_wherever_results_are(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    """No module of the package knows this kind of traffic: the summary says how it is summed up."""
    folder = tmp_path / "compared"
    assert command("compare", str(write(TIERS)), "--out", str(folder)).returncode == 0
    compared = onramp.Comparison.read(folder)
    rows = {(row.metric.group, row.metric.label): row for row in compared.rows}
    mean = rows["Request latency", "mean"]
    assert mean.ratio is not None and mean.interval is not None
    assert rows["Request latency", "requests"].ratio == 1
    page = (folder / "index.html").read_text()
    assert page.count("Request latency") > 3
    part = compared.without[0].summary["partition-aggregate"]
    assert part["exchanges"] == len(compared.without[0].exchanges) > 25
    package = Path(onramp.__file__).parent
    modules = [module for module in package.glob("**/*.py") if module.parent.name not in ("paper", "studies")]
    assert not any("partition-aggregate" in module.read_text() for module in modules)


def test_a_run_without_any_request_is_one_line(write: Callable[..., Path], command: Command) -> None:
    rare = {**TIERS["traffic"][0], "per_second": 1}
    done = command("run", str(write({**TIERS, "duration": "10us", "warmup": "0us", "traffic": [rare]})))
    assert done.returncode == 1 and "nothing starts between 0 and the end of the load" in done.stderr
