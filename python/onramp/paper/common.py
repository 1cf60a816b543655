"""What all figures have in common: cases to run, estimates over seeds, claims and verdicts."""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from onramp import _sim
from onramp.cache import Cache
from onramp.engine import commit
from onramp.errors import OnRampError
from onramp.metrics import decimals, number, over_seeds
from onramp.result import Result
from onramp.scenario import Overrides, Scenario, load

if TYPE_CHECKING:
    import matplotlib.figure

#: What a case is called, such as ("dcqcn", "with On-Ramp").
Key = tuple[str, ...]
#: Results of every case, one per seed.
Runs = Mapping[Key, Sequence[Result]]

WITHOUT, WITH = "without On-Ramp", "with On-Ramp"


@dataclass(frozen=True)
class Case:
    """One scenario of a figure: a file of its book and what is changed in it."""

    key: Key
    file: str
    overrides: Overrides


@dataclass(frozen=True)
class Claim:
    """A statement, held against what was measured.

    Attributes
    ----------
    statement : str
        What the paper's text states, or what its figures rest on.
    criterion : str
        When we say that it holds; fixed before measuring.
    measured : str
        With "±" for half of a 95% interval over seeds.
    of_paper : bool
        Whether the paper, or a study's source, states it.
    """

    statement: str
    criterion: str
    measured: str
    holds: bool
    of_paper: bool = True


@dataclass(frozen=True)
class Mode:
    """How long and how often to run."""

    quick: bool
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Verdict:
    """All claims of a figure on one substrate, with what they rest on."""

    figure: str
    on: str
    title: str
    quick: bool
    seeds: tuple[int, ...]
    version: str
    commit: str | None
    claims: tuple[Claim, ...]


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
    """

    module: str
    on: tuple[str, ...]
    title: str
    cases: Callable[[bool], list[Case]]
    draw: Callable[[Runs], matplotlib.figure.Figure]
    claims: Callable[[Runs], list[Claim]]
    each: Callable[[Runs], dict[str, matplotlib.figure.Figure]] = lambda runs: {}

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
        raise OnRampError(f"{name}: is none of the figures {', '.join(known)}")
    return known[name]


def folder(book: str = "paper") -> Path:
    """Where a book's scenarios are: in the checkout this package runs from, or below the current folder."""
    for root in (Path(__file__).parents[3], Path()):
        if (path := root / "scenarios" / book).is_dir():
            return path
    raise OnRampError(f"scenarios/{book}: not found; run this in the project's checkout")


def _loaded(figure: Experiment, on: str, mode: Mode) -> dict[tuple[Key, int], Scenario]:
    scenarios = folder(figure.book)
    return {
        (case.key, seed): load(scenarios / f"{case.file}.toml", {**case.overrides, "seed": seed}, on)
        for case in figure.cases(mode.quick)
        for seed in mode.seeds
    }


def scenarios(figure: Experiment, on: str, mode: Mode) -> dict[str, Scenario]:
    """Everything a figure needs, by label."""
    return {f"{', '.join(key)}, seed {seed}": s for (key, seed), s in _loaded(figure, on, mode).items()}


def place(out: Path, name: str, on: str, quick: bool) -> Path:
    """Where a figure's plot and verdict are."""
    return out / f"{name}-{on}{'-quick' if quick else ''}"


def judge(figure: Experiment, on: str, mode: Mode, cache: Cache) -> Verdict:
    """Draw a figure and check its claims, from runs that are all in the cache; both are written beside it."""
    from onramp.plots import style

    runs: dict[Key, list[Result]] = {}
    for (key, _), scenario in _loaded(figure, on, mode).items():
        result = cache.get(scenario)
        if result is None:
            raise OnRampError(f"{figure.name}: the programs were built anew meanwhile; run it again")
        runs.setdefault(key, []).append(result)
    claims = tuple(figure.claims(runs))
    verdict = Verdict(figure.name, on, figure.title, mode.quick, mode.seeds, _sim.version(), commit(), claims)
    path = place(cache.folder, figure.name, on, mode.quick)
    path.mkdir(exist_ok=True)
    with style.styled():
        plots = {figure.name: figure.draw(runs)}
        plots |= {f"{figure.name}-{name}": plot for name, plot in figure.each(runs).items()}
    for stem, plot in plots.items():
        style.save(plot, path / stem)
    text = json.dumps(asdict(verdict), indent=2, ensure_ascii=False)
    (path / "verdict.json").write_text(text + "\n", encoding="utf-8")
    return verdict


def stored(out: Path, wanted: Iterable[tuple[str, str]], quick: bool) -> list[Verdict]:
    """Verdicts written before, of figures and substrates."""
    verdicts = []
    for name, on in wanted:
        path = place(out, name, on, quick) / "verdict.json"
        if path.is_file():
            d = json.loads(path.read_text(encoding="utf-8"))
            verdicts.append(
                Verdict(**{**d, "seeds": tuple(d["seeds"]), "claims": [Claim(**c) for c in d["claims"]]})
            )
    return verdicts


#: In steady state the halves of the measured time agree within this share.
STEADY = 0.1


def steady(name: str, measure: str, halves: Mapping[str, Estimate]) -> Claim:
    """Whether the load had come to rest: no statement of the paper, but what all others rest on.

    `halves` has, by side, a measure of the later half over that of the first.
    """
    return Claim(
        f"{name}: the network is in steady state",
        f"{measure} within {STEADY:.0%} of 1",
        ", ".join(f"{half.text()} {side}" for side, half in halves.items()),
        all(abs(half.mean - 1) <= STEADY for half in halves.values()),
        of_paper=False,
    )


def later(result: Result, series: str) -> float:
    """Mean of a series in the later half of the measured time over that in the first."""
    time, value = result.samples(series, measured=True)
    second = time > (time[0] + time[-1]) / 2
    return float(value[second].mean() / value[~second].mean())


def outcome(claim: Claim) -> str:
    """In words."""
    if claim.of_paper:
        return "as stated" if claim.holds else "differs"
    return "holds" if claim.holds else "does not hold"


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and half of its 95% interval (nan with one seed)."""

    mean: float
    half: float

    def text(self, unit: str = "", scale: float = 1.0) -> str:
        """Such as "61.2 ± 0.4%"; the interval to the mean's digits, none where it is less than they show."""
        mean, half = self.mean * scale, self.half * scale
        if half > 0:
            shown = decimals(mean or half)
            if round(half, shown) > 0:
                return f"{mean:,.{shown}f} ± {half:,.{shown}f}{unit}"
        return f"{number(mean)}{unit}"


def estimate(results: Sequence[Result], of: Callable[[Result], float]) -> Estimate:
    """A number of each run, over seeds."""
    return Estimate(*over_seeds([of(r) for r in results]))


def ratio(
    first: Sequence[Result], second: Sequence[Result], of: Callable[[Result], float | None]
) -> Estimate:
    """First over second, seed by seed: with the same seed both had the same arrivals."""
    pairs = [(of(a), of(b)) for a, b in zip(first, second, strict=True)]
    return Estimate(*over_seeds([(a or math.nan) / (b or math.nan) for a, b in pairs]))
