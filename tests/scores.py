"""Training workloads of other simulators, beside what these say.

As a program it prints the tables of docs/scores.md, or runs another simulator and writes what tables and
tests read:

    python tests/scores.py
    python tests/scores.py astra-sim PROGRAM EXAMPLES
    python tests/scores.py htsim HTSIM_UEC TXT2BIN
    python tests/scores.py simai-experts SIMAI_SIMULATOR TOPOLOGIES CONFIG

How to build them is in docs/scores.md.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import onramp
from onramp import examples
from onramp.markdown import table
from onramp.result import Result
from onramp.studies.collectives import bandwidth, iteration

DATA = Path(__file__).parent / "data/scores"
KIB, MIB = 1 << 10, 1 << 20
#: Packets are retransmitted out of order, and queues trim: as htsim's.
UNORDERED: Mapping[str, Any] = {
    "host": {"payload": "4086B", "entropy": {"kind": "reps"}},
    "switch": {"loss": "lossy", "trim": "64B", "ack_class": "control"},
    "transport": {"kind": "nscc"},
}


@dataclass(frozen=True)
class Case:
    """A workload, and a number that the other simulator tells of it."""

    #: For which there is a folder.
    scenario: Callable[[Path], str | Path | Mapping[str, Any]]
    value: Callable[[Result], float]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    #: Over which to take the mean.
    seeds: Iterable[int] = (1,)

    @property
    def here(self) -> float:
        """The number in this simulator."""
        with tempfile.TemporaryDirectory() as temporary:
            scenario = self.scenario(Path(temporary))
            values = (onramp.run(scenario, {**self.overrides, "seed": s}, threads=1) for s in self.seeds)
            return fmean(map(self.value, values))


def microseconds(result: Result) -> float:
    """Time until everything is done."""
    return 1e3 * iteration(result)


# ASTRA-sim ------------------------------------------------------------------------------------------------

#: Operations of its microbenchmarks, and the whole buffer [MiB] of n ranks: an all-gather's size is a rank's.
OPERATIONS: Mapping[str, Callable[[int], int]] = {
    "all-reduce": lambda _: 1,
    "all-gather": lambda ranks: ranks,
    "reduce-scatter": lambda _: 1,
    "all-to-all": lambda _: 1,
}


def ring(operation: str, ranks: int, _: Path) -> dict[str, Any]:
    """Ranks in a ring, links of 50 GiB/s and 500 ns, and four parts of the buffer one after the other."""
    links = [{"a": f"h{i}", "b": f"s{i}", "rate": "8Tbps", "delay": "0ns"} for i in range(ranks)]
    links += [
        {"a": f"s{i}", "b": f"s{(i + 1) % ranks}", "rate": f"{50 * 1024 * 8 * MIB}bps", "delay": "500ns"}
        for i in range(ranks)
    ]
    return {
        "duration": "1ms",
        "network": {
            "kind": "links",
            "hosts": [f"h{i}" for i in range(ranks)],
            "switches": [f"s{i}" for i in range(ranks)],
            "links": links,
        },
        "host": {"payload": "9000B"},
        "transport": {"kind": "dcqcn"},
        "traffic": [
            {
                "kind": "collective",
                "operation": operation,
                "size": f"{OPERATIONS[operation](ranks) * MIB // 4}B",
                "chunk": "1GB",
                "repeat": 4,
            }
        ],
    }


def whole(result: Result) -> float:
    """Time until all four parts are done [us]."""
    return 4 * microseconds(result)


ASTRA = {
    f"{operation}, {ranks} ranks": Case(partial(ring, operation, ranks), whole)
    for operation in OPERATIONS
    for ranks in (4, 8, 16)
}


def run_astra(program: Path, folder: Path, case: str) -> float:
    """A microbenchmark of ASTRA-sim: its time [us]."""
    operation, ranks, _ = re.split(", | ", case)
    name = operation.replace("-", "_")
    command: list[str | Path] = [
        program,
        f"--workload-configuration={folder}/workload/microbenchmarks/{name}/{ranks}npus_1MB/{name}",
        f"--system-configuration={folder}/system/native_collectives/Ring_4chunks.json",
        f"--remote-memory-configuration={folder}/remote_memory/analytical/no_memory_expansion.json",
        f"--network-configuration={folder}/network/analytical/Ring_{ranks}npus.yml",
    ]
    run = subprocess.run(command, text=True, check=True, capture_output=True)
    return max(map(int, re.findall(r"finished, (\d+) cycles", run.stdout + run.stderr))) / 1e3


# SimAI ----------------------------------------------------------------------------------------------------


#: Bandwidths are in GiB/s there.
GIB = 1.024**3


def tutorial(name: str, size: str, seeds: Iterable[int]) -> Case:
    """An all-reduce of its tutorial."""
    scenario = examples.FOLDER / f"collectives/{name}.toml"
    return Case(lambda _: scenario, lambda result: bandwidth(result) / GIB, {"traffic.0.size": size}, seeds)


#: Scenarios, and seeds. On DCN+ hashes decide: SimAI's numbers are means of its eight rings, of five sets
#: of hashes up to 128 MiB, then three and one.
NETWORKS: Mapping[str, tuple[str, Iterable[int]]] = {
    "in servers of 8, ring": ("simai-tensor", (1,)),
    "of 256, Spectrum-X": ("simai-rails", (1,)),
    "of 256, DCN+": ("simai-racks", range(1, 6)),
}
SIMAI = {
    f"all-reduce {where}, {size} MiB": tutorial(name, f"{size}MiB", seeds)
    for where, (name, seeds) in NETWORKS.items()
    for size in (16, 32, 64, 128, 256, 512)
}

#: What a stage of GPT-13B holds in bytes: activations of a layer, parameters, embedding.
ACTIVATIONS, PARAMETERS, EMBEDDING = 41_943_040, 1_942_896_640, 514_631_680


#: What is communicated in a pass, and its size.
Pass = tuple[str, int]
NOTHING: Pass = ("NONE", 0)


def line(name: str, forward: Pass = NOTHING, inputs: Pass = NOTHING, weights: Pass = NOTHING) -> str:
    """A layer of AICB's, without computation."""
    passes = (forward, inputs, weights)
    return "\t".join([name, "-1", *(f"1\t{kind}\t{size}" for kind, size in passes), "100"])


