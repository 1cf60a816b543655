"""Parts that all figures share: cases to run, variants of On-Ramp, and how a figure is judged."""

from __future__ import annotations

import difflib
import importlib
import json
import math
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onramp import _sim, examples
from onramp.cache import Cache
from onramp.engine import commit
from onramp.errors import OnRampError
from onramp.paper import values, verdict
from onramp.paper.verdict import Claim, estimate
from onramp.result import Result
from onramp.scenario import SUBSTRATES, Overrides, Scenario, load

if TYPE_CHECKING:
    import matplotlib.figure
    import pyarrow as pa

#: Name of a case, such as ("dcqcn", "with On-Ramp").
Key = tuple[str, ...]
#: Results of every case, one per seed.
Runs = Mapping[Key, Sequence[Result]]

WITHOUT, WITH = "without On-Ramp", "with On-Ramp"


@dataclass(frozen=True)
class Case:
    """One scenario of a figure: a file of its book, what is changed in it, and where it can run."""

    key: Key
    file: str
    overrides: Overrides
    on: Sequence[str] = tuple(SUBSTRATES)


@dataclass(frozen=True)
class Variant:
    """A way to run On-Ramp: its name in tables, and what is changed in cases that have On-Ramp."""

    name: str
    overrides: Overrides


#: On-Ramp as this project ships it, by the defaults of scenarios and agent.
SHIPPED = Variant("as shipped", {})
#: On-Ramp as the paper's kernel module has it: whole segments leave, an OR-ACK for some ten packets, however
#: short the time since the last one, and clocks that are synchronised over the network by software stamps.
PAPERS = Variant(
    "as in the paper",
    {
        "linux.cut_segments": False,
        "linux.or_ack_gap": "0us",
        "clock": {"sync": "huygens", "window": "200ms", "probe_interval": "8ms"},
    },
)
#: Those of figures on Linux hosts.
BOTH_VARIANTS = (PAPERS, SHIPPED)


@dataclass(frozen=True)
class Mode:
    """How long and how often to run."""

    quick: bool
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Verdict:
    """All claims of a figure on one substrate, by variant of On-Ramp, with what they rest on."""

    figure: str
    on: str
    title: str
    quick: bool
    seeds: tuple[int, ...]
    version: str
    commit: str | None
    claims: Mapping[str, tuple[Claim, ...]]


@dataclass(frozen=True)
class Experiment:
    """A figure of the paper, or a study; its module assigns it to `EXPERIMENT`.

    Attributes
    ----------
    module : str
        `__name__` of its module in `onramp.paper` or `onramp.studies`, the two books.
    on : tuple of str
        Substrates it runs on, "sim" and "linux"; first that of the paper.
    title : str
        Title in lists and tables.
    cases : callable
        Returns the scenarios to run; its argument says whether to be quick.
    draw : callable
        Returns the plot.
    claims : callable
        Returns the statements of the text, checked.
    each : callable
        Returns more plots, by name.
    variants : tuple of Variant
        Each is run, drawn and judged; cases without On-Ramp are shared.
    """

    module: str
    on: tuple[str, ...]
    title: str
    cases: Callable[[bool], list[Case]]
    draw: Callable[[Runs], matplotlib.figure.Figure]
    claims: Callable[[Runs], list[Claim]]
    each: Callable[[Runs], dict[str, matplotlib.figure.Figure]] = lambda runs: {}
    variants: tuple[Variant, ...] = (SHIPPED,)

    @property
    def name(self) -> str:
        """Such as "fig15", after its file."""
        return named(self.module)

    @property
    def book(self) -> str:
        """Name of its package and of its scenarios' folder, "paper" or "studies"."""
        return self.module.split(".")[1]


def named(module: str) -> str:
    """Name of a module's experiment, such as "fig15"."""
    return module.rpartition(".")[2].replace("_", "-")


@cache
def experiments(book: str) -> Mapping[str, Experiment]:
    """A book's experiments by name, from the modules of its package; the paper's figures by number."""
    package = importlib.import_module(f"onramp.{book}")
    files = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    modules = [importlib.import_module(file.name) for file in files]
    found: list[Experiment] = [m.EXPERIMENT for m in modules if hasattr(m, "EXPERIMENT")]
    return {one.name: one for one in sorted(found, key=_order)}


def _order(one: Experiment) -> tuple[float, str]:
    number = one.name.removeprefix("fig")
    return (int(number) if number.isdigit() else math.inf, one.name)


def both(key: Key, file: str, overrides: Overrides) -> list[Case]:
    """A case without and a case with On-Ramp."""
    return [
        Case((*key, name), file, {**overrides, "onramp.enabled": name == WITH}) for name in (WITHOUT, WITH)
    ]


def find(book: str, name: str) -> Experiment:
    """A book's experiment by its name, such as "fig15"."""
    if name not in (known := experiments(book)):
        near = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {near[0]}?" if near else ", ".join(known)
        raise OnRampError(
            f"{name}: is none of the figures; {meant}" if near else f"{name}: is none of {meant}"
        )
    return known[name]


