"""Cases in which the simulator is held against htsim.

As a program it prints the table of docs/transports.md, or with a folder runs htsim and writes the completion
times of flows that table and test read:

    python tests/htsim.py
    python tests/htsim.py SIM [TRANSPORT ...]

SIM is htsim's folder `sim`, built. How to build it, and how to change a copy, is in docs/transports.md.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onramp

#: Completion times [ns] of a case's flows, in the list's order.
Times = NDArray[np.int64]

DATA = Path(__file__).parent / "data/htsim"

#: Hosts of every network.
HOSTS = 16

#: Classes of flows.
GROUPS = ("small", "medium", "large", "incast")

#: Bytes of flows [B] and the percentage of WebSearch's flows that have at most these, below 5 MB.
WEBSEARCH = (
    (0, 0), (10_000, 15), (20_000, 20), (30_000, 30), (50_000, 40), (80_000, 53), (200_000, 60),
    (1_000_000, 70), (2_000_000, 80), (5_000_000, 90),
)  # fmt: skip

#: Delay of a link [ps] at 100 Gb/s; ten times that at 10 Gb/s.
DELAY = 1_000_000


@dataclass(frozen=True)
class Flow:
    """A flow; `start` [ns] is that at 100 Gb/s."""

    src: int
    dst: int
    size: int
    start: int
    incast: bool = False

    @property
    def group(self) -> str:
        """Class by which it is summed up."""
        if self.incast:
            return "incast"
        return "small" if self.size <= 10_000 else "medium" if self.size <= 1_000_000 else "large"


@dataclass(frozen=True)
class Case:
    """A network, its flows, of which no two of a draw have the same ends, and the number of draws."""

    leaves: int
    spines: int
    #: Rate of links between switches over that of hosts' links.
    faster: int
    #: Flows of a draw.
    flows: Callable[[int], tuple[Flow, ...]]
    draws: int

    def network(self, gbps: int, delay: int) -> dict[str, Any]:
        """The network for this simulator, with hosts' links of that rate, and the delay [ps] of all links."""
        rate = f"{gbps}Gbps"
        if self.leaves == 1:
            return {"kind": "star", "hosts": HOSTS, "host_rate": rate, "link_delay": f"{delay}ps"}
        return {
            "kind": "leaf-spine",
            "leaves": self.leaves,
            "spines": self.spines,
            "hosts_per_leaf": HOSTS // self.leaves,
            "host_rate": rate,
            "fabric_rate": f"{gbps * self.faster}Gbps",
            "link_delay": f"{delay}ps",
        }


def alone() -> tuple[Flow, ...]:
    """Flows that have the network for themselves."""
    sizes = (3_000, 50_000, 400_000, 4_000_000)
    return tuple(Flow(2 * i, 2 * i + 1, size, 1_000_000 * i) for i, size in enumerate(sizes))


def incasts(senders: int, receivers: int, seed: int) -> tuple[Flow, ...]:
    """Incasts of 100 to 500 KB, one after the other, whose flows start within a microsecond."""
    draw = random.Random(seed)
    return tuple(
        Flow((to + i + 1) % HOSTS, to, 100_000 + int(draw.random() * 400_000), at, incast=True)
        for to in range(receivers)
        for i in range(senders)
        for at in [2_000_000 * to + int(draw.random() * 1000)]
    )


def permutation() -> tuple[Flow, ...]:
    """A flow of 2 MB from each host to one under the next leaf."""
    return tuple(Flow(host, (host + 4) % HOSTS, 2_000_000, 100 * host) for host in range(HOSTS))