def workload(shape: str, lines: list[str]) -> str:
    """A file of AICB's."""
    head = f"HYBRID_TRANSFORMER_FWD_IN_BCKWD {shape} checkpoints: 0 checkpoint_initiates: 0"
    return "\n".join([head, str(len(lines)), *lines, ""])


def gpt(layers: int, parameters: int, embedding: int) -> str:
    """AICB's workload of GPT-13B, tensor parallel by 8 on 128 GPUs, one microbatch."""
    gather, scatter = ("ALLGATHER", ACTIVATIONS), ("REDUCESCATTER", ACTIVATIONS)
    parts = [line("attention_column", gather), line("attention_row", scatter)]
    parts += [line("mlp_column", gather), line("mlp_row", scatter)]
    lines = [
        line("grad_norm", ("ALLGATHER", parameters), weights=("REDUCESCATTER", 2 * parameters)),
        line("embedding_layer"),
        *(parts * layers),
        line("final_column", gather),
        line("embedding_norm", ("ALLREDUCE", embedding)),
        *(line(f"cross_entropy{i}", ("ALLREDUCE", 16384)) for i in range(3)),
        *(line(f"optimizer{i}", ("ALLREDUCE", 4)) for i in range(4)),
    ]
    return workload("model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 20 ga: 1 all_gpus: 128", lines)


@dataclass(frozen=True)
class Experts:
    """A job with mixtures of experts, tensor parallel by 2, one microbatch: ranks, and sizes in bytes."""

    gpus: int
    #: Ranks that the experts of a layer are spread over.
    ranks: int
    layers: int
    #: Of a layer: activations, what the router gathers, what is sent to experts, what these gather.
    activations: int
    router: int
    sent: int
    gathered: int
    #: Parameters that all have, those of experts, embedding, loss.
    parameters: int
    experts: int
    embedding: int
    loss: int

    def shaped(self, lines: list[str]) -> str:
        """Lines as a file."""
        shape = f"model_parallel_NPU_group: 2 ep: {self.ranks} pp: 1 vpp: 1 ga: 1 all_gpus: {self.gpus}"
        return workload(shape, lines)

    @property
    def text(self) -> str:
        """AICB's workload of an iteration."""
        gather, scatter, exchange = "ALLGATHER", "REDUCESCATTER", ("ALLTOALL_EP", self.sent)
        layer = [
            line("attention_column", (gather, self.activations)),
            line("attention_row", (scatter, self.activations)),
            line("mlp_moelayer", (gather, self.router)),
            line("mlp_moelayer", exchange, exchange),
            line("mlp_moelayer", (gather, self.gathered), (scatter, self.gathered)),
            line("mlp_moelayer", (scatter, self.gathered), (gather, self.gathered)),
            line("mlp_moelayer", exchange, exchange),
        ]
        lines = [
            line("grad_norm", (gather, self.parameters), weights=(scatter, 2 * self.parameters)),
            line("moe_grad_norm1", weights=("ALLGATHER_DP_EP", self.experts)),
            line("moe_grad_norm2", weights=("REDUCESCATTER_DP_EP", 2 * self.experts)),
            line("embedding_layer"),
            *(layer * self.layers),
            line("final_column", (gather, self.activations)),
            line("embedding_norm", ("ALLREDUCE", self.embedding)),
            *(line(f"cross_entropy{i}", ("ALLREDUCE", self.loss)) for i in range(3)),
            *(line(f"optimizer{i}", ("ALLREDUCE", 4)) for i in range(4)),
        ]
        return self.shaped(lines)


