"""Cases in which NSCC and RCCC with packet trimming are held against uet-htsim.

That is the simulator of the Ultra Ethernet Consortium.

As a program it prints the table of docs/uec.md, or with htsim's program runs it
and writes what table and test read:

    python tests/uec.py
    python tests/uec.py HTSIM_UEC

HTSIM_UEC is the program `htsim_uec`, built. How to build it is in docs/uec.md.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onramp

DATA = Path(__file__).parent / "data/uec/htsim.json"

#: Flows as (source, destination, bytes, start [us]).
Flows = list[tuple[int, int, int, int]]

#: Seeds by hosts, 13 being htsim's default.
SEEDS = {16: (13, *range(1, 10)), 128: (13, 1, 2)}

#: Bytes of headers of a data packet.
HEADERS = 64

#: Transports here, and what has htsim run them.
TRANSPORTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "NSCC": ({"kind": "nscc"}, ["-sender_cc_only"]),
    # Of what it adds to receivers in oversubscribed networks nothing is in Ultra Ethernet 1.0.
    "RCCC": ({"kind": "rccc"}, ["-receiver_cc_only", "-force_disable_oversubscribed_cc"]),
    "NSCC and RCCC": ({"kind": "nscc", "credit": {}}, ["-sender_cc", "-receiver_cc"]),
}

#: Destinations of the permutation of 16 hosts in htsim's own validation.
PERMUTATION = (8, 4, 13, 10, 12, 15, 0, 9, 14, 7, 5, 3, 11, 6, 2, 1)


@dataclass(frozen=True)
class Case:
    """Flows in a fat tree of 16 or 128 hosts, with what differs from the defaults on either side."""

    hosts: int
    flows: Callable[[], Flows]
    #: Rate of all links.
    gbps: int = 100
    #: Bytes of a full packet.
    mtu: int = 4150
    #: Packets that a queue has room for, where nothing is trimmed.
    queue: int = 0
    #: Set if all leaves together have a quarter of their hosts' rate towards the spines.
    oversubscribed: bool = False
    #: Congestion control, of `TRANSPORTS`.
    control: str = "NSCC"

    @property
    def network(self) -> dict[str, Any]:
        """The network for this simulator."""
        rate = f"{self.gbps}Gbps"
        rates = {"host_rate": rate, "fabric_rate": rate}
        if self.oversubscribed:
            return {"kind": "leaf-spine", "leaves": 4, "spines": 8, "hosts_per_leaf": 32, **rates}
        half = {16: 2, 128: 4}[self.hosts]
        shape = {"pods": 2 * half, "tors_per_pod": half, "aggs_per_pod": half, "cores": half * half}
        return {"kind": "fat-tree", **shape, "hosts_per_tor": half, **rates}

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario without its traffic."""
        switch: dict[str, Any] = {"loss": "lossy", "ack_class": "control", "trim": "64B"}
        host: dict[str, Any] = {"payload": f"{self.mtu - HEADERS}B", "entropy": {"kind": "reps"}}
        if self.queue:
            del switch["trim"]
            size = self.queue * self.mtu
            switch["queue"] = [{"rate": f"{self.gbps}Gbps", "bytes": f"{size}B"}]
            # htsim's timeout: 15 us and six such queues.
            host["recovery"] = {"kind": "rud", "rto": f"{15_000 + round(6 * 8 * size / self.gbps)}ns"}
        return {
            "duration": "1s",
            "network": self.network,
            "host": host,
            "switch": switch,
            "transport": TRANSPORTS[self.control][0],
        }

    def arguments(self, folder: Path) -> list[str]:
        """Arguments of htsim."""
        found = [
            *TRANSPORTS[self.control][1],
            "-paths",
            "128",
            "-linkspeed",
            f"{self.gbps}000",
            "-mtu",
            str(self.mtu),
        ]
        if self.queue:
            found += ["-disable_trim", "-q", str(self.queue)]
        if self.oversubscribed:
            (folder / "net.topo").write_text(
                "Nodes 128\nTiers 2\nPodsize 128\n\n"
                "Tier 0\nDownlink_speed_Gbps 100\nRadix_Down 32\nRadix_Up 8\n"
                "Downlink_Latency_ns 1000\nOversubscribed 4\n\n"
                "Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 1000\n"
            )
            found += ["-topo", str(folder / "net.topo")]
        return found


def incast(senders: int, size: int, hosts: int) -> Flows:
    """Flows to the last host that start together."""
    return [(src, hosts - 1, size, 0) for src in range(senders)]


def permutation(hosts: int, size: int, seed: int) -> Flows:
    """A flow from each host to another one, each of which gets one."""
    draw = random.Random(seed)
    to = list(range(hosts))
    while any(src == dst for src, dst in enumerate(to)):
        draw.shuffle(to)
    return [(src, dst, size, 0) for src, dst in enumerate(to)]


