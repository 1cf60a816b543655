"""Figures of the paper, and studies: scenarios, measures, plots, verdicts; the runs take minutes."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import onramp
from conftest import Command
from onramp import markdown, paper, tables
from onramp.paper import common, fig22, star
from onramp.plots import style
from onramp.result import Result
from onramp.studies import carousel, irn, paced, rcp

#: Every figure by its name.
FIGURES = {**common.experiments("paper"), **common.experiments("studies")}
#: Figures over time, of flows into one port.
STAR = ("fig1", "fig2", "fig5", "fig22", "fig23", "fig24")
#: Figures of synchronised clocks.
CLOCKS = ("fig6", "fig18", "clock")
#: Figures of clients and servers.
RACKS = ("fig17", "fig27")


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("quick", [True, False])
def test_every_case_is_a_valid_scenario(name: str, quick: bool) -> None:
    figure = FIGURES[name]
    for on in figure.on:
        scenarios = common.scenarios(figure, on, common.Mode(quick, (1, 2)))
        assert len(scenarios) == 2 * len(figure.cases(quick))
        assert len({s.text for s in scenarios.values()}) == len(scenarios)


def test_list_names_every_figure(command: Command) -> None:
    for name, book in (("paper", "paper"), ("study", "studies")):
        listed = [line.split()[0] for line in command(name, "list").stdout.splitlines()]
        assert listed == list(common.experiments(book))


def test_a_figures_file_alone_makes_it_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path(str(fig22.__file__)).read_text(encoding="utf-8")
    (tmp_path / "fig_a7.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(paper, "__path__", [*paper.__path__, str(tmp_path)])
    assert common.experiments.__wrapped__("paper")["fig-a7"].title == FIGURES["fig22"].title


@pytest.fixture(scope="module")
def equilibrium(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A made-up run of the star: a queue that decays from 200 ms on, then swings; two rates."""
    scenario = common.folder() / "fig1-timely-0.2.toml"
    folder = tmp_path_factory.mktemp("star") / "run"
    onramp.run(scenario, {"duration": "20us", "traffic.1.start": "10us"}, out=folder)
    t = np.arange(0.19, 0.245, 1e-5)
    queue = np.where(t < 0.2, 0, 12.5e4 + 8e6 * np.exp(-(t - 0.2) / 2e-3)) + np.where(
        t >= 0.23, 12.5e3, 0
    ) * (-1.0) ** np.arange(len(t))
    samples = {
        f"queue {star.PORT}": queue,
        f"utilization {star.PORT}": np.where(t < 0.2, 0.5, 0.8),
        "rate flow 0 h0->h12": np.full(len(t), 3e9),
        "rate flow 1 h1->h12": np.full(len(t), 1e9),
    }
    columns = [
        np.tile((t * 1e12).round().astype("u8"), len(samples)),
        np.repeat(list(samples), len(t)),
        np.concatenate(list(samples.values())),
    ]
    pq.write_table(
        pa.table([pa.array(c) for c in columns], schema=tables.SCHEMAS["series"]), folder / "series.parquet"
    )
    return Result(folder)


def test_measures_of_the_star_are_right_on_a_made_up_run(equilibrium: Result) -> None:
    assert star.utilization(equilibrium) == pytest.approx(0.8)
    assert star.oscillation(equilibrium) == pytest.approx(1.0)  # ± 12.5 KB at 100 Gb/s
    assert star.empty(equilibrium) == 0
    assert star.fairness(equilibrium) == pytest.approx(16 / 20)
    assert star.roughness(equilibrium) == pytest.approx(0)
    # 10 µs + 640 µs · exp(-t / 2 ms) falls to 150 µs at 2 ms · ln(640 / 140) = 3.04 ms.
    assert star.settling(equilibrium) == pytest.approx(3.04, abs=0.11)


@pytest.fixture(scope="module")
def racks() -> Result:
    """The racks for a moment."""
    return onramp.run(common.folder() / "racks.toml", {"warmup": "0us", "duration": "500us"})


#: Of each study a moment of its own scenario: the file, and what is changed in it.
MOMENTS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "swift-incast": ("swift-incast", {"warmup": "0us", "duration": "200us"}),
    "swift-target": ("swift-incast", {"warmup": "0us", "duration": "200us"}),
    "swift-large": ("swift-large", {"warmup": "0us", "duration": "1ms", "time_limit": "2ms"}),
    "swift-queues": ("swift-queues", {"warmup": "0us", "duration": "5ms"}),
    "swift-endpoint": ("swift-endpoint", {"warmup": "0us", "duration": "5ms"}),
    "rcp-fct": ("rcp-fct", {"duration": "50ms"}),
    **dict.fromkeys(("rcp-rate", "rcp-stability"), ("rcp-rate", {"measure.rates": [rcp.PORT]})),
    "pacing-base": ("pacing", {"warmup": "0us", "duration": "6500ms", "time_limit": "6500ms"}),
    **{
        name: (
            "pacing",
            {"warmup": "0us", "duration": "400ms", "time_limit": "1s", "measure.order": [paced.PORT]},
        )
        for name in FIGURES
        if name.startswith("pacing") and name != "pacing-base"
    },
    "carousel": (
        "carousel",
        {
            "warmup": "0us",
            "duration": "220ms",
            "traffic.0.cap": "10Mbps",
            "traffic.1.cap": "20Mbps",
            "traffic.0.tenant": "a",
            "traffic.1.tenant": "b",
            "host.shaping": {"tenants": {"a": "50Mbps", "b": "50Mbps"}, "egress": "100Mbps"},
        },
    ),
    "irn": ("irn", {"warmup": "0us", "duration": "200us", "time_limit": "2ms"}),
    "transports": ("transports", {"duration": "170ms"}),
}