#: A message takes AS_SEND_LAT before it, and after it the last acknowledgement; collectives take turns;
#: rings change rails between servers.
SIMAIS_RULES: Mapping[str, Any] = {
    "send_latency": "3us",
    "acknowledged": True,
    "in_turn": True,
    "cross_nic": True,
}


def training(
    text: str, gpus: int = 128, value: Callable[[Result], float] = iteration, queue_pairs: int = 1
) -> Case:
    """A workload on Spectrum-X with A100, 100 Gb/s each."""

    def scenario(folder: Path) -> dict[str, Any]:
        file = folder / "job.txt"
        file.write_text(text)
        rates = {"host_rate": "100Gbps", "fabric_rate": "400Gbps", "nvlink_rate": "2400Gbps"}
        marks = {"100Gbps": (400, 1600), "400Gbps": (800, 3200), "2400Gbps": (600, 2400)}
        return {
            "duration": "1ms",
            "time_limit": "10s",
            "network": {
                "kind": "servers",
                "servers": gpus // 8,
                "spines": 64,
                "nvlink_delay": "25ns",
                **rates,
            },
            "host": {"payload": "9000B", "shaper": "round-robin"},
            "switch": {
                "ecn": [
                    {"rate": rate, "kmin": f"{least}KB", "kmax": f"{most}KB", "pmax": 0.2}
                    for rate, (least, most) in marks.items()
                ]
            },
            "transport": {"kind": "dcqcn", "window": True},
            "traffic": [
                {
                    "kind": "program",
                    "file": str(file),
                    "chunk": "1GB",
                    "queue_pairs": queue_pairs,
                    **SIMAIS_RULES,
                }
            ],
        }

    return Case(scenario, value)


