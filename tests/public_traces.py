"""Public traces of training jobs, each run by one command, as a table.

    python tests/public_traces.py [--most RANKS] FOLDER…

looks for them in folders, such as checkouts of aliyun/aicb, mlcommons/chakra, astra-sim, spcl/HTSIM and
uet-htsim: SimAI's workloads, Chakra's traces, GOAL as text and binary, connection matrices of htsim. Those of
more ranks, and those that would take longer than a minute, are checked only. docs/collectives.md has the
table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import onramp
from onramp import programs
from onramp.markdown import table

#: Longest run [s].
LIMIT = 60.0
#: GPUs of a server.
SERVER = 8


@dataclass(frozen=True)
class Sample:
    """A trace, and the number of ranks it needs at least."""

    format: str
    file: Path
    ranks: int


def samples(folder: Path) -> Iterator[Sample]:
    """Traces below a folder, told by what they begin with."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if file.suffix == ".et" and file.stem.endswith(".0"):
            yield Sample("chakra", file, len(list(file.parent.glob(f"{file.stem[:-2]}.*.et"))))
            continue
        if file.suffix not in (".txt", ".goal", ".cm", ".bin"):
            continue
        head = file.read_bytes()[:4096].decode("utf-8", "replace")
        if found := re.match(r"Nodes (\d+)", head):
            yield Sample("htsim", file, int(found[1]))
        elif found := re.search(r"num_ranks (\d+)", head):
            yield Sample("goal", file, int(found[1]))
        elif head.startswith(("HYBRID_TRANSFORMER", "MICRO")):
            # Older ones do not say how many ranks there are.
            found = re.search(r"all_gpus: (\d+)", head)
            yield Sample("simai", file, int(found[1]) if found else SERVER)


def scenario(sample: Sample) -> dict[str, Any]:
    """GPU servers with a NIC each, DCQCN: what a trace does not say."""
    traffic: dict[str, Any] = {"kind": "program", "file": str(sample.file), "format": sample.format}
    if sample.format in ("chakra", "simai"):
        traffic["ranks"] = sample.ranks
    return {
        "name": re.sub(r"\W+", "-", sample.file.stem),
        "duration": "1ms",
        "time_limit": "10000s",
        "network": {"kind": "servers", "servers": max(2, -(-sample.ranks // SERVER)), "gpus": SERVER},
        "transport": {"kind": "dcqcn"},
        "traffic": [traffic],
    }


def row(sample: Sample, folder: Path, most: int) -> list[str]:
    """What came out."""
    begin = [f"`{sample.file.relative_to(folder)}`", sample.format, str(sample.ranks)]
    try:
        loaded = onramp.validate(scenario(sample))
        if sample.ranks > most:
            return [*begin, "", "", "", f"more than {most} ranks: not run"]
        cost = onramp.explain(loaded).cost
        if cost and cost.seconds > LIMIT:
            return [*begin, "", "", "", f"{cost.seconds:.0f} s by `explain`: not run"]
        run = onramp.run(loaded)
    except onramp.OnRampError as error:
        # The place in the trace and what is wrong, without the folder.
        return [*begin, "", "", "", str(error).splitlines()[0].rpartition(f"{sample.file.name}:")[2].strip()]
    found, engine = programs.iterations(run.operations), run.summary["engine"]
    took = sum(one.duration_us for one in found)
    exposed = sum(one.exposed * one.duration_us for one in found)
    return [
        *begin,
        f"{took / 1e3:.4g}",
        f"{100 * exposed / took:.1f}%",
        f"{engine['packet_hops'] / 1e6:.1f} M, {engine['wall_s']:.1f} s",
        "; ".join(line.rpartition(": ")[2] for line in loaded.advice),
    ]


@click.command(help=__doc__)
@click.option("--most", type=click.IntRange(min=1), default=1024, show_default=True, help="Ranks of a run.")
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
def main(most: int, folders: tuple[Path, ...]) -> None:
    """Print the table, line by line as traces are done."""
    head = ["file", "format", "ranks", "ms", "exposed", "packet-hops", "not simulated, or why it did not run"]
    print(table(head, []))
    for folder in folders:
        for sample in samples(folder):
            print(table(row(sample, folder, most), []).splitlines()[0], flush=True)


if __name__ == "__main__":
    main()