def folder(book: str = "paper") -> Path:
    """Where a book's scenarios are."""
    return examples.FOLDER / book


def _loaded(figure: Experiment, on: str, mode: Mode) -> dict[tuple[str, Key, int], Scenario]:
    """Scenarios by variant, case and seed."""
    scenarios = folder(figure.book)
    found: dict[tuple[str, Key, int], Scenario] = {}
    for case in figure.cases(mode.quick):
        if on not in case.on:
            continue
        path = scenarios / f"{case.file}.toml"
        for variant in figure.variants:
            changed = variant.overrides if case.overrides.get("onramp.enabled", True) else {}
            for seed in mode.seeds:
                overrides = {**changed, **case.overrides, "seed": seed}
                found[variant.name, case.key, seed] = load(path, overrides, on)
    return found


def scenarios(figure: Experiment, on: str, mode: Mode) -> dict[str, Scenario]:
    """Everything a figure needs, by label."""
    several = len(figure.variants) > 1
    return {
        ", ".join([*key, *([variant] if several else []), f"seed {seed}"]): scenario
        for (variant, key, seed), scenario in _loaded(figure, on, mode).items()
    }


def place(out: Path, name: str, on: str, quick: bool) -> Path:
    """Where a figure's plot and verdict are."""
    return out / f"{name}-{on}{'-quick' if quick else ''}"


def judge(figure: Experiment, on: str, mode: Mode, cache: Cache) -> Verdict:
    """Draw a figure and check its claims, from runs that are all in the cache; write both and all numbers."""
    from onramp.plots import style

    runs: dict[str, dict[Key, list[Result]]] = {variant.name: {} for variant in figure.variants}
    for (variant, key, _), scenario in _loaded(figure, on, mode).items():
        result = cache.get(scenario)
        if result is None:
            raise OnRampError(f"{figure.name}: the programs were built anew meanwhile; run it again")
        runs[variant].setdefault(key, []).append(result)
    claims = {variant: tuple(figure.claims(of)) for variant, of in runs.items()}
    verdict = Verdict(figure.name, on, figure.title, mode.quick, mode.seeds, _sim.version(), commit(), claims)
    path = place(cache.folder, figure.name, on, mode.quick)
    path.mkdir(exist_ok=True)
    for variant, of in runs.items():
        name = figure.name + ("" if variant == figure.variants[0].name else f"-{variant.replace(' ', '-')}")
        with style.styled():
            plots = {name: figure.draw(of)}
            plots |= {f"{name}-{part}": plot for part, plot in figure.each(of).items()}
        for stem, plot in plots.items():
            style.save(plot, path / stem)
    values.write(path / "values.csv", runs)
    text = json.dumps(asdict(verdict, dict_factory=_plain), indent=2, ensure_ascii=False)
    (path / "verdict.json").write_text(text + "\n", encoding="utf-8")
    return verdict


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON has no number for what a seed's run does not have."""
    return {
        key: [one if math.isfinite(one) else None for one in value] if key == "values" else value
        for key, value in pairs
    }


def stored(out: Path, wanted: Iterable[tuple[str, str]], quick: bool) -> list[Verdict]:
    """Verdicts written before, of figures and substrates."""
    verdicts = []
    for name, on in wanted:
        path = place(out, name, on, quick) / "verdict.json"
        if path.is_file():
            d = json.loads(path.read_text(encoding="utf-8"))
            claims = {variant: tuple(map(Claim.of, of)) for variant, of in d["claims"].items()}
            verdicts.append(Verdict(**{**d, "seeds": tuple(d["seeds"]), "claims": claims}))
    return verdicts


def requests(result: Result) -> tuple[pa.Table, str]:
    """Incast requests, and the column of their times."""
    return result.requests, "rct_ps"


def steady(
    name: str,
    without: Sequence[Result],
    with_: Sequence[Result],
    what: str = "RCT",
    of: Callable[[Result], tuple[pa.Table, str]] = requests,
) -> Claim:
    """Claim that the load had come to rest, by the geometric mean of times.

    The mean is made by the few that wait for a timer, and percentiles vary twice as much by seeds.

    Parameters
    ----------
    name : str
        Which load.
    without, with_ : sequence of Result
        Runs without and with On-Ramp, one per seed.
    what : str
        Times that are compared.
    of : callable
        Their table and column.
    """

    def halves(result: Result) -> float:
        table, column = of(result)
        start, took = (table[each].to_numpy() for each in ("start_ps", column))
        second, log = start >= np.median(start), np.log(took)
        return float(np.exp(log[second].mean() - log[~second].mean()))

    measure = f"geometric mean {what} of the later half over that of the first"
    sides = {WITHOUT: estimate(without, halves), WITH: estimate(with_, halves)}
    return verdict.steady(name, measure, sides)


def later(result: Result, series: str) -> float:
    """Mean of a series in the later half of the measured time over that in the first."""
    time, value = result.samples(series, measured=True)
    second = time > (time[0] + time[-1]) / 2
    return float(value[second].mean() / value[~second].mean())
