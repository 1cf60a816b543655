"""Random scenarios on which the simulator's TCP is held to Linux's.

A Latin hypercube: of each factor every value is in as many cells as any other, but for one, and what meets
what is random. Each release takes another draw, so that no figure is of cells that were looked at before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onramp.scenario import to_toml

FACTORS: Mapping[str, Sequence[Any]] = {
    "size_kb": (2, 5, 12, 20, 30, 60, 100, 150, 300, 500),
    "buffer": (64, 200, 400, 1000),
    "gbps": (10, 25, 100),
    "network": ("star", "leaf-spine"),
    "transport": ("cubic", "newreno", "bbr", "dctcp-tcp", "vegas"),
}
HOSTS, FAN_OUT = 24, 16
#: Requests of a run are some hundred, where that is no more than this load and within these times [s].
REQUESTS, MOST_LOAD, SPANS = 100, 0.15, (0.01, 0.06)


def cells(number: int, seed: int) -> list[dict[str, Any]]:
    """`number` cells: a value of each factor."""
    draw = random.Random(seed)
    columns = {}
    for factor, values in FACTORS.items():
        # Values that are left over differ between draws.
        shuffled = draw.sample(values, len(values))
        column = [shuffled[i % len(shuffled)] for i in range(number)]
        draw.shuffle(column)
        columns[factor] = column
    return [{factor: column[i] for factor, column in columns.items()} for i in range(number)]


def scenario(name: str, cell: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario of a cell: 24 hosts, FB_Hadoop at 30% and incasts of 16 answers each."""
    size, rate = cell["size_kb"] * 1000, cell["gbps"] * 1e9
    shortest, longest = SPANS
    # Requests a second at a load of 1, of all hosts.
    per_load = HOSTS * rate / (8 * size * FAN_OUT)
    load = min(MOST_LOAD, max(0.01, REQUESTS / shortest / per_load / 2))
    duration = min(longest, max(shortest, REQUESTS / (load * per_load)))
    link = {"host_rate": f"{cell['gbps']}Gbps", "link_delay": "2us"}
    if cell["network"] == "star":
        network = {"kind": "star", "hosts": HOSTS, **link}
    else:
        shape = {"leaves": 4, "spines": 3, "hosts_per_leaf": HOSTS // 4}
        network = {"kind": "leaf-spine", **shape, **link, "fabric_rate": f"{2 * cell['gbps']}Gbps"}
    return {
        "name": name,
        "duration": f"{round(duration * 1e3)}ms",
        "warmup": "20ms",
        "network": network,
        "transport": {"kind": cell["transport"]},
        "onramp": {"threshold": "40us"},
        "linux": {"buffer_packets": cell["buffer"]},
        "traffic": [
            {"kind": "background", "workload": "FB_Hadoop", "load": 0.3},
            {"kind": "incast", "fan_out": FAN_OUT, "size": f"{cell['size_kb']}KB", "load": round(load, 4)},
        ],
    }


def write(folder: Path, number: int, seed: int) -> list[Path]:
    """Write the scenario of each cell of a draw."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for i, cell in enumerate(cells(number, seed)):
        what = f"{cell['transport']} {cell['size_kb']}KB {cell['buffer']}p {cell['gbps']}G {cell['network']}"
        path = folder / f"{seed}-{i:02}.toml"
        path.write_text(to_toml(scenario(f"{seed}-{i:02} {what}", cell)), encoding="utf-8")
        files.append(path)
    return files