def websearch(count: int, load: float, seed: int, taken: tuple[Flow, ...] = ()) -> tuple[Flow, ...]:
    """Flows of WebSearch below 5 MB, Poisson arrivals between random hosts, with those `taken`."""
    draw = random.Random(seed)
    mean = sum((a + b) / 2 * (q - p) for (a, p), (b, q) in pairwise(WEBSEARCH)) / WEBSEARCH[-1][1]
    used = {(flow.src, flow.dst) for flow in taken}
    found, at = list(taken), 0.0
    while len(found) < count:
        # 100 Gb/s are 12.5 B/ns.
        at -= float(np.log(1 - draw.random())) * mean / (load * HOSTS * 12.5)
        ends = int(draw.random() * HOSTS), int(draw.random() * HOSTS)
        percent = draw.random() * WEBSEARCH[-1][1]
        if ends[0] == ends[1] or ends in used:
            continue
        used.add(ends)
        (a, p), (b, q) = next(pair for pair in pairwise(WEBSEARCH) if percent <= pair[1][1])
        found.append(Flow(*ends, max(1, int(a + (b - a) * (percent - p) / (q - p))), int(at)))
    return tuple(sorted(found, key=lambda flow: flow.start))


def two_incasts() -> tuple[Flow, ...]:
    """Two incasts of 15 flows of 100 KB, 300 µs apart."""
    return tuple(
        Flow(src, to, 100_000, 200_000 + 300_000 * to + 10 * src, incast=True)
        for to in range(2)
        for src in range(HOSTS)
        if src != to
    )


CASES: dict[str, Case] = {
    "alone": Case(1, 0, 1, lambda _: alone(), draws=1),
    "incast-8": Case(1, 0, 1, lambda draw: incasts(8, 10, seed=draw), draws=5),
    "incast-15": Case(1, 0, 1, lambda draw: incasts(15, 10, seed=draw), draws=5),
    "permutation": Case(4, 4, 1, lambda _: permutation(), draws=40),
    "star": Case(1, 0, 1, lambda draw: websearch(200, 0.4, draw), draws=8),
    "leaf-spine": Case(4, 2, 4, lambda draw: websearch(220, 0.4, draw, two_incasts()), draws=8),
}


