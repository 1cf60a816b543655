"""Collectives over TCP, simulated and on Linux: a table in Markdown.

Those of the documentation, or, with --draw, others at random: operations, sizes, hosts, rates.
"""

from __future__ import annotations

import argparse
import math
import random
from typing import TypeAlias

import numpy as np

import onramp
from onramp.metrics import over_seeds

#: Operation, algorithm, size of the buffer in KB, repetitions.
CASES = (
    ("all-reduce", "ring", 80, 20),
    ("all-reduce", "ring", 8000, 5),
    ("all-reduce", "halving-doubling", 800, 20),
    ("all-reduce", "double-binary-tree", 4000, 10),
    ("all-gather", "ring", 1000, 20),
    ("broadcast", "ring", 4000, 10),
    ("all-to-all", "pairwise", 500, 10),
    ("all-to-all", "pairwise", 1200, 10),
    ("all-to-all", "pairwise", 4000, 10),
    ("all-to-all", "pairwise-rendezvous", 1200, 10),
    ("reduce-scatter", "direct", 1000, 20),
    ("all-to-all", "direct", 400, 20),
    ("all-to-all", "direct", 8000, 10),
)
#: The same, and hosts and their rate.
Case: TypeAlias = tuple[str, str, int, int, int, str]


def drawn(seed: int) -> list[Case]:
    """Two of each operation and algorithm, of 50 KB to 6 MB among 4 to 16 hosts."""
    chance = random.Random(seed)
    kinds = dict.fromkeys((operation, algorithm) for operation, algorithm, *_ in CASES)
    of_any = (("reduce-scatter", "ring"), ("all-gather", "halving-doubling"))

    def one(operation: str, algorithm: str) -> Case:
        size = round(10 ** chance.uniform(math.log10(50), math.log10(6000)))
        return operation, algorithm, size, 10, chance.choice((4, 8, 16)), chance.choice(("10Gbps", "25Gbps"))

    return [one(*kind) for kind in (*kinds, *of_any) for _ in range(2)]


def scenario(
    operation: str, algorithm: str, size: int, repeat: int, hosts: int = 8, rate: str = "10Gbps"
) -> dict[str, object]:
    """Hosts on a switch, CUBIC."""
    section = {
        "kind": "collective",
        "operation": operation,
        "algorithm": algorithm,
        "size": f"{size}KB",
        "repeat": repeat,
    }
    return {
        "name": f"{operation} {algorithm} {size}KB",
        "duration": "5ms",
        "time_limit": "20s",
        "network": {"kind": "star", "hosts": hosts, "host_rate": rate, "link_delay": "5us"},
        "transport": {"kind": "cubic"},
        "traffic": [section],
    }


def mean_us(source: dict[str, object], on: str, seed: int) -> float:
    """Mean time of a collective in microseconds."""
    durations = onramp.run(source, on=on, seed=seed).collectives["duration_ps"].to_numpy()
    return float(np.mean(durations)) / 1e6


def _text(mean: float, by: float, style: str) -> str:
    """With an interval where seeds change more than a thousandth."""
    return f"{mean:{style}} ± {by:{style}}" if by >= mean / 1000 else f"{mean:{style}}"


def row(of: dict[str, list[float]]) -> list[str]:
    """Medians over seeds, and means: simulated, on Linux and their ratio."""
    medians = [float(np.median(times)) for times in of.values()]
    (sim, sim_by), (linux, linux_by) = map(over_seeds, of.values())
    ratio = sim / linux
    # No pairs: which connections share a queue of fq_codel is chance of its own on each.
    by = ratio * math.hypot(sim_by / sim, linux_by / linux)
    middle = [*(f"{time:,.0f}" for time in medians), f"{medians[0] / medians[1]:.3f}"]
    return [*middle, _text(sim, sim_by, ",.0f"), _text(linux, linux_by, ",.0f"), _text(ratio, by, ".3f")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seeds", nargs="?", type=int, default=20, help="seeds of each")
    parser.add_argument("--draw", type=int, metavar="N", help="the random cases of number N")
    arguments = parser.parse_args()
    cases = [(*case, 8, "10Gbps") for case in CASES] if arguments.draw is None else drawn(arguments.draw)
    columns = ["median simulated (µs)", "Linux", "ratio", "mean simulated (µs)", "Linux", "ratio"]
    heads = ["operation", "algorithm", "size", "hosts", *columns]
    print("| " + " | ".join(heads) + " |")
    print("| " + " | ".join(["---"] * len(heads)) + " |")
    for case in cases:
        source = scenario(*case)
        of = {
            on: [mean_us(source, on, seed) for seed in range(1, 1 + arguments.seeds)]
            for on in ("sim", "linux")
        }
        operation, algorithm, size, _, hosts, rate = case
        first = [operation, algorithm, f"{size:,} KB", f"{hosts} at {rate}"]
        print("| " + " | ".join([*first, *row(of)]) + " |", flush=True)


if __name__ == "__main__":
    main()
