"""Forecasts held to what came: on the Linux cluster recorded by agents that observe, then enforced.

`python tests/forecasts.py [NETWORK…] [LOAD…]` prints a table, by default for all of them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cluster
from onramp import forecast, testbed
from onramp.engine import Stop, Watch
from onramp.scenario import to_toml
from onramp.summary import SIZES

LOADS = (0.2, 0.4, 0.6, 0.8)
NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "star": {"kind": "star", "hosts": 24, "host_rate": "10Gbps"},
    "leaf-spine": {
        "kind": "leaf-spine",
        "leaves": 4,
        "spines": 2,
        "hosts_per_leaf": 6,
        "host_rate": "10Gbps",
        "fabric_rate": "40Gbps",
    },
}
HOSTS = 24


def scenario(network: str, load: float, duration: str = "100ms") -> dict[str, Any]:
    """WebSearch and incasts under CUBIC; clocks by the agents' own synchronisation."""
    return {
        "name": f"{network}-{load}",
        "duration": duration,
        "network": NETWORKS[network],
        "transport": {"kind": "cubic"},
        "onramp": {"threshold": "50us", "max_pause": "2ms"},
        "clock": {"sync": "huygens", "stamps": "hardware", "window": "100ms", "probe_interval": "2ms"},
        "linux": {"buffer_packets": 1000},
        "traffic": [
            {"kind": "background", "workload": "WebSearch", "load": load},
            {"kind": "incast", "fan_out": 20, "size": "2KB", "load": 0.02},
        ],
    }


def means(played: cluster.Played) -> dict[str, float]:
    """Mean times [µs] of a run, of requests and of flows by size, as applications saw them."""
    flows = played.flows[played.flows["request"] < 0]
    found = {}
    for size, (above, up_to) in SIZES.items():
        within = flows[(flows["bytes"] > above) & (flows["bytes"] <= up_to)]
        if len(within):
            found[size] = float(np.mean(within["receiver_fct_ps"])) / 1e6
    return found | {"incast": float(np.mean(played.rct_us))}


def recorded(folder: Path, played: Mapping[str, Any]) -> tuple[cluster.Played, list[Path]]:
    """Play a scenario with agents that observe, and record at all hosts."""
    program = testbed.agent()
    assert program is not None
    client = cluster.seen(program.resolve().with_name("onrampctl"))
    # Each agent reads its configuration anew before the first flow.
    jobs = [
        f"h{h}: sed -i s/enforce/observe/ /run/onramp/{h}.toml; kill -HUP $(cat /run/onramp/{h}.pid); "
        f"sleep 0.01; exec {client} record --config /run/onramp/{h}.toml --for 5s --out /run/out/{h}.csv"
        for h in range(HOSTS)
    ]
    # Commands start 50 ms apart, and recorders need 0.3 s; the end of the last one is the end of all.
    done = cluster.play(folder, dict(played), *jobs, *["h0: true"] * 6, "h0: sleep 6")
    for said in done.said[:HOSTS]:
        assert "0 lost" in said, said
    return done, [folder / "out" / f"{h}.csv" for h in range(HOSTS)]


@dataclass(frozen=True)
class Held:
    """A forecast beside what came: mean times [µs] by sample.

    Attributes
    ----------
    observed, enforced : mapping
        As applications saw them, on Linux.
    found : Forecast
        From the recordings of the first.
    """

    observed: Mapping[str, float]
    enforced: Mapping[str, float]
    found: forecast.Forecast

    @property
    def forecast(self) -> Mapping[str, float]:
        """With On-Ramp, by the forecast."""
        (comparison,) = self.found.comparisons.values()
        rows = [row for row in comparison.rows if row.metric.statistic == "mean" and row.with_ is not None]
        return {row.metric.sample: float(row.with_ or 0) for row in rows}


def hold(folder: Path, played: Mapping[str, Any]) -> Held:
    """Record, forecast, enforce."""
    for name in ("observed", "enforced", "forecast"):
        (folder / name).mkdir()
    observed, files = recorded(folder / "observed", played)
    network = folder / "network.toml"
    network.write_text(to_toml({**played, "clock": {}}))
    made = forecast.plan(files, network, folder / "forecast")
    with Stop() as stop:
        found = forecast.execute(made, folder / "forecast", workers=2, watch=Watch(stop))
    enforced = cluster.play(folder / "enforced", dict(played))
    return Held(means(observed), means(enforced), found)


def main(networks: list[str], loads: list[float]) -> None:
    """Print the table."""
    print("| network | load | mean of | observed | enforced | forecast | error |")
    print("|" + " --- |" * 7)
    for network in networks:
        for load in loads:
            with tempfile.TemporaryDirectory() as folder:
                held = hold(Path(folder), scenario(network, load))
            for sample, came in held.enforced.items():
                said = held.forecast.get(sample, float("nan"))
                numbers = f"{held.observed[sample]:.0f} | {came:.0f} | {said:.0f} | {said / came - 1:+.1%}"
                print(f"| {network} | {load:.0%} | {sample} | {numbers} |", flush=True)
            print(*held.found.notes, sep="\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    chosen = [word for word in words if word in NETWORKS]
    main(chosen or list(NETWORKS), [float(word) for word in words if word not in NETWORKS] or list(LOADS))
