"""Collectives over TCP, simulated and on Linux: a table in Markdown.

python tests/collectives_on_both.py [SEEDS]
"""

from __future__ import annotations

import math
import sys

import numpy as np

import onramp
from onramp.metrics import over_seeds

#: Operation, algorithm, size of the buffer, repetitions.
CASES = (
    ("all-reduce", "ring", "80KB", 20),
    ("all-reduce", "ring", "8MB", 5),
    ("all-reduce", "halving-doubling", "800KB", 20),
    ("all-reduce", "double-binary-tree", "4MB", 10),
    ("all-gather", "ring", "1MB", 20),
    ("broadcast", "ring", "4MB", 10),
    ("all-to-all", "pairwise", "4MB", 10),
    ("reduce-scatter", "direct", "1MB", 20),
    ("all-to-all", "direct", "400KB", 20),
    ("all-to-all", "direct", "8MB", 10),
)


def scenario(operation: str, algorithm: str, size: str, repeat: int) -> dict[str, object]:
    """Eight hosts on a switch at 10 Gb/s, CUBIC."""
    section = {
        "kind": "collective",
        "operation": operation,
        "algorithm": algorithm,
        "size": size,
        "repeat": repeat,
    }
    return {
        "name": f"{operation} {algorithm} {size}",
        "duration": "5ms",
        "time_limit": "20s",
        "network": {"kind": "star", "hosts": 8, "host_rate": "10Gbps", "link_delay": "5us"},
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
    seeds = range(1, 1 + int(sys.argv[1] if len(sys.argv) > 1 else 20))
    columns = ["median simulated (µs)", "Linux", "ratio", "mean simulated (µs)", "Linux", "ratio"]
    print("| " + " | ".join(["operation", "algorithm", "size", *columns]) + " |")
    print("| " + " | ".join(["---"] * 9) + " |")
    for operation, algorithm, size, repeat in CASES:
        source = scenario(operation, algorithm, size, repeat)
        of = {on: [mean_us(source, on, seed) for seed in seeds] for on in ("sim", "linux")}
        print("| " + " | ".join([operation, algorithm, size, *row(of)]) + " |", flush=True)


if __name__ == "__main__":
    main()