def arrivals(hosts: int, count: int, load: float, seed: int) -> Flows:
    """Poisson arrivals of flows of 4 KB to 2 MB between random hosts, no two with the same ends."""
    draw = random.Random(seed)
    sizes = (4086, 40_860, 400_000, 2_000_000)
    gap = sum(sizes) / len(sizes) * 8 / (load * hosts * 100e3)
    at = 0.0
    used: set[tuple[int, int]] = set()
    found: Flows = []
    while len(found) < count:
        at += draw.expovariate(1 / gap)
        src, dst = draw.sample(range(hosts), 2)
        if (src, dst) not in used:
            used.add((src, dst))
            found.append((src, dst, draw.choice(sizes), int(at)))
    return found


MB = 1_000_000

CASES: dict[str, Case] = {
    "one flow, 2 MB": Case(16, lambda: [(0, 13, 2 * MB, 0)]),
    "incast 15:1, 2 MB": Case(16, lambda: incast(15, 2 * MB, 16)),
    "incast 127:1, 2 MB": Case(128, lambda: incast(127, 2 * MB, 128)),
    "permutation of 16, 2 MB": Case(16, lambda: [(s, d, 2 * MB, 0) for s, d in enumerate(PERMUTATION)]),
    "incast 3:1, 2 MB": Case(16, lambda: incast(3, 2 * MB, 16)),
    "incast 7:1, 2 MB": Case(16, lambda: incast(7, 2 * MB, 16)),
    "incast 15:1, 64 KB": Case(16, lambda: incast(15, 65_536, 16)),
    "incast 15:1, 8 MB": Case(16, lambda: incast(15, 8 * MB, 16)),
    "incast 63:1, 2 MB": Case(128, lambda: incast(63, 2 * MB, 128)),
    "incast 127:1, 100 KB": Case(128, lambda: incast(127, 100_000, 128)),
    "permutation of 16, 200 KB": Case(16, lambda: permutation(16, 200_000, 4)),
    "permutation of 16, 8 MB": Case(16, lambda: permutation(16, 8 * MB, 3)),
    "permutation of 128, 2 MB": Case(128, lambda: permutation(128, 2 * MB, 5)),
    "permutation of 128, 8 MB": Case(128, lambda: permutation(128, 8 * MB, 6)),
    "random 60%, 16 hosts": Case(16, lambda: arrivals(16, 150, 0.6, 7)),
    "random 60%, 128 hosts": Case(128, lambda: arrivals(128, 2000, 0.6, 8)),
    "random 80%, 128 hosts": Case(128, lambda: arrivals(128, 2000, 0.8, 9)),
    "permutation of 128 at 4:1, 2 MB": Case(128, lambda: permutation(128, 2 * MB, 5), oversubscribed=True),
    "incast 15:1 at 400 Gb/s, 2 MB": Case(16, lambda: incast(15, 2 * MB, 16), gbps=400),
    "permutation of 16 at 400 Gb/s, 8 MB": Case(16, lambda: permutation(16, 8 * MB, 3), gbps=400),
    "incast 15:1, packets of 1500 B": Case(16, lambda: incast(15, 2 * MB, 16), mtu=1500),
    "permutation of 16, packets of 1500 B": Case(16, lambda: permutation(16, 2 * MB, 3), mtu=1500),
    "incast 15:1, no trimming": Case(16, lambda: incast(15, 2 * MB, 16), queue=215),
    "incast 15:1, no trimming, short queue": Case(16, lambda: incast(15, 2 * MB, 16), queue=43),
    "incast 127:1, no trimming": Case(128, lambda: incast(127, 2 * MB, 128), queue=215),
    "permutation of 128, no trimming": Case(128, lambda: permutation(128, 2 * MB, 5), queue=215),
}


#: Those of them with credit of the receivers.
WITH_CREDIT = {
    "RCCC": (
        "one flow, 2 MB",
        "incast 15:1, 2 MB",
        "incast 127:1, 2 MB",
        "permutation of 16, 2 MB",
        "incast 3:1, 2 MB",
        "incast 15:1, 64 KB",
        "incast 15:1, 8 MB",
        "incast 127:1, 100 KB",
        "permutation of 16, 8 MB",
        "permutation of 128, 2 MB",
        "permutation of 128, 8 MB",
        "random 60%, 16 hosts",
        "permutation of 128 at 4:1, 2 MB",
        "incast 15:1 at 400 Gb/s, 2 MB",
        "incast 15:1, packets of 1500 B",
        "incast 15:1, no trimming",
        "incast 127:1, no trimming",
    ),
    "NSCC and RCCC": (
        "one flow, 2 MB",
        "incast 15:1, 2 MB",
        "incast 127:1, 2 MB",
        "permutation of 16, 2 MB",
        "incast 127:1, 100 KB",
        "permutation of 128, 2 MB",
        "permutation of 128, 8 MB",
        "random 60%, 16 hosts",
        "permutation of 128 at 4:1, 2 MB",
    ),
}


