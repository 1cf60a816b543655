"""Runs results again and compares bytes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from onramp import engine
from onramp.engine import Watch
from onramp.errors import OnRampError, of_os
from onramp.scenario import load

#: Keys of summary.json that say how and by what a run was made, not what came out.
CIRCUMSTANCES = frozenset({"commit", "digest", "sha256", "version"})
#: Keys of its part `engine` that depend on the machine.
MACHINE = frozenset({"packet_hops_per_s", "peak_rss_mb", "skipping", "wall_s"})


@dataclass(frozen=True)
class Reproduced:
    """A result folder that was run again.

    Attributes
    ----------
    folder : Path
        The results.
    files : int
        Files that were compared.
    differences : sequence of str
        Differences, one line each; none if all bytes are the same.
    notes : sequence of str
        Circumstances that a reader must know, such as another version.
    """

    folder: Path
    files: int
    differences: Sequence[str]
    notes: Sequence[str]


def folders(folder: Path) -> list[Path]:
    """Folders of single runs in a result folder, a comparison, or a sweep.

    Raises
    ------
    OnRampError
        If there is none.
    """
    if not folder.is_dir():
        raise OnRampError(f"{folder}: is no folder")
    found = sorted(path.parent for path in folder.rglob("summary.json"))
    if not found:
        raise OnRampError(f"{folder}: holds no results; name a folder with a summary.json")
    return found


def reproduce(folder: Path, *, threads: int, watch: Watch) -> Reproduced | None:
    """Run the scenario of a result folder again and compare what comes out; None if that was stopped.

    Raises
    ------
    OnRampError
        If the folder cannot be read, or its run was stopped before its end.
    """
    try:
        before = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except OSError as e:
        raise OnRampError(of_os(folder / "summary.json", e)) from e
    except ValueError as e:
        raise OnRampError(f"{folder / 'summary.json'}: is not JSON") from e
    if "sha256" not in before:
        raise OnRampError(f"{folder}: was written by a version that kept no hashes ({before.get('version')})")
    if not before["complete"]:
        raise OnRampError(f"{folder}: its run was stopped before the end, so there is nothing to compare")
    differences = [
        f"{name}: was changed after the run"
        for name, digest in before["sha256"].items()
        if engine.sha256(folder / name) != digest
    ]
    scenario = load(folder / "scenario.toml", on=before["substrate"])
    with tempfile.TemporaryDirectory(prefix="onramp-verify-") as temporary:
        again = Path(temporary)
        after = engine.execute(scenario, again, threads=threads, watch=watch, label="")
        if not after["complete"]:
            return None
        differences += _files(folder, again, before["sha256"], after["sha256"])
    differences += _numbers(_outcome(before), _outcome(after))
    notes = [
        f"{key}: {before[key]} then, {after[key]} now"
        for key in ("version", "commit")
        if before[key] != after[key]
    ]
    return Reproduced(folder, len(before["sha256"]), differences, notes)


def _files(folder: Path, again: Path, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    found = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        if name not in after or name not in before:
            found.append(f"{name}: {'is not made any more' if name in before else 'is new'}")
        elif name.endswith(".parquet") and pq.read_table(folder / name).equals(pq.read_table(again / name)):
            found.append(f"{name}: the same rows in other bytes, as another version of pyarrow writes")
        else:
            found.append(f"{name}: differs")
    return found


def _outcome(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a summary that a run of the same scenario must give again."""
    kept = {key: value for key, value in summary.items() if key not in CIRCUMSTANCES}
    kept["engine"] = {key: value for key, value in summary["engine"].items() if key not in MACHINE}
    return kept


def _numbers(before: Mapping[str, Any], after: Mapping[str, Any], place: str = "") -> list[str]:
    found = []
    for key in sorted(before.keys() | after.keys()):
        one, other = before.get(key), after.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += _numbers(one, other, f"{place}{key}.")
        elif one != other:
            found.append(f"summary.json: {place}{key} was {json.dumps(one)}, is {json.dumps(other)}")
    return found
