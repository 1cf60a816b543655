"""For which gains RCP's rate comes to rest (Balakrishnan et al., IEEE Communications Letters 2007).

The linear loop is XCP's as well (Katabi, Handley, Rohrs, SIGCOMM'02).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, Estimate, estimate
from onramp.plots import style
from onramp.result import Result
from onramp.scenario import quantity
from onramp.studies import rcp
from onramp.summary import Floats

FILE = "rcp-stability"
ALPHAS = (0.1, 0.2, 0.4, 0.8, 1.2, 2.0)
BETAS = (0.05, 0.1, 0.226, 0.4, 1.0, 2.0)

#: T well below d₀, so that it is no part of the loop's delay.
OFTEN = {"transport.interval": "10us"}
#: With a target below the link's rate the queue is empty at rest, with a target queue it is not.
FORMS: Mapping[str, Mapping[str, object]] = {
    "γ = 0.95, q₀ = 0": {**OFTEN, "onramp.enabled": False},
    "γ = 1, q₀ = 100 KB": {
        **OFTEN,
        "onramp.enabled": False,
        "transport.utilization": 1.0,
        "transport.target_queue": "100KB",
    },
    "estimate, T = d₀": {"onramp.enabled": False, "transport.form": "estimate"},
    "γ = 0.95, q₀ = 0, with On-Ramp": {**OFTEN, "onramp.enabled": True},
}
EMPTY, QUEUE, ESTIMATE, HELD = FORMS

#: R has come to rest if its standard deviation is at most this share of its mean.
REST = 0.1
#: Theory and simulation agree if they do for this share of the gains.
AGREE = 0.9
#: Without a queue, an integrator with a delay d₀ is stable for α below this.
INTEGRATOR = math.pi / 2


def cases(quick: bool) -> list[Case]:
    """Every pair of gains in every form."""
    span = {"warmup": "30ms", "duration": "20ms"} if quick else {}
    gains = [(a, b) for a in ALPHAS for b in BETAS]
    return [
        Case(
            (form, str(a), str(b)),
            FILE,
            {**span, **more, "transport.alpha": a, "transport.beta": b},
        )
        for form, more in FORMS.items()
        for a, b in gains
    ]


def linear(alpha: float, beta: float, delay: float = 1.0) -> bool:
    """True if the linear loop is stable.

    Its gain (αs + β)·e^(−s·delay)/s², in units of d₀, has a phase above −π where it is 1.
    """
    crossing = math.sqrt((alpha**2 + math.sqrt(alpha**4 + 4 * beta**2)) / 2)
    return crossing * delay < math.atan2(alpha * crossing, beta)


def _loop(runs: Runs) -> float:
    """The loop's delay with a target queue, over d₀.

    Rates are written as packets leave the queue, so it is no part of it; T and a packet's gap are.
    """
    result = runs[(QUEUE, "0.4", "0.4")][0]
    network, transport = (result.scenario.document[key] for key in ("network", "transport"))
    gap = rcp.OVERHEAD * 8000 * (network["hosts"] - 1) / rcp.capacity(result)
    waits = quantity(transport["target_queue"]) * 8 / rcp.capacity(result)
    rtt = rcp.base_rtt(result)
    return float((rtt + quantity(transport["interval"]) + gap) / (rtt + waits))


def swing(result: Result) -> float:
    """R's standard deviation over its mean."""
    _, rate = result.samples(f"rate {rcp.PORT}", measured=True)
    return float(rate.std() / rate.mean())


def _swings(runs: Runs, form: str) -> Floats:
    """By β and α, shape (len(BETAS), len(ALPHAS))."""
    return np.array([[estimate(runs[(form, str(a), str(b))], swing).mean for a in ALPHAS] for b in BETAS])


def _grid(rule: Callable[[float, float], bool]) -> np.ndarray:
    return np.array([[rule(a, b) for a in ALPHAS] for b in BETAS])


#: Prediction of theory for each form.
THEORY: Mapping[str, Callable[[float, float], bool]] = {
    EMPTY: lambda alpha, beta: alpha < INTEGRATOR,
    QUEUE: linear,
}


def _edge(ax: Axes, stable: np.ndarray, line: str) -> None:
    """A line between what is stable and what is not."""
    for (j, i), value in np.ndenumerate(stable):
        if i + 1 < len(ALPHAS) and stable[j, i + 1] != value:
            ax.plot([i + 0.5] * 2, [j - 0.5, j + 0.5], color=style.LAYERS[3], lw=1.6, ls=line)
        if j + 1 < len(BETAS) and stable[j + 1, i] != value:
            ax.plot([i - 0.5, i + 0.5], [j + 0.5] * 2, color=style.LAYERS[3], lw=1.6, ls=line)