@dataclass(frozen=True)
class Transport:
    """A transport on both sides."""

    #: Kind of htsim's senders.
    kind: str
    #: Rate of all links.
    gbps: int
    #: Bytes of a full packet on the wire, and its payload.
    packet: int
    payload: int
    #: Buffer of htsim's ports and the queue above which they mark [packets].
    buffer: int
    threshold: int
    #: Window of a new flow [packets].
    window: int
    #: Scenario of this simulator.
    scenario: dict[str, Any]
    #: Set if SIM is a copy that was made equal to this simulator.
    changed: bool = False
    #: Draws for each of a case that has several.
    times: int = 1

    @property
    def slower(self) -> int:
        """Factor of all times over those at 100 Gb/s."""
        return 100 // self.gbps

    def switch(self, case: Case) -> dict[str, Any]:
        """Keys of `switch`: all ports mark at the same queue, whatever their rate, or none does."""
        marks: dict[str, Any] = {"kmin": f"{self.threshold * self.packet}B", "pmax": 1.0}
        rates = {self.gbps, self.gbps * case.faster} if self.threshold < self.buffer else set()
        ecn = [{"rate": f"{rate}Gbps", "kmax": marks["kmin"], **marks} for rate in sorted(rates)]
        return {**self.scenario.get("switch", {}), "ecn": ecn}

    def packets(self, flow: Flow) -> int:
        """Packets of a flow, all of which are full."""
        return -(-flow.size // self.payload)

    def starts(self, flows: tuple[Flow, ...], draw: int) -> list[int]:
        """Starts [ns] of a draw's flows, each moved by less than a microsecond, so that none coincide."""
        moves = random.Random(draw)
        return [flow.start * self.slower + int(moves.random() * 1000) for flow in flows]


def swift(**keys: str) -> dict[str, Any]:
    """The scenario of Swift, whose headers are 56 B; the smallest window is htsim's 10 B."""
    return {
        "transport": {"kind": "swift", "endpoint_window": False, "min_window": 10 / 4000, **keys},
        "host": {"payload": "3944B"},
        "switch": {"loss": "lossy", "buffer": "1GB"},
    }


#: Delay that a hop adds to Swift's target in htsim [ps]: base/6.55. Hops are links there, switches here.
HOP = 3_053_435

#: DCTCP with segments of one packet, marked where more than 65 packets wait; alpha begins at 0, as in htsim.
DCTCP = Transport(
    "dctcp", 10, 1514, 1448, 10_000, 65, 10,
    {
        "transport": {"kind": "dctcp-tcp", "alpha_on_init": 0},
        "linux": {"buffer_packets": 10_000, "qdisc": "fq_codel", "gso_max_size": "1514B"},
    },
    # Eight draws have 250 small flows, whose mean hangs on the dozen of them that meets a queue.
    times=5,
)  # fmt: skip

TRANSPORTS: dict[str, Transport] = {
    "swift": Transport("swift", 100, 4000, 3944, 10_000, 10_000, 15, swift(hop="0ps")),
    "swift-equal": Transport(
        "swift", 100, 4000, 3944, 10_000, 10_000, 15,
        swift(base_target=f"{20_000_000 + HOP}ps", hop=f"{HOP}ps"),
        changed=True,
    ),
    "dctcp": DCTCP,
    "dctcp-equal": replace(DCTCP, changed=True),
}  # fmt: skip


def draws(name: str, transport: str) -> range:
    """A case's draws with a transport."""
    number = CASES[name].draws
    return range(number * TRANSPORTS[transport].times if number > 1 else 1)


def simulate(name: str, transport: str, draw: int) -> Times:
    """Completion times of a draw in this simulator."""
    case, own = CASES[name], TRANSPORTS[transport]
    flows = case.flows(draw)
    starts = own.starts(flows, draw)
    lines = [
        f"{flow.src},{flow.dst},{own.packets(flow) * own.payload},{start}\n"
        for start, flow in sorted(zip(starts, flows, strict=True), key=lambda row: row[0])
    ]
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "flows.csv"
        file.write_text("src,dst,bytes,start_ns\n" + "".join(lines))
        scenario = {
            **own.scenario,
            "switch": own.switch(case),
            "duration": "10ms",
            "network": case.network(own.gbps, DELAY * own.slower),
            "traffic": [{"kind": "trace", "file": str(file), "format": "csv"}],
        }
        table = onramp.run(scenario, seed=draw + 1, threads=1).flows
    columns = (table[column].to_pylist() for column in ("src", "dst", "fct_ps", "retransmitted"))
    found = {}
    for src, dst, fct, retransmitted in zip(*columns, strict=True):
        if retransmitted:
            raise RuntimeError(f"{name}, {transport}: the flow from {src} to {dst} lost packets")
        found[src, dst] = round(fct / 1000)
    return np.array([found[flow.src, flow.dst] for flow in flows])


@cache
def simulated(name: str, transport: str) -> Times:
    """Completion times in this simulator, a row for each draw."""
    return np.array([simulate(name, transport, draw) for draw in draws(name, transport)])


def run_htsim(program: Path, name: str, transport: str, draw: int) -> Times:
    """Completion times of a draw in htsim. Its paths differ from draw to draw."""
    case, own = CASES[name], TRANSPORTS[transport]
    flows = case.flows(draw)
    rates = f"{own.gbps} {own.gbps * case.faster} {DELAY * own.slower}"
    lines = [
        f"{case.leaves} {case.spines} {HOSTS // case.leaves} {rates} "
        f"{own.packet} {own.buffer} {own.threshold} {own.window} {draw + 1}\n"
    ]
    for start, flow in zip(own.starts(flows, draw), flows, strict=True):
        lines.append(f"{flow.src} {flow.dst} {own.packets(flow)} {start * 1000}\n")
    run = subprocess.run(
        [program, own.kind], input="".join(lines), text=True, check=True, stdout=subprocess.PIPE
    )
    times = [int(line.split()[1]) for line in run.stdout.splitlines()]
    if min(times) < 0:
        raise RuntimeError(f"{name}, {transport}: a flow did not complete in htsim")
    return np.array([round(ps / 1000) for ps in times])


def record(sim: Path, names: list[str]) -> None:
    """Run htsim with the transports named, or all but changed ones, and write its completion times."""
    commit = subprocess.run(
        ["git", "-C", sim, "rev-parse", "HEAD"], text=True, check=True, stdout=subprocess.PIPE
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as temporary:
        program = Path(temporary) / "htsim-flows"
        source = Path(__file__).with_suffix(".cpp")
        command: list[str | Path] = [
            "g++",
            "-std=c++14",
            "-O2",
            f"-I{sim}",
            source,
            f"-L{sim}",
            "-lhtsim",
            "-o",
            program,
        ]
        subprocess.run(command, check=True)
        for transport in names or [name for name, own in TRANSPORTS.items() if not own.changed]:
            for name in CASES:
                found = [run_htsim(program, name, transport, draw) for draw in draws(name, transport)]
                lines = [" ".join(map(str, times)) + "\n" for times in found]
                head = f"# htsim {commit}{', changed' if TRANSPORTS[transport].changed else ''}: FCT [ns]\n"
                recorded_in(name, transport).write_text(head + "".join(lines))
                print(f"{name} {transport}", flush=True)


def recorded_in(name: str, transport: str) -> Path:
    """File of htsim's completion times: a line for each draw, a number [ns] for each flow."""
    return DATA / f"{name}-{transport}.txt"


@cache
def groups(name: str, number: int) -> NDArray[np.str_]:
    """Classes of the flows of so many draws."""
    return np.array([[flow.group for flow in CASES[name].flows(draw)] for draw in range(number)])


def statistics(name: str, times: Times, taken: Times) -> dict[str, tuple[float, float]]:
    """Mean and 95th percentile [ns] by class, of all draws `taken` together."""
    classes, times = groups(name, len(times))[taken], times[taken]
    of = {group: times[classes == group] for group in GROUPS if group in classes}
    return {group: (float(all_.mean()), float(np.percentile(all_, 95))) for group, all_ in of.items()}


def recorded(name: str, transport: str) -> Times:
    """Completion times in htsim, a row for each draw."""
    return np.atleast_2d(np.loadtxt(recorded_in(name, transport), dtype=np.int64))


def ratios_of(name: str, ours: Times, theirs: Times, taken: Times) -> dict[str, tuple[float, float]]:
    """By class, mean and 95th percentile: ours over theirs, of the draws `taken`."""
    pairs = statistics(name, ours, taken), statistics(name, theirs, taken)
    return {
        group: (own[0] / pairs[1][group][0], own[1] / pairs[1][group][1]) for group, own in pairs[0].items()
    }


def ratios(name: str, transport: str) -> dict[str, tuple[float, float]]:
    """By class, mean and 95th percentile: this simulator's over htsim's."""
    ours = simulated(name, transport)
    return ratios_of(name, ours, recorded(name, transport), np.arange(len(ours)))


def deviations(name: str, transport: str, resamples: int = 200) -> dict[str, NDArray[np.float64]]:
    """By class, of both ratios: 1.96 standard deviations over draws taken again at random."""
    ours, theirs = simulated(name, transport), recorded(name, transport)
    rng, number = np.random.default_rng(1), len(ours)
    found = [
        ratios_of(name, ours, theirs, taken)
        for taken in (rng.integers(0, number, number) for _ in range(resamples))
    ]
    return {group: 1.96 * np.std([one[group] for one in found], axis=0) for group in found[0]}


def table() -> Iterator[str]:
    """Ratios of all cases in Markdown: mean, 95th percentile; `±` where there are several draws."""
    yield f"| | | {' | '.join(GROUPS)} |"
    yield "|" + " --- |" * (2 + len(GROUPS))
    for name in CASES:
        for transport in TRANSPORTS:
            cells = {
                group: [f"{ratio:.3f}" for ratio in both] for group, both in ratios(name, transport).items()
            }
            if len(draws(name, transport)) > 1:
                for group, both in deviations(name, transport).items():
                    cells[group] = [
                        f"{ratio} ± {by:.3f}" for ratio, by in zip(cells[group], both, strict=True)
                    ]
            yield f"| {name} | {transport} | {' | '.join(', '.join(cells.get(g, [])) for g in GROUPS)} |"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        record(Path(sys.argv[1]), sys.argv[2:])
    else:
        print("\n".join(table()))
