"""Cases in which the simulator is held against HPCC's ns-3 simulator.

As a program it prints the table of docs/transports.md, or with a folder runs that simulator and writes the
completion times of flows that table and test read:

    python tests/hpcc_ns3.py
    python tests/hpcc_ns3.py SIMULATION [CASE ...]

SIMULATION is the folder `simulation` of that repository, built. How to build it is in docs/transports.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import onramp

#: Ends, bytes and start [ns] of a flow.
Key = tuple[int, int, int, int]
#: By class, mean and 95th percentile of completion times [ns] of every draw.
Statistics = dict[str, tuple[list[float], list[float]]]

DATA = Path(__file__).parent / "data/hpcc-ns3"

#: The controllers, by their names here; the other simulator's CC_MODE and what its run.py sets beside it.
PRESETS: dict[str, dict[str, Any]] = {
    "dcqcn": {"CC_MODE": 1, "HAS_WIN": 0, "VAR_WIN": 0, "ACK_HIGH_PRIO": 1},
    "hpcc": {"CC_MODE": 3, "HAS_WIN": 1, "VAR_WIN": 1, "ACK_HIGH_PRIO": 0, "FAST_REACT": 1},
    "timely": {"CC_MODE": 7, "HAS_WIN": 0, "VAR_WIN": 0, "ACK_HIGH_PRIO": 1},
    "dctcp": {"CC_MODE": 8, "HAS_WIN": 1, "VAR_WIN": 1, "ACK_HIGH_PRIO": 0, "EWMA_GAIN": 0.0625},
}

#: Payload of a full packet [B]. On the wire it has 1002 B, which take 320.64, 80.16 and 20.04 ns at 25, 100
#: and 400 Gb/s. The other simulator cuts that to nanoseconds, so that its links are 0.2% faster. With 1000 B
#: of payload, as its run.py has it, they would be 1.0% faster at 100 Gb/s and 4.8% at 400 Gb/s.
PAYLOAD = {"dcqcn": 954, "hpcc": 912, "timely": 946, "dctcp": 954}

#: Destination port of flows of an incast in the flow lists, as in that repository's; others have 100.
INCAST_PORT = 200

#: Classes of flows.
GROUPS = ("small", "medium", "large", "incast")


@dataclass(frozen=True)
class Link:
    """A link between nodes, hosts first."""

    a: int
    b: int
    gbps: int


@dataclass(frozen=True)
class Case:
    """A network and the number of draws (ECMP's hash, marking) on either side."""

    network: dict[str, Any]
    hosts: int
    switches: int
    links: tuple[Link, ...]
    draws: int
    #: Buffer of a switch [MiB], if not 16 for each 50 Gb/s of the hosts' links.
    buffer: int | None = None
    #: Whose flow list it has, if not its own.
    list: str | None = None

    @property
    def gbps(self) -> int:
        """Rate of the hosts' links."""
        return self.links[0].gbps

    def topology(self) -> str:
        """The network as the other simulator reads it."""
        nodes = self.hosts + self.switches
        lines = [f"{nodes} {self.switches} {len(self.links)}", " ".join(map(str, range(self.hosts, nodes)))]
        lines += [f"{link.a} {link.b} {link.gbps}Gbps 1000ns 0" for link in self.links]
        return "\n".join(lines) + "\n"


def star(gbps: int, buffer: int | None = None, flows: str | None = None) -> Case:
    """Seventeen hosts on a switch."""
    network = {"kind": "star", "hosts": 17, "host_rate": f"{gbps}Gbps"}
    links = tuple(Link(host, 17, gbps) for host in range(17))
    return Case(network, 17, 1, links, draws=6, buffer=buffer, list=flows)


def leaf_spine() -> Case:
    """Four leaves of eight hosts under two spines."""
    network = {
        "kind": "leaf-spine",
        "leaves": 4,
        "spines": 2,
        "hosts_per_leaf": 8,
    }
    links = [Link(host, 32 + host // 8, 100) for host in range(32)]
    links += [Link(32 + leaf, 36 + spine, 400) for leaf in range(4) for spine in range(2)]
    return Case(network, 32, 6, tuple(links), draws=5)


def fat_tree() -> Case:
    """The paper's 320 servers, as in that repository's fat.txt."""
    tors, aggs, cores = 320, 340, 360
    links = [Link(host, tors + host // 16, 100) for host in range(320)]
    links += [Link(tors + tor, aggs + tor // 4 * 4 + k, 400) for tor in range(20) for k in range(4)]
    links += [Link(aggs + agg, cores + agg % 4 * 4 + k, 400) for agg in range(20) for k in range(4)]
    return Case({"kind": "fat-tree"}, 320, 56, tuple(links), draws=4)


CASES: dict[str, Case] = {
    "star-25g": star(25),
    "star-100g": star(100),
    "star-100g-pfc": star(100, buffer=2, flows="star-100g"),
    "leaf-spine": leaf_spine(),
    "fat-tree": fat_tree(),
}


@dataclass(frozen=True)
class Flow:
    """A line of a flow list; `start` in nanoseconds."""

    src: int
    dst: int
    port: int
    size: int
    start: int

    @property
    def group(self) -> str:
        """Class by which it is summed up."""
        if self.port == INCAST_PORT:
            return "incast"
        return "small" if self.size <= 10_000 else "medium" if self.size <= 1_000_000 else "large"

    @property
    def key(self) -> Key:
        """What finds it in either simulator's results."""
        return self.src, self.dst, self.size, self.start

    def line(self, port: int, more: str = "") -> str:
        """The flow in a list, with `more` digits of its start."""
        seconds, nanoseconds = divmod(self.start, 10**9)
        return f"{self.src} {self.dst} 3 {port} {self.size} {seconds}.{nanoseconds:09}{more}\n"


def flows(case: str, draw: int) -> list[Flow]:
    """A draw of a case's flows: as listed, each moved by less than a microsecond but in the first draw.

    Which of several flows that meet is cut first decides microseconds of others; draws average over that.
    """
    moves = np.random.default_rng(draw).integers(1000, size=10_000) if draw else np.zeros(10_000, dtype=int)
    listed = []
    file = DATA / f"{CASES[case].list or case}.flow"
    for line, move in zip(file.read_text().splitlines()[1:], moves, strict=False):
        src, dst, _, port, size, start = line.split()
        at = round(float(start) * 1e9) + int(move)
        listed.append(Flow(int(src), int(dst), int(port), int(size), at))
    return sorted(listed, key=lambda flow: flow.start)


def statistics(listed: list[Flow], times: Mapping[Key, float]) -> dict[str, tuple[float, float]]:
    """Mean and 95th percentile of completion times [ns] by class."""
    found = {}
    for group in GROUPS:
        of = np.array([times[flow.key] for flow in listed if flow.group == group])
        found[group] = float(of.mean()), float(np.percentile(of, 95))
    return found


def config(case: Case, cc: str, folder: Path) -> str:
    """The other simulator's configuration, as its run.py writes it for links of this rate."""
    gbps = case.gbps
    increases = {
        "dcqcn": (5 * gbps // 25, 50 * gbps // 25),
        "hpcc": (10 * gbps // 25, 10 * gbps // 25),
        "timely": (gbps, 5 * gbps),
        "dctcp": (10, 10),
    }
    low, high, most = (30 * gbps // 10, 30 * gbps // 10, 1.0) if cc == "dctcp" else (4 * gbps, 16 * gbps, 0.2)

    def by_rate(value: float, scale: int) -> str:
        return f"2 {gbps}000000000 {value} {4 * gbps}000000000 {value * scale}"

    settings = {
        "ENABLE_QCN": 1,
        "USE_DYNAMIC_PFC_THRESHOLD": 1,
        "PACKET_PAYLOAD_SIZE": PAYLOAD[cc],
        "TOPOLOGY_FILE": folder / "topology.txt",
        "FLOW_FILE": folder / "flows.txt",
        "TRACE_FILE": folder / "trace.txt",
        "TRACE_OUTPUT_FILE": folder / "trace.tr",
        "FCT_OUTPUT_FILE": folder / "fct.txt",
        "PFC_OUTPUT_FILE": folder / "pfc.txt",
        "SIMULATOR_STOP_TIME": 1.0,
        "ALPHA_RESUME_INTERVAL": 1,
        "RATE_DECREASE_INTERVAL": 4,
        "CLAMP_TARGET_RATE": 0,
        "RP_TIMER": 300,
        "EWMA_GAIN": 0.00390625,
        "FAST_RECOVERY_TIMES": 1,
        "RATE_AI": f"{increases[cc][0]}Mb/s",
        "RATE_HAI": f"{increases[cc][1]}Mb/s",
        "MIN_RATE": "1000Mb/s",
        "DCTCP_RATE_AI": "615Mb/s",
        "ERROR_RATE_PER_LINK": 0.0,
        "L2_CHUNK_SIZE": 4000,
        "L2_ACK_INTERVAL": 1,
        "L2_BACK_TO_ZERO": 0,
        "GLOBAL_T": 1,
        "FAST_REACT": 0,
        "U_TARGET": 0.95,
        "MI_THRESH": 0,
        "INT_MULTI": gbps // 25,
        "MULTI_RATE": 0,
        "SAMPLE_FEEDBACK": 0,
        "RATE_BOUND": 1,
        "LINK_DOWN": "0 0 0",
        "ENABLE_TRACE": 0,
        "KMAX_MAP": by_rate(high, 4),
        "KMIN_MAP": by_rate(low, 4),
        "PMAX_MAP": by_rate(most, 1),
        "BUFFER_SIZE": case.buffer or 16 * gbps // 50,
        "QLEN_MON_FILE": folder / "qlen.txt",
        # Later than the end: run.py has every queue looked at every 100 ns.
        "QLEN_MON_START": 2_000_000_000,
        "QLEN_MON_END": 2_000_000_000,
        **PRESETS[cc],
    }
    return "".join(f"{key} {value}\n" for key, value in settings.items())


def by_draw(found: Iterable[dict[str, tuple[float, float]]]) -> Statistics:
    """Statistics of draws, class by class."""
    draws = list(found)
    return {
        group: ([draw[group][0] for draw in draws], [draw[group][1] for draw in draws]) for group in GROUPS
    }


def simulate(name: str, cc: str, draw: int) -> dict[Key, float]:
    """Completion times [ns] of a draw in this simulator, whose defaults are those of the other's run.py."""
    listed = flows(name, draw)
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "flows.txt"
        file.write_text(f"{len(listed)}\n" + "".join(flow.line(flow.port) for flow in listed))
        scenario = {
            "duration": "10ms",
            "network": CASES[name].network,
            "switch": {"buffer": f"{CASES[name].buffer}MiB"} if CASES[name].buffer else {},
            "host": {"payload": f"{PAYLOAD[cc]}B"},
            "transport": {"kind": cc},
            "traffic": [{"kind": "trace", "file": str(file), "format": "hpcc"}],
        }
        table = onramp.run(scenario, seed=draw + 1, threads=1).flows
    columns = (table[column].to_pylist() for column in ("src", "dst", "bytes", "start_ps", "fct_ps"))
    rows = zip(*columns, strict=True)
    return {(src, dst, size, start // 1000): fct / 1000 for src, dst, size, start, fct in rows}


@cache
def simulated(name: str, cc: str) -> Statistics:
    """Statistics of this simulator."""
    draws = range(CASES[name].draws)
    return by_draw(statistics(flows(name, draw), simulate(name, cc, draw)) for draw in draws)


def run_ns3(simulation: Path, name: str, cc: str, draw: int) -> dict[Key, float]:
    """Completion times [ns] of a draw in the other simulator.

    Ports, which ECMP hashes, and its stream of random numbers differ from draw to draw.
    """
    case, listed = CASES[name], flows(name, draw)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "topology.txt").write_text(case.topology())
        (folder / "trace.txt").write_text("0\n")
        # It cuts times to nanoseconds: half of one more leaves them what they are.
        lines = (flow.line(flow.port + 1000 * draw, "5") for flow in listed)
        (folder / "flows.txt").write_text(f"{len(listed)}\n" + "".join(lines))
        (folder / "config.txt").write_text(config(case, cc, folder))
        build = simulation / "build"
        environment = os.environ | {
            "LD_LIBRARY_PATH": str(build),
            "NS_GLOBAL_VALUE": f"RngRun={draw + 1}",
        }
        subprocess.run(
            [build / "scratch/third", folder / "config.txt"],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return dict(finished((folder / "fct.txt").read_text().splitlines()))


def finished(lines: Iterable[str]) -> Iterator[tuple[Key, float]]:
    """Flows and their completion times from the other simulator's output."""
    for line in lines:
        source, destination, _, _, size, start, fct, _ = line.split()
        # 11.x.y.1 is host 256 x + y.
        src, dst = (int(address, 16) >> 8 & 0xFFFF for address in (source, destination))
        yield (src, dst, int(size), int(start)), float(fct)


def record(simulation: Path, names: list[str]) -> None:
    """Run the other simulator on the cases named, or on all, and write its statistics."""
    for name in names or CASES:
        for cc in PRESETS:
            draws = range(CASES[name].draws)
            found = by_draw(
                statistics(flows(name, draw), run_ns3(simulation, name, cc, draw)) for draw in draws
            )
            rounded = {group: [[round(ns) for ns in of] for of in both] for group, both in found.items()}
            recorded_in(name, cc).write_text(json.dumps(rounded) + "\n")
            print(f"{name} {cc}", flush=True)


def recorded_in(name: str, cc: str) -> Path:
    """File of the other simulator's statistics."""
    return DATA / f"{name}-{cc}.json"


def ratios(name: str, cc: str) -> dict[str, tuple[float, float]]:
    """By class, mean and 95th percentile, each a mean over draws: this simulator's over the other's."""
    ours, theirs = simulated(name, cc), json.loads(recorded_in(name, cc).read_text())

    def ratio(group: str, i: int) -> float:
        return float(np.mean(ours[group][i]) / np.mean(theirs[group][i]))

    return {group: (ratio(group, 0), ratio(group, 1)) for group in GROUPS}


def table() -> Iterator[str]:
    """Ratios of all cases in Markdown: mean, 95th percentile."""
    yield f"| | | {' | '.join(GROUPS)} |"
    yield "|" + " --- |" * (2 + len(GROUPS))
    for name in CASES:
        for cc in PRESETS:
            of = ratios(name, cc)
            numbers = " | ".join(f"{mean:.3f}, {p95:.3f}" for mean, p95 in of.values())
            yield f"| {name} | {cc} | {numbers} |"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        record(Path(sys.argv[1]), sys.argv[2:])
    else:
        print("\n".join(table()))
