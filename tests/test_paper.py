"""Figures of the paper, and studies: scenarios, measures, plots, verdicts; the runs take minutes."""

from __future__ import annotations

import csv
import functools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import onramp
from conftest import Command
from onramp import markdown, paper, tables
from onramp.paper import common, fig22, star
from onramp.paper import values as numbers
from onramp.paper.verdict import INCONCLUSIVE, NOT, REPRODUCED, Claim, Estimate, factor, fewer, percent
from onramp.plots import style
from onramp.result import Result
from onramp.studies import carousel, dcqcn, hpcc, irn, paced, pacing_base, port, rcp

#: Every figure by its name.
FIGURES = {**common.experiments("paper"), **common.experiments("studies")}
#: Figures over time, of flows into one port.
STAR = ("fig1", "fig2", "fig5", "fig22", "fig23", "fig24")
#: Figures of synchronised clocks.
CLOCKS = ("fig6", "fig18", "clock", "clock-tcp")
#: Figures of clients and servers.
RACKS = ("fig17", "fig27")


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("quick", [True, False])
def test_every_case_is_a_valid_scenario(name: str, quick: bool) -> None:
    figure = FIGURES[name]
    for on in figure.on:
        scenarios = common.scenarios(figure, on, common.Mode(quick, (1, 2)))
        cases = [case for case in figure.cases(quick) if on in case.on]
        variants = len(figure.variants)
        shared = sum(not case.overrides.get("onramp.enabled", True) for case in cases)
        assert len(scenarios) == 2 * variants * len(cases)
        assert len({s.text for s in scenarios.values()}) == 2 * (variants * (len(cases) - shared) + shared)


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
    "dctcp": (
        "dctcp-incast",
        {
            "warmup": "0us",
            "duration": "50ms",
            "measure.queues": [port.PORT],
            "measure.links": [port.PORT],
        },
    ),
    "dcqcn": ("dcqcn-two", {"duration": "115ms"}),
    "hpcc": (
        "hpcc-fair",
        {
            "traffic": [
                *({"kind": "long", "src": [f"h{i}"], "dst": "h0"} for i in range(1, 5)),
                {"kind": "background", "workload": "FB_Hadoop", "load": 0.1},
            ]
        },
    ),
    "irn": ("irn", {"warmup": "0us", "duration": "200us", "time_limit": "2ms"}),
    "balancing": ("balancing", {"traffic.0.size": "1MiB"}),
    "out-of-step": ("out-of-step", {"traffic.0.repeat": 4}),
    "planes": (
        "planes-victim",
        {
            "traffic": [
                {"kind": "trace", "file": "planes-alone.csv", "format": "csv"},
                {"kind": "collective", "operation": "all-reduce", "size": "80KB"},
            ]
        },
    ),
    "training": (
        "training-tenant",
        {"warmup": "0us", "duration": "1ms", "traffic.0.repeat": 2, "time_limit": "4ms"},
    ),
    "transports": ("transports", {"duration": "170ms"}),
}


@functools.cache
def moment(study: str) -> Result:
    """Of a study, run."""
    file, overrides = MOMENTS[study]
    return onramp.run(common.folder("studies") / f"{file}.toml", overrides)


def test_a_flow_that_another_joins_is_in_no_steady_state(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[common.Key] = []

    def steady(runs: common.Runs) -> Claim:
        judged.extend(runs)
        return Claim("", "", "", ())

    monkeypatch.setattr(paced, "steady", steady)
    cases = [case.key for case in pacing_base.EXPERIMENT.cases(True)]
    pacing_base.claims(dict.fromkeys(cases, [moment("pacing-base")] * 2))
    assert {key[0] for key in cases} - {key[0] for key in judged} == {"joins"}


def test_flows_that_carousel_holds_have_their_rates() -> None:
    shaped = moment("carousel")
    assert [rate["rate_bps"] for rate in carousel.flows(shaped)] == [10e6, 20e6]
    assert carousel.deviation(shaped) < 0.01
    assert carousel.burst(shaped) < 2 * 1048
    assert carousel.held(shaped) == 4


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((34.83, 35.24, 35.65), "35.2 ± 1.0 ms"),
        ((99.99996, 99.99997, 99.99995), "100.0 ms"),
        ((12313.0, 12345.0, 12377.0), "12,345 ± 79 ms"),
        ((-0.000151, 0.000206, 0.000563), "0.000206 ± 0.000887 ms"),
        ((2.8, 3.0, 3.2), "3.00 ± 0.50 ms"),
        ((0.0, 0.0), "0 ms"),
        ((12.4,), "12.4 ms"),
        ((math.nan, 1.0), "unknown"),
    ],
)
def test_an_interval_has_its_means_digits(values: tuple[float, ...], text: str) -> None:
    assert Estimate(values).text(" ms") == text


def test_a_ratios_interval_is_that_of_logarithms() -> None:
    gain = Estimate((1.0, 2.0, 4.0)).over(Estimate((1.0, 1.0, 1.0)))
    assert gain.mean == pytest.approx(2)
    assert gain.low * gain.high == pytest.approx(4)
    assert gain.text("×") == "2.00× (0.357 to 11.2)"
    assert Estimate((1.0, 1.0)).over(Estimate((0.0, 2.0))).text("×") == "unknown"
    # The other way round it is the same interval.
    other = Estimate((1.0, 1.0, 1.0)).over(Estimate((1.0, 2.0, 4.0)))
    assert (1 / other.low, 1 / other.high) == pytest.approx((gain.high, gain.low))


