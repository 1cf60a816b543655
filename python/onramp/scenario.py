"""Scenarios: from a file or a dict to resolved text."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

import tomli_w

from onramp import _sim, groups, testbed
from onramp.errors import OnRampError, ScenarioError, of_os

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Overrides = Mapping[str, object]
#: A scenario's file, its content as nested dicts, or one that was checked before.
Source: TypeAlias = "str | Path | Mapping[str, Any] | Scenario"

#: How a mistake in an override begins; the command says its option instead.
OVERRIDES = "overrides: "

#: Where a scenario runs, and what tables and pages call it.
SUBSTRATES = {"sim": "simulator", "linux": "Linux"}


@dataclass(frozen=True)
class Scenario:
    """A checked scenario in which every value is written out.

    Attributes
    ----------
    text : str
        TOML.
    base : Path
        Folder that paths inside it are relative to.
    on : str, optional
        Where it runs: "sim", "linux"; None where that is not known yet.
    advice : sequence of str
        Values that are possible, but hardly meant, one line each.
    """

    text: str
    base: Path
    on: str | None = None
    advice: Sequence[str] = field(default=(), compare=False)
    #: The simulator's view with its network, which a run needs not build again.
    _loaded: _sim.Loaded | None = field(default=None, compare=False, repr=False)

    @property
    def loaded(self) -> _sim.Loaded:
        """The simulator's view of it, with its network."""
        return self._loaded or _sim.Loaded(self.text, "scenario", str(self.base), on=self.on)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The scenario as nested dicts; quantities are strings such as "16us"."""
        return tomllib.loads(self.text)

    @property
    def name(self) -> str:
        """Short name, safe in a file name."""
        return re.sub(r"[^\w.+-]+", "-", str(self.document["name"])).strip("-.") or "scenario"

    @property
    def seed(self) -> int:
        """Seed of every random stream."""
        return int(self.document["seed"])

    @property
    def onramp(self) -> bool:
        """True if On-Ramp is on."""
        return bool(self.document["onramp"]["enabled"])

    def host_name(self, number: int) -> str:
        """Name of a host, of which tables have the number."""
        network = self.document["network"]
        return str(network["hosts"][number]) if network["kind"] == "links" else f"h{number}"

    @cached_property
    def _summed_up(self) -> tuple[list[groups.Group], list[int]]:
        return groups.of_scenario(self.text)

    @property
    def groups(self) -> list[groups.Group]:
        """How the results of its traffic are summed up."""
        return self._summed_up[0]

    @property
    def endless(self) -> list[int]:
        """Traffic sections whose flows end when the scenario says, so that their FCT says nothing."""
        return self._summed_up[1]

    def replace(self, overrides: Overrides) -> Scenario:
        """The same scenario with some values replaced."""
        return resolve(self.text, self.name, self.base, overrides, on=self.on)

    @cached_property
    def digest(self) -> str:
        """Names the results: the same for the same scenario, input files and programs that run it."""
        sha = hashlib.sha256(self.text.encode())
        for _, path in _sim.input_files(self.text):
            sha.update((self.base / path).read_bytes())
        sha.update(self.programs)
        return sha.hexdigest()[:16]

    @property
    def programs(self) -> bytes:
        """Version and digests of the programs that run it."""
        if self.on == "linux":
            programs = testbed.programs(onramp=self.onramp)
        else:
            programs = [Path(p)] if (p := getattr(_sim, "__file__", None)) else []
        digests = (_file_digest(program, program.stat().st_mtime_ns) for program in programs)
        return b"".join((_sim.version().encode(), *digests))

    def write(self, folder: Path) -> Scenario:
        """Write `scenario.toml` and copies of its input files; the returned one names the copies."""
        copies: list[tuple[str, str]] = []
        names: set[str] = set()
        prefix = ""
        for i, (key, path) in enumerate(_sim.input_files(self.text)):
            # A file that is found by the name of the one before has no key.
            has_key = not key.endswith(".")
            if has_key:
                prefix = f"{i}-" if Path(path).name in names else ""
            name = prefix + Path(path).name
            names.add(name)
            (folder / "inputs").mkdir(exist_ok=True)
            shutil.copyfile(self.base / path, folder / "inputs" / name)
            if has_key:
                copies.append((key, f"inputs/{name}"))
        text = _sim.with_input_files(self.text, copies) if copies else self.text
        kept = replace(self, text=text, base=folder)
        (folder / "scenario.toml").write_text(kept.text, encoding="utf-8")
        return kept


@cache
def _file_digest(path: Path, changed: int) -> bytes:
    """Of a program, which is large and asked for often."""
    return hashlib.sha256(path.read_bytes()).digest()


def load(
    source: Source,
    overrides: Overrides | None = None,
    on: str | None = None,
    *,
    keep: bool = False,
) -> Scenario:
    """Read, override, check and resolve a scenario.

    Parameters
    ----------
    source : path, mapping or Scenario
        A scenario file, or its content as nested dicts; then paths are relative to the current folder. One
        that was checked before has its defaults written out.
    overrides : mapping, optional
        Dotted keys (list elements by index: `traffic.0.load`) to values, which win over the file's.
    on : {"sim", "linux"}, optional
        What does not run there is a mistake, too.
    keep : bool
        Keep the network in memory, for a run in this process.

    Raises
    ------
    ScenarioError
        One line per mistake.
    OnRampError
        If the file cannot be read.
    """
    if isinstance(source, Scenario):
        return resolve(source.text, source.name, source.base, overrides or {}, on=on or source.on, keep=keep)
    if isinstance(source, Mapping):
        return resolve(to_toml(source), "scenario", Path(), overrides or {}, on=on, keep=keep)
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        _refuse_program(path)
        raise OnRampError(f"{path}: is not UTF-8 text, at byte {e.start}") from e
    except OSError as e:
        raise OnRampError(of_os(path, e)) from e
    try:
        return resolve(
            text, str(path), path.parent, overrides or {}, default_name=path.stem, on=on, keep=keep
        )
    except ScenarioError:
        _refuse_program(path, text)
        raise


#: Endings of programs' files, which are no scenarios.
PROGRAMS = (".et", ".goal", ".bin", ".txt", ".cm", ".tm")


def _refuse_program(path: Path, text: str | None = None) -> None:
    """Say what to do with a program, by its name, that is given in a scenario's place."""
    with contextlib.suppress(tomllib.TOMLDecodeError):
        if path.suffix not in PROGRAMS or (text is not None and tomllib.loads(text) is not None):
            return
    writes = f"onramp new {path.name.partition('.')[0]}.toml --program {path}"
    raise OnRampError(f"{path}: is a program, not a scenario: `{writes}` writes one that runs it") from None