def draw(runs: Runs) -> Figure:
    """How far R swings, by α and β."""
    figure, axes = style.panels(1, len(FORMS), (2.5, 2.7), sharey=True)
    for ax, form in zip(axes, FORMS, strict=True):
        values = np.clip(_swings(runs, form), 1e-3, 1)
        image = ax.imshow(values, origin="lower", cmap="Blues", norm=LogNorm(1e-3, 1), aspect="auto")
        for (j, i), value in np.ndenumerate(values):
            colour = "white" if value > 0.1 else style.INK
            ax.annotate(
                f"{100 * value:.0f}" if value >= 0.1 else f"{100 * value:.1f}",
                (i, j),
                ha="center",
                va="center",
                fontsize=7,
                color=colour,
            )
        if form in THEORY:
            _edge(ax, _grid(THEORY[form]), "-")
        if form == QUEUE:
            _edge(ax, _grid(lambda a, b: linear(a, b, _loop(runs))), ":")
        ax.set_xticks(range(len(ALPHAS)), [f"{a:g}" for a in ALPHAS])
        ax.set_yticks(range(len(BETAS)), [f"{b:g}" for b in BETAS])
        ax.grid(visible=False)
        ax.set_xlabel("α")
        ax.set_title(form, fontsize=9)
    axes[0].set_ylabel("β")
    bar = figure.colorbar(image, ax=axes, shrink=0.9, ticks=[0.001, 0.01, 0.1, 1])
    bar.ax.set_yticklabels(["0.1%", "1%", "10%", "100%"])
    bar.set_label("R's standard deviation over its mean", fontsize=8)
    return figure


def _rests(runs: Runs, form: str) -> list[npt.NDArray[np.bool_]]:
    """Where R comes to rest, one grid of β and α per seed."""
    seeds = range(len(runs[(form, str(ALPHAS[0]), str(BETAS[0]))]))
    return [
        np.array([[swing(runs[(form, str(a), str(b))][i]) <= REST for a in ALPHAS] for b in BETAS])
        for i in seeds
    ]


def _agrees(runs: Runs, form: str, predicted: npt.NDArray[np.bool_]) -> Estimate:
    """Share of the gains at which theory is right."""
    return Estimate(tuple(float((rests == predicted).mean()) for rests in _rests(runs, form)))


def claims(runs: Runs) -> list[Claim]:
    """The defaults, theory, and On-Ramp."""
    found = []
    for form, (alpha, beta), whose in (
        (EMPTY, (0.4, 0.4), "the router's defaults"),
        (ESTIMATE, (0.4, 0.4), "the router's defaults"),
        (QUEUE, (0.4, 0.226), "XCP's gains"),
        (EMPTY, (0.1, 1.0), "RCP's first"),
    ):
        value = estimate(runs[(form, str(alpha), str(beta))], swing)
        found.append(
            Claim(
                f"{form}: α = {alpha:g}, β = {beta:g}, {whose}, are stable",
                f"R's standard deviation at most {REST:.0%} of its mean",
                value.text("%", 100),
                (value.at_most(REST),),
            )
        )
    for form, what in ((EMPTY, "α < π/2"), (QUEUE, "the linear loop is")):
        same = _agrees(runs, form, _grid(THEORY[form]))
        found.append(
            Claim(
                f"{form}: it is stable where {what}",
                f"for {AGREE:.0%} of the gains",
                same.text("%", 100),
                (same.at_least(AGREE),),
            )
        )
    same = _agrees(runs, QUEUE, _grid(lambda a, b: linear(a, b, _loop(runs))))
    found.append(
        Claim(
            f"{QUEUE}: it is stable where the linear loop with its own delay is",
            f"for {AGREE:.0%} of the gains; base RTT, T and a packet's gap instead of d₀",
            same.text("%", 100),
            (same.at_least(AGREE),),
            of_paper=False,
        )
    )
    rests = list(zip(_rests(runs, EMPTY), _rests(runs, HELD), strict=True))
    kept = Estimate(tuple(float(held[free].mean()) if free.any() else math.nan for free, held in rests))
    found.append(
        Claim(
            "With On-Ramp, what is stable stays so",
            "all gains that are without it",
            kept.text("%", 100),
            (kept.at_least(1),),
            of_paper=False,
        )
    )
    return found


EXPERIMENT = Experiment(
    __name__, ("sim",), "RCP: for which α and β its rate comes to rest", cases, draw, claims
)