def test_a_verdict_can_fail_and_can_be_open() -> None:
    low, wide, high = Estimate((0.9, 1.0, 1.1)), Estimate((0.5, 2.0, 3.5)), Estimate((2.9, 3.0, 3.1))
    assert [e.at_most(2).verdict for e in (low, wide, high)] == [REPRODUCED, INCONCLUSIVE, NOT]
    assert [e.at_least(2).verdict for e in (low, wide, high)] == [NOT, INCONCLUSIVE, REPRODUCED]
    assert high.between(2.5, 3.5).verdict == REPRODUCED
    assert [high.between(1, 2).verdict, low.between(2, 3).verdict] == [NOT, NOT]
    # One seed tells nothing, and neither does a measure that a run does not have.
    assert Estimate((3.0,)).at_least(2).verdict == INCONCLUSIVE
    assert Estimate((3.0, math.nan)).at_least(2).verdict == INCONCLUSIVE
    # The same in every seed is an interval, too; at a bound is not beyond it.
    same = Estimate((1.0, 1.0))
    assert [same.at_least(1).verdict, same.above(1).verdict, same.below(1).verdict] == [REPRODUCED, NOT, NOT]


def test_all_numbers_of_a_statement_have_to_lie_in_their_range() -> None:
    low, wide, high = Estimate((0.9, 1.0, 1.1)), Estimate((0.5, 2.0, 3.5)), Estimate((2.9, 3.0, 3.1))
    for estimates, verdict in (
        ((low, low), REPRODUCED),
        ((low, wide), INCONCLUSIVE),
        ((low, wide, high), NOT),
    ):
        claim = Claim("", "", "", tuple(e.at_most(2) for e in estimates))
        assert claim.verdict == verdict
        assert Claim.of(json.loads(json.dumps(asdict(claim)))) == claim


def test_a_number_of_the_text_is_met_from_both_sides() -> None:
    for value, verdict in ((2.6, REPRODUCED), (10.6, NOT), (1.2, NOT)):
        assert factor("", Estimate((value, value * 1.001)), 2.6).verdict == verdict
    before = Estimate((100.0, 120.0, 90.0))
    for values, verdict in (
        ((38.0, 46.0, 35.0), REPRODUCED),
        ((0.0, 0.0, 0.0), NOT),
        ((90.0, 110.0, 85.0), NOT),
    ):
        assert fewer("", before, Estimate(values), 2.6, "").verdict == verdict
    for value, verdict in ((21.0, REPRODUCED), (51.0, NOT), (12.0, NOT)):
        assert percent("", Estimate((value, value + 0.01)), 21).verdict == verdict


def test_a_flow_that_has_not_ended_counts_as_if_it_had_with_the_run() -> None:
    file = common.folder("studies") / "irn.toml"
    run = onramp.run(file, {"warmup": "0us", "duration": "200us", "time_limit": "250us"})
    ends, (fct, slowdown) = run.flows["fct_ps"], irn.times(run)
    assert 0 < ends.null_count < len(ends) == len(fct)
    start = np.sort(np.asarray(run.flows["start_ps"], float)) / 1e6
    assert (start + fct).max() == pytest.approx(250)
    assert slowdown.min() >= 1
    assert irn.unfinished(run) == ends.null_count / len(ends)


def test_two_flows_with_dcqcn_fill_a_link_and_share_it() -> None:
    run = moment("dcqcn")
    rates = [float(dcqcn.rate(run, (host, "h0"))[0]) for host in ("h1", "h2")]
    # Payload of 40 Gb/s is 38.2.
    assert 36 < sum(rates) < 38.2
    assert port.jain(np.array(rates)) > 0.95
    assert dcqcn.rate(run, ("h0", "h1")) == pytest.approx([0])
    assert 38 < dcqcn.total(run) <= 40.1


def test_four_flows_with_hpcc_leave_a_twentieth_and_no_queue() -> None:
    run = moment("hpcc")
    assert [len(values) for values in hpcc.shares(run)] == list(hpcc.SHARING)
    assert port.utilization(run) == pytest.approx(0.95, abs=0.02)
    assert hpcc.mean_queue(run) < hpcc.NEAR_ZERO
    assert hpcc.paused(run) == 0
    assert port.jain(np.ones(4)) == 1
    assert port.jain(np.array([1.0, 0, 0, 0])) == 0.25


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
    by = {variant.name: tuple(claims) for variant in figure.variants}
    verdicts = [common.Verdict(name, on, figure.title, True, (1, 2), "0", None, by) for on in figure.on]
    lines = markdown.verdicts(verdicts).splitlines()
    rows = [line for line in lines if line.startswith(("| Fig", f"| {name} |"))]
    heads = [line for line in lines if line.startswith("| Figure | ")]
    assert len(heads) == len(figure.on) * len({claim.of_paper for claim in claims})
    assert len(rows) == len(figure.on) * len(claims) + len(heads)
    # No statement is there twice.
    assert len({claim.statement for claim in claims}) == len(claims)


def test_all_numbers_of_all_cases_are_written(small: Result, racks: Result, tmp_path: Path) -> None:
    path = tmp_path / "values.csv"
    numbers.write(path, {"as shipped": {("40%", "with"): [small, small], ("racks",): [racks]}})
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["variant"], row["case"]) for row in rows} == {
        ("as shipped", "40%, with"),
        ("as shipped", "racks"),
    }
    rct = {row["number"]: row for row in rows if row["case"] == "40%, with" and row["of"] == "Incast RCT"}
    told = small.summary["incast"]["rct_us"]
    for number in ("mean", "p99"):
        means = (float(rct[number][column]) for column in ("mean", "low", "high"))
        assert all(value == pytest.approx(told[number], rel=1e-5) for value in means)
        assert (rct[number]["unit"], rct[number]["seeds"]) == ("µs", "2")
    assert all(math.isfinite(float(row["mean"])) for row in rows)
