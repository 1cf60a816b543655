"""RPCs and storage, simulated and on Linux, where storage is the kernel's NVMe over TCP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import onramp
from cluster import run, seen
from conftest import ROOT, Command
from onramp.comparison import Comparison
from onramp.result import Result
from onramp.scenario import to_toml
from test_linux import needs_agent, needs_kernel

RACKS = ROOT / "scenarios" / "linux" / "storage-rpc.toml"
#: Two clients, two drives.
SMALL: dict[str, Any] = {
    "name": "drives",
    "duration": "5ms",
    "network": {"kind": "star", "hosts": 4, "host_rate": "10Gbps"},
    "transport": {"kind": "cubic"},
    "traffic": [
        {"kind": "storage", "from": ["h0", "h1"], "to": ["h2", "h3"], "block": "64KiB", "depth": 4},
        {
            "kind": "rpc",
            "from": ["h0"],
            "to": ["h3"],
            "request": "200B",
            "response": "2KB",
            "per_second": 9000,
            "service": "20us",
        },
    ],
}


def _latencies(result: Result, traffic: int) -> np.ndarray[Any, Any]:
    table = result.exchanges
    table = table.filter(pc.equal(table["traffic"], traffic))
    return np.asarray(table["latency_ps"].to_numpy() / 1e6)


def test_a_run_tells_of_clients(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "drives.toml"
    path.write_text(to_toml({**SMALL, "onramp": {}}))
    out = tmp_path / "out"
    shown = command("compare", str(path), "--out", str(out)).stdout
    for line in ("RPC latency", "Storage latency", "throughput (Gb/s)"):
        assert line in shown
    with_ = Result(out / "with")
    rpc, storage = with_.summary["rpc"], with_.summary["storage"]
    assert rpc["exchanges"] == len(_latencies(with_, 1)) > 20
    assert storage["per_s"] == pytest.approx(len(_latencies(with_, 0)) / 5e-3)
    assert storage["latency_us"]["p50"] == pytest.approx(np.median(_latencies(with_, 0)))
    assert 10 < storage["gbps"] < 20 and storage["gbps"] == pytest.approx(storage["per_s"] * 65536 * 8 / 1e9)
    # RPCs have pairs, and so an interval of their own.
    rows = {(r.metric.sample, r.metric.statistic): r for r in Comparison.read(out).rows}
    assert rows["rpc", "mean"].interval and not rows["storage", "mean"].interval
    assert (out / "plots" / "cdf.svg").exists()


@needs_kernel
def test_drives_and_servers_are_as_fast_on_both(tmp_path: Path) -> None:
    drive = {"traffic.0.drive": "30us", "traffic.0.depth": 1, "traffic.0.block": "16KiB"}
    for changes in ({}, drive, {"traffic.0.writes": 1.0}, {**drive, "traffic.0.writes": 1.0}):
        sim, linux = (onramp.run(SMALL, changes, on=on) for on in ("sim", "linux"))
        for traffic in (0, 1):
            one, other = (np.median(_latencies(r, traffic)) for r in (sim, linux))
            assert abs(one / other - 1) < 0.15, (changes, traffic, one, other)
        rates = [r.summary["storage"]["gbps"] for r in (sim, linux)]
        assert abs(rates[0] / rates[1] - 1) < 0.1, (changes, rates)
        # The same requests at the same nanoseconds.
        starts = [
            np.sort(r.exchanges.filter(pc.equal(r.exchanges["traffic"], 1))["start_ps"]) for r in (sim, linux)
        ]
        assert np.abs(np.subtract(*(s.astype("i8") for s in starts))).max() < 1000


@needs_agent
def test_rpcs_beside_storage_gain_by_on_ramp_on_both() -> None:
    # With On-Ramp RPCs take 15% longer in the simulator (docs/agreement.md), give or take 5% in four seeds.
    span = {"warmup": "30ms", "duration": "20ms"}

    def means(on: str, onramp_on: bool) -> np.ndarray[Any, Any]:
        """RPC latency in µs (mean with On-Ramp, else median), Gb/s stored, drops: means of four seeds."""
        changes = [{**span, "seed": seed, "onramp.enabled": onramp_on} for seed in range(1, 5)]
        runs = [onramp.run(RACKS, change, on=on).summary for change in changes]
        which = "mean" if onramp_on else "p50"
        rows = [(r["rpc"]["latency_us"][which], r["storage"]["gbps"], r["network"]["drops"]) for r in runs]
        return np.array([np.mean(column) for column in zip(*rows, strict=True)])

    found = {(on, side): means(on, side) for on in ("sim", "linux") for side in (False, True)}
    for on in ("sim", "linux"):
        without, with_ = found[on, False], found[on, True]
        assert without[0] > 5 * with_[0], found
        assert with_[1] > 0.95 * without[1], found
        assert with_[2] == 0 < without[2], found
    for side, most in ((False, 0.2), (True, 0.3)):
        sim, linux = found["sim", side], found["linux", side]
        assert abs(sim[0] / linux[0] - 1) < most, found
        assert abs(sim[1] / linux[1] - 1) < 0.1, found


@needs_kernel
def test_the_cluster_plays_storage_the_same_twice(tmp_path: Path) -> None:
    first, second = (onramp.run(SMALL, on="linux") for _ in range(2))
    assert first.exchanges.equals(second.exchanges)
    assert first.summary["network"] == second.summary["network"]


@needs_kernel
def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    # A drive with memory, a target and a client as the scenario's are, by hand: 8 MiB there and back.
    (tmp_path / "scenario.toml").write_text(to_toml(SMALL))
    target = """
        mount -t configfs none /sys/kernel/config; cd /sys/kernel/config
        mkdir nullb/d; cd nullb/d; echo 64 > size; echo 1 > memory_backed; echo 1 > power
        cd /sys/kernel/config/nvmet; mkdir subsystems/q; echo 1 > subsystems/q/attr_allow_any_host
        mkdir subsystems/q/namespaces/1; cd subsystems/q/namespaces/1
        echo -n /dev/d > device_path; echo 1 > enable; cd /sys/kernel/config/nvmet
        mkdir ports/1; cd ports/1; echo tcp > addr_trtype; echo ipv4 > addr_adrfam
        echo 10.0.0.3 > addr_traddr; echo 4420 > addr_trsvcid
        ln -s /sys/kernel/config/nvmet/subsystems/q subsystems/q; touch /run/ready
    """
    client = """
        while [ ! -e /run/ready ]; do sleep 0.01; done
        exec 3<>/dev/nvme-fabrics
        printf transport=tcp,traddr=10.0.0.3,trsvcid=4420,nqn=q,nr_io_queues=1 >&3
        while [ ! -e /dev/nvme0n1 ]; do sleep 0.01; done
        cat /run/host/bin/bash /run/host/usr/bin/* 2>/dev/null | head -c 8388608 > /tmp/f
        dd if=/tmp/f of=/dev/nvme0n1 bs=64k oflag=direct 2>/dev/null
        dd if=/dev/nvme0n1 bs=128k count=64 iflag=direct 2>/dev/null | md5sum; md5sum < /tmp/f
    """
    jobs = []
    for host, script in (("h2", target), ("h0", client)):
        (tmp_path / host).write_text(script)
        jobs.append(f"{host}: sh -e {seen(tmp_path / host)}")
    done = run("exec", "--scenario", tmp_path / "scenario.toml", *jobs)
    assert done.returncode == 0, done.stdout + done.stderr
    sums = [line.split()[0] for line in done.stdout.splitlines() if line.endswith(" -")]
    assert len(sums) == 2 and sums[0] == sums[1], done.stdout