def fan() -> Flows:
    """Hosts 1, 2 and 3 to host 0, the latter two to nine more each: htsim's `outcast_incast.cm`."""
    to = {1: [0], 2: [0, *range(4, 13)], 3: [0, *range(13, 22)]}
    return [(src, dst, 2 * MB, 0) for src, dsts in to.items() for dst in dsts]


CASES |= {
    f"{control}, {name}": replace(CASES[name], control=control)
    for control, names in WITH_CREDIT.items()
    for name in names
}
CASES |= {
    f"{control}, outcast and incast": Case(128, fan, control=control) for control in ("RCCC", "NSCC and RCCC")
}


def of(times: NDArray[np.float64]) -> dict[str, float]:
    """Median, mean and longest completion time [us]."""
    return {"median": float(np.median(times)), "mean": float(times.mean()), "tail": float(times.max())}


def simulate(case: Case, seed: int) -> dict[str, float]:
    """A case in this simulator."""
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "flows.csv"
        rows = "".join(f"{src},{dst},{size},{1000 * at}\n" for src, dst, size, at in case.flows())
        file.write_text("src,dst,bytes,start_ns\n" + rows)
        traffic = [{"kind": "trace", "file": str(file), "format": "csv"}]
        result = onramp.run({**case.scenario, "traffic": traffic}, seed=seed, threads=1)
    times = np.array(result.flows["fct_ps"].to_pylist()) / 1e6
    again = sum(result.flows["retransmitted"].to_pylist())
    return {**of(times), "retransmitted": again}


def run_htsim(program: Path, case: Case, seed: int) -> dict[str, float]:
    """A case in htsim, whose connections start at whole microseconds."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        flows = case.flows()
        lines = [f"{src}->{dst} start {at} size {size}\n" for src, dst, size, at in flows]
        (folder / "flows.cm").write_text(f"Nodes {case.hosts}\nConnections {len(flows)}\n" + "".join(lines))
        command: list[str | Path] = [program, "-tm", "flows.cm", "-end", "100000"]
        command += ["-seed", str(seed), *case.arguments(folder)]
        run = subprocess.run(command, cwd=folder, text=True, check=True, stdout=subprocess.PIPE)
    starts, times = {}, []
    for flow, event, at in re.findall(
        r"^Flow \S+ flowId (\d+) .*?(starting|finished) at (\S+)", run.stdout, re.MULTILINE
    ):
        if event == "starting":
            starts[flow] = float(at)
        else:
            times.append(float(at) - starts[flow])
    if len(times) != len(flows):
        raise RuntimeError(f"{len(flows) - len(times)} flows did not complete in htsim")
    again = re.search(r"^New: \d+ +Rtx: (\d+)", run.stdout, re.MULTILINE)
    return {**of(np.array(times)), "retransmitted": int(again[1]) if again else 0}


def mean(runs: list[dict[str, float]]) -> dict[str, float]:
    """Means over seeds."""
    return {key: sum(run[key] for run in runs) / len(runs) for key in runs[0]}


@cache
def ours(name: str) -> dict[str, float]:
    """A case in this simulator: means over seeds."""
    return mean([simulate(CASES[name], seed) for seed in SEEDS[CASES[name].hosts]])


@cache
def recorded() -> dict[str, dict[str, float]]:
    """All cases in htsim, as recorded."""
    found: dict[str, dict[str, float]] = json.loads(DATA.read_text())
    return found


def record(program: Path) -> None:
    """Run htsim and write what it finds: means over seeds."""
    program = program.resolve()
    found = {
        name: {
            key: round(value, 3)
            for key, value in mean([run_htsim(program, case, seed) for seed in SEEDS[case.hosts]]).items()
        }
        for name, case in CASES.items()
    }
    DATA.parent.mkdir(parents=True, exist_ok=True)
    DATA.write_text(json.dumps(found, indent=1) + "\n")


def table() -> Iterator[str]:
    """All cases in Markdown."""
    yield (
        "| case | tail here [µs] | htsim | ratio | median, ratio | mean, ratio | retransmitted here, htsim |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, theirs in recorded().items():
        here = ours(name)
        ratio = {key: here[key] / theirs[key] for key in ("tail", "median", "mean")}
        yield (
            f"| {name} | {here['tail']:,.1f} | {theirs['tail']:,.1f} | **{ratio['tail']:.3f}** "
            f"| {ratio['median']:.3f} | {ratio['mean']:.3f} "
            f"| {here['retransmitted']:,.0f}, {theirs['retransmitted']:,.0f} |"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        record(Path(sys.argv[1]))
    else:
        print("\n".join(table()))