def resolve(
    text: str,
    file: str,
    base: Path,
    overrides: Overrides,
    *,
    default_name: str = "scenario",
    on: str | None = None,
    keep: bool = False,
) -> Scenario:
    """Check `text` and write out its defaults; `file` is what messages call it."""
    given = [(key, value if isinstance(value, str) else to_value(value)) for key, value in overrides.items()]
    try:
        loaded = _sim.Loaded(text, file, str(base), given, on, default_name)
    except ScenarioError as e:
        raise ScenarioError(re.sub("^--set: ", OVERRIDES, str(e), flags=re.MULTILINE)) from None
    return Scenario(loaded.text, base, on, tuple(loaded.advice), loaded if keep else None)


def to_toml(document: Mapping[str, Any]) -> str:
    """Nested dicts as TOML; keys without a value (None) are left out."""
    return tomli_w.dumps(_plain(document), indent=0)


def to_value(value: object) -> str:
    """A value as TOML, without line breaks outside of lists."""
    # Within a list of lists no table gets a head of its own.
    return to_toml({"v": [[value]]}).removeprefix("v = [\n[\n").removesuffix(",\n],\n]\n")


def _plain(value: Any) -> Any:
    """Value of a type that TOML has; any other, such as a path, becomes text."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if isinstance(value, (bool, int, float)) else str(value)


UNITS = {
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "ps": 1e-12,
    "Tbps": 1e12,
    "Gbps": 1e9,
    "Mbps": 1e6,
    "Kbps": 1e3,
    "bps": 1.0,
    "GiB": 2.0**30,
    "GB": 1e9,
    "MiB": 2.0**20,
    "MB": 1e6,
    "KiB": 1024.0,
    "KB": 1e3,
    "B": 1.0,
}


def _split(text: str) -> tuple[float, str]:
    found = re.fullmatch(r"([\d.]+)\s*([A-Za-z]+)", text)
    if found is None or found[2] not in UNITS:
        raise ValueError(f"{text!r} is not a quantity, such as 16us")
    return float(found[1]), found[2]


def quantity(text: str) -> float:
    """A quantity of a resolved scenario in seconds, bits per second or bytes."""
    number, unit = _split(text)
    return number * UNITS[unit]


def dimension(text: str) -> str:
    """Dimension of a quantity: "s", "bps" or "B"."""
    _, unit = _split(text)
    return next(base for base in ("bps", "B", "s") if unit.endswith(base))