@functools.cache
def moment(study: str) -> Result:
    """Of a study, run."""
    file, overrides = MOMENTS[study]
    return onramp.run(common.folder("studies") / f"{file}.toml", overrides)


def test_flows_that_carousel_holds_have_their_rates() -> None:
    shaped = moment("carousel")
    assert [rate["rate_bps"] for rate in carousel.flows(shaped)] == [10e6, 20e6]
    assert carousel.deviation(shaped) < 0.01
    assert carousel.burst(shaped) < 2 * 1048
    assert carousel.held(shaped) == 4


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (35.24, 1.02, "35.2 ± 1.0 ms"),
        (99.99996, 3e-8, "100.0 ms"),
        (12345.6, 78.9, "12,346 ± 79 ms"),
        (0.000206, 0.000888, "0.000206 ± 0.000888 ms"),
        (3.0, 0.5, "3.00 ± 0.50 ms"),
        (0.0, 0.0, "0 ms"),
        (12.4, math.nan, "12.4 ms"),
        (math.nan, math.nan, "– ms"),
    ],
)
def test_an_interval_has_its_means_digits(mean: float, half: float, text: str) -> None:
    assert common.Estimate(mean, half).text(" ms") == text


def test_a_flow_that_has_not_ended_counts_as_if_it_had_with_the_run() -> None:
    file = common.folder("studies") / "irn.toml"
    run = onramp.run(file, {"warmup": "0us", "duration": "200us", "time_limit": "250us"})
    ends, (fct, slowdown) = run.flows["fct_ps"], irn.times(run)
    assert 0 < ends.null_count < len(ends) == len(fct)
    start = np.sort(np.asarray(run.flows["start_ps"], float)) / 1e6
    assert (start + fct).max() == pytest.approx(250)
    assert slowdown.min() >= 1
    assert irn.unfinished(run) == ends.null_count / len(ends)


def test_pacing_no_longer_helps_from_where_its_gain_falls_below_a_twentieth() -> None:
    # From 1.2 at 8 flows to 1.0 at 32: 1.05 is three quarters of the way in the logarithm, 8 · 4^0.75.
    assert paced.inflection([2, 8, 32, 128], [3.0, 1.2, 1.0, 0.9]) == pytest.approx(8 * 4**0.75)
    assert math.isnan(paced.inflection([2, 8], [3.0, 1.2]))
    assert math.isnan(paced.inflection([2, 8], [1.0, 0.9]))


def test_flows_share_a_processor_exactly() -> None:
    # A is alone for 1 s, has half beside B for 2 s, then half beside C for 0.5 s, and the rest alone.
    times = rcp.shared(np.array([0.0, 1.0, 3.0]), np.array([2.5, 1.0, 0.25]), 1.0)
    assert times == pytest.approx([3.75, 2.0, 0.5])


@pytest.mark.parametrize("sizes", ["exponential", "two"])
def test_processor_sharing_is_as_in_theory_whatever_the_sizes(sizes: str) -> None:
    # M/G/1: a flow of size s takes s/(1 - load) on average.
    random, n, load = np.random.default_rng(1), 200_000, 0.7
    two = random.choice([0.5, 5.5], n, p=[0.9, 0.1])
    size = random.exponential(size=n) if sizes == "exponential" else two
    start = np.cumsum(random.exponential(1 / load, n))
    times = rcp.shared(start, size, 1.0)
    for own in (size < 1, size >= 1):
        assert times[own].mean() / size[own].mean() == pytest.approx(1 / (1 - load), rel=0.05)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_drawn_and_judged(
    name: str,
    small: Result,
    equilibrium: Result,
    synchronised: Result,
    racks: Result,
) -> None:
    figure = FIGURES[name]
    others = {STAR: equilibrium, CLOCKS: synchronised, RACKS: racks}
    own = moment(name) if figure.book == "studies" else small
    result = next((result for names, result in others.items() if name in names), own)
    runs = {case.key: [result, result] for case in figure.cases(True)}
    with style.styled():
        assert figure.draw(runs).axes
    claims = figure.claims(runs)
    verdicts = [
        common.Verdict(name, on, figure.title, True, (1, 2), "0", None, tuple(claims)) for on in figure.on
    ]
    lines = markdown.verdicts(verdicts).splitlines()
    rows = [line for line in lines if line.startswith(("| Fig", f"| {name} |"))]
    heads = [line for line in lines if line.startswith("| Figure | ")]
    assert len(heads) == len({claim.of_paper for claim in claims})
    assert len(rows) == len(claims) + len(heads)
    assert all(line.count(" | ") == 1 + 2 * len(figure.on) for line in lines if line)