#: The second is a fortieth of the parameters, a tenth of the embedding, and one layer of 20.
TRAINING = {
    "GPT-13B, 128 A100": training(gpt(20, PARAMETERS, EMBEDDING)),
    "a layer of GPT-13B": training(gpt(1, PARAMETERS // 40, EMBEDDING // 10)),
}

#: AICB's two layers of hidden size 128, and one of Qwen3-30B-A3B's 12 for a 16th of the tokens.
SMALL = Experts(32, 8, 2, 32 * KIB, 512, 32 * KIB, 64 * KIB, 1_082_368, 262_144, 262_144, 512)
LARGE = Experts(128, 32, 1, MIB, KIB, 4 * MIB, 8 * MIB, 3_762_368, 294_912, 1_215_488, KIB)


def alone(forward: Pass = NOTHING, weights: Pass = NOTHING) -> tuple[str, int]:
    """A collective of the small job."""
    return SMALL.shaped([line("layer", forward, weights=weights)]), SMALL.gpus


#: Files, and how many ranks they have.
FILES: Mapping[str, tuple[str, int]] = {
    "all-to-all of 8 ranks, 32 KiB": alone(("ALLTOALL_EP", 32 * KIB)),
    "all-to-all of 8 ranks, 8 MiB": alone(("ALLTOALL_EP", 8 * MIB)),
    "all-gather of 2 ranks, 32 KiB": alone(("ALLGATHER", 32 * KIB)),
    "all-gather of 2 ranks, 8 MiB": alone(("ALLGATHER", 8 * MIB)),
    "experts' all-gather, 256 KiB": alone(weights=("ALLGATHER_DP_EP", 256 * KIB)),
    "experts' all-gather, 8 MiB": alone(weights=("ALLGATHER_DP_EP", 8 * MIB)),
    "experts' reduce-scatter, 512 KiB": alone(weights=("REDUCESCATTER_DP_EP", 512 * KIB)),
    "experts' reduce-scatter, 16 MiB": alone(weights=("REDUCESCATTER_DP_EP", 16 * MIB)),
    "reduce-scatter of 16 ranks, 2 MiB": alone(weights=("REDUCESCATTER", 2 * MIB)),
    "reduce-scatter of 16 ranks, 16 MiB": alone(weights=("REDUCESCATTER", 16 * MIB)),
    "two layers, 32 A100": (SMALL.text, SMALL.gpus),
    "a layer of Qwen3's, 128 A100": (LARGE.text, LARGE.gpus),
}
#: Rings cross spines: each message is a queue pair of its own there, with a path of its own.
EXPERTS = {name: training(text, gpus, microseconds, 62) for name, (text, gpus) in FILES.items()}


def run_simai(simulator: Path, topologies: Path, config: Path, case: str) -> float:
    """A job with experts in SimAI: its time [us]."""
    text, gpus = FILES[case]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "job.txt").write_text(text)
        (folder / "results").mkdir()
        topology = topologies / f"Spectrum-X_{gpus}g_8gps_100Gbps_A100"
        command: list[str | Path] = [simulator, "-t", "1", "-w", "job.txt", "-n", topology, "-c", config]
        environment = {**os.environ, "AS_SEND_LAT": "3"}
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        found = re.search(r"total time,([\d.]+)", (folder / "ncclFlowModel_EndToEnd.csv").read_text())
    if found is None:
        raise RuntimeError("SimAI did not finish")
    return float(found[1])


# htsim with GOAL ------------------------------------------------------------------------------------------


def goal(ranks: int, of: Callable[[int], Iterator[str]]) -> str:
    """A program: each rank's lines."""
    bodies = ("\n".join((f"rank {rank} {{", *of(rank), "}\n")) for rank in range(ranks))
    return f"num_ranks {ranks}\n\n" + "\n".join(bodies)


def one_send(size: int) -> Callable[[int], Iterator[str]]:
    """The last rank sends to the first."""

    def lines(rank: int) -> Iterator[str]:
        if rank == 0:
            yield f"l1: recv {size}b from 15 tag 0"
        if rank == 15:
            yield "l1: calc 8000"
            yield f"l2: send {size}b to 0 tag 0"
            yield "l2 requires l1"

    return lines


def back_and_forth(size: int) -> Callable[[int], Iterator[str]]:
    """The first sends to the last, and it sends back."""

    def lines(rank: int) -> Iterator[str]:
        if rank == 0:
            yield f"l1: send {size}b to 15 tag 0"
            yield f"l2: recv {size}b from 15 tag 0"
        if rank == 15:
            yield f"l1: recv {size}b from 0 tag 0"
            yield f"l2: send {size}b to 0 tag 0"
            yield "l2 requires l1"

    return lines


def fan_in(size: int) -> Callable[[int], Iterator[str]]:
    """Eight ranks send to the last at once."""

    def lines(rank: int) -> Iterator[str]:
        if rank < 8:
            yield f"l1: send {size}b to 15 tag {rank}"
        if rank == 15:
            yield from (f"l{src + 1}: recv {size}b from {src} tag {src}" for src in range(8))

    return lines


def around(size: int, steps: int) -> Callable[[int], Iterator[str]]:
    """A ring: each rank sends to the next one what it got from the one before."""

    def lines(rank: int) -> Iterator[str]:
        for step in range(steps):
            yield f"s{step}: send {size}b to {(rank + 1) % 16} tag {step}"
            yield f"r{step}: recv {size}b from {(rank - 1) % 16} tag {step}"
            if step:
                yield f"s{step} requires r{step - 1}"

    return lines


def exchange(size: int, rounds: int) -> Callable[[int], Iterator[str]]:
    """All to all at once, and computation, some times."""

    def lines(rank: int) -> Iterator[str]:
        others = [peer for peer in range(16) if peer != rank]
        for turn in range(rounds):
            yield f"c{turn}: calc 20000"
            for peer in others:
                yield f"s{turn}x{peer}: send {size}b to {peer} tag {turn}"
                yield f"r{turn}x{peer}: recv {size}b from {peer} tag {turn}"
                yield f"s{turn}x{peer} requires c{turn}"
                if turn:
                    yield f"c{turn} requires r{turn - 1}x{peer}"

    return lines


PROGRAMS: Mapping[str, Callable[[int], Iterator[str]]] = {
    "compute, then 80 MB": one_send(80_000_000),
    "80 MB there and back": back_and_forth(80_000_000),
    "8 to 1, 2 MiB": fan_in(2 * MIB),
    "ring of 16, 30 steps of 1 MB": around(1_000_000, 30),
    "all-to-all of 16, 100 KB, three times": exchange(100_000, 3),
}


#: A message is a connection of its own, over with its last acknowledgement; those of a rank begin one after
#: the other at 200 Gb/s (G = 0.04 ns a byte in logsim-interface.cpp).
HTSIMS_RULES: Mapping[str, Any] = {"acknowledged": True, "queue_pairs": 30, "send_rate": "200Gbps"}
#: Of both; paths are chance.
SEEDS = range(1, 6)


def program(name: str) -> Case:
    """A program on the fat tree of 16 hosts, 100 Gb/s, that is htsim's by default."""

    def scenario(folder: Path) -> dict[str, Any]:
        file = folder / "program.goal"
        file.write_text(goal(16, PROGRAMS[name]))
        shape = {"pods": 4, "tors_per_pod": 2, "aggs_per_pod": 2, "cores": 4, "hosts_per_tor": 2}
        return {
            "duration": "1ms",
            "time_limit": "1s",
            "network": {"kind": "fat-tree", "host_rate": "100Gbps", "fabric_rate": "100Gbps", **shape},
            **UNORDERED,
            "traffic": [{"kind": "program", "file": str(file), **HTSIMS_RULES}],
        }

    return Case(scenario, microseconds, seeds=SEEDS)


HTSIM = {name: program(name) for name in PROGRAMS}


def run_htsim(htsim: Path, txt2bin: Path, case: str) -> float:
    """A program in htsim: its mean time [us]."""
    with tempfile.TemporaryDirectory() as temporary:
        text, binary = Path(temporary) / "program.goal", Path(temporary) / "program.bin"
        text.write_text(goal(16, PROGRAMS[case]))
        subprocess.run([txt2bin, "-i", text, "-o", binary], check=True, capture_output=True)
        command: list[str | Path] = [htsim, "-goal", binary, "-sender_cc_only", "-nodes", "16"]
        command += ["-end", "10000000", "-linkspeed", "100000", "-paths", "128", "-seed"]
        ended = []
        for seed in SEEDS:
            own = [*command, str(seed)]
            run = subprocess.run(own, cwd=temporary, text=True, check=True, capture_output=True)
            found = re.search(r"Maximum finishing time at host \d+: (\d+)", run.stdout)
            if found is None:
                raise RuntimeError(f"htsim did not finish: {run.stdout[-200:]}")
            ended.append(int(found[1]) / 1e3)
    return fmean(ended)


# All of them ----------------------------------------------------------------------------------------------

#: By simulator: its cases, and the unit.
SCORES: Mapping[str, tuple[Mapping[str, Case], str]] = {
    "astra-sim": (ASTRA, "µs"),
    "simai": (SIMAI, "GiB/s"),
    "simai-training": (TRAINING, "ms"),
    "simai-experts": (EXPERTS, "µs"),
    "htsim": (HTSIM, "µs"),
}


@cache
def recorded(simulator: str) -> dict[str, float]:
    """What it says of its cases."""
    found: dict[str, float] = json.loads((DATA / f"{simulator}.json").read_text())
    return found


@cache
def here(simulator: str, case: str) -> float:
    """The same number in this simulator."""
    return SCORES[simulator][0][case].here


def record(simulator: str, of: Callable[[str], float]) -> None:
    """Run another simulator and write what it finds."""
    found = {case: of(case) for case in SCORES[simulator][0]}
    (DATA / f"{simulator}.json").write_text(json.dumps(found, indent=1) + "\n")


def scored(simulator: str) -> str:
    """All cases of a simulator in Markdown."""
    unit = SCORES[simulator][1]
    lines = []
    for case, theirs in recorded(simulator).items():
        ours = here(simulator, case)
        lines.append([case, f"{theirs:,.2f}", f"{ours:,.2f}", f"{100 * (ours / theirs - 1):+.1f}%"])
    return table([f"{simulator}", f"theirs ({unit})", f"ours ({unit})", "off"], lines)


def main(arguments: list[str]) -> None:
    """See the module."""
    match arguments:
        case ["astra-sim", program, folder]:
            record("astra-sim", lambda case: run_astra(Path(program).resolve(), Path(folder), case))
        case ["htsim", htsim, txt2bin]:
            record("htsim", lambda case: run_htsim(Path(htsim).resolve(), Path(txt2bin).resolve(), case))
        case ["simai-experts", simulator, topologies, config]:
            files = Path(topologies).resolve(), Path(config).resolve()
            record("simai-experts", partial(run_simai, Path(simulator).resolve(), *files))
        case []:
            print("\n\n".join(scored(simulator) for simulator in SCORES))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
