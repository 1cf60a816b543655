"""Equivalence tests, and the random scenarios they are made on."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import onramp
from onramp import cli, draw, equivalence
from onramp.equivalence import Cell, Pair, Times
from onramp.metrics import student
from onramp.plots import forest, style
from onramp.scenario import SUBSTRATES, load
from onramp.summary import Floats


def _pairs(
    runs: int, times: int, factor: float = 1.0, waits: tuple[float, float] = (0.0, 0.0), seed: int = 1
) -> list[Pair]:
    """Runs of exponential times around 1 ms; a share of both sides' waits for a timer."""
    random = np.random.default_rng(seed)
    pairs: list[Pair] = []
    for _ in range(runs):
        sides = [random.exponential(1000, times) * scale for scale in (factor, 1.0)]
        ours, linux = (
            _late(side, random.random(times) < share) for side, share in zip(sides, waits, strict=True)
        )
        pairs.append((ours, linux))
    return pairs


def _late(times: Floats, late: np.ndarray, by: float = equivalence.RTO_MIN) -> Times:
    """Times of which some wait for a timer; the others take at most 40 ms."""
    return Times.of(times + by * late, equivalence.DELAYED_ACK)


def _verdicts(*cells: Cell) -> dict[str, str]:
    return {test.statistic: test.verdict for test in equivalence.compare("cubic", "without", "incast", cells)}


def test_what_is_drawn_alike_is_equivalent_and_what_is_not_is_different() -> None:
    alike = _verdicts(_pairs(30, 3000, waits=(0.1, 0.1)))
    assert alike == dict.fromkeys(equivalence.MARGINS, "equivalent")
    slower = _verdicts(_pairs(30, 3000, factor=1.3, waits=(0.1, 0.1)))
    assert slower == {"waits": "equivalent", "mean": "different", "p95": "different", "p99": "different"}
    more = _verdicts(_pairs(30, 3000, waits=(0.15, 0.1)))
    assert more == {"waits": "different", "mean": "equivalent", "p95": "equivalent", "p99": "equivalent"}


def test_waits_are_counted_and_the_rest_is_compared() -> None:
    every = np.arange(3000)
    pairs = [
        (_late(ours.all, every % 25 == 0, equivalence.DELAYED_ACK), _late(linux.all, every % 50 == 0))
        for ours, linux in _pairs(30, 3000)
    ]
    found = {t.statistic: t for t in equivalence.compare("cubic", "with", "rpc", [pairs])}
    assert found["mean"].verdict == "equivalent"
    waits = found["waits"]
    assert waits.verdict == "different" and waits.ratio == pytest.approx(2, abs=0.01)


def test_who_waits_is_told_by_what_the_empty_network_needs(tmp_path: Path) -> None:
    star = {"kind": "star", "hosts": 9, "host_rate": "10Gbps"}
    incast = {"kind": "incast", "fan_out": 8, "size": "12500B", "load": 0.1}
    scenario = {
        "duration": "20ms",
        "network": star,
        "transport": {"kind": "cubic"},
        "linux": {"buffer_packets": 20},
        "traffic": [{"kind": "background", "workload": "FB_Hadoop", "load": 0.2}, incast],
    }
    times = equivalence._samples(onramp.run(scenario, out=tmp_path / "out"))
    # Its link needs 8 x (10 us + a base RTT) for a request.
    waits = times["incast"].all[times["incast"].all > 3000]
    assert len(waits) > 0 and len(times["incast"].timely) == len(times["incast"].all) - len(waits)
    assert times["incast"].timely.max() < 2500
    assert equivalence.limit(np.array([10_000.0])) == 22_000
    assert {"small", "medium"} < times.keys()
    # What has not ended is in no sample.
    cut = equivalence._samples(onramp.run({**scenario, "time_limit": "25ms"}, out=tmp_path / "cut"))
    assert 0 < len(cut["incast"].all) < len(times["incast"].all)


def test_a_ratio_at_the_margin_or_of_few_runs_is_inconclusive() -> None:
    at_the_margin = _verdicts(_pairs(30, 3000, factor=1.05))
    assert at_the_margin["mean"] == "inconclusive" and at_the_margin["waits"] == "equivalent"
    few = _verdicts(_pairs(2, 150, waits=(0.1, 0.1)))
    assert few["mean"] == "inconclusive" and few["waits"] == "inconclusive"
    (once,) = (
        t for t in equivalence.compare("cubic", "with", "rpc", [_pairs(1, 10)]) if t.statistic == "mean"
    )
    assert once.interval is None and once.verdict == "inconclusive"
    never = {n: _verdicts(_pairs(n, 150, waits=(0, 0)))["waits"] for n in (1, 2)}
    assert never == {1: "inconclusive", 2: "equivalent"}


def test_nine_intervals_of_ten_hold_the_true_ratio() -> None:
    held = dict.fromkeys(equivalence.MARGINS, 0)
    for n in range(100):
        cells = [_pairs(4, times, 1.1, (0.15, 0.1), seed=10 * n + times) for times in (100, 200, 400)]
        for test in equivalence.compare("cubic", "without", "incast", cells):
            assert (test.cells, test.pairs) == (3, 12) and test.interval
            low, high = test.interval
            held[test.statistic] += low <= (1.5 if test.statistic == "waits" else 1.1) <= high
    assert all(80 <= count <= 98 for count in held.values()), held


def test_a_cell_counts_as_much_as_another_however_many_times_it_has() -> None:
    cells = [_pairs(10, 5000, 1.2), _pairs(10, 500, 1 / 1.2)]
    found = {test.statistic: test for test in equivalence.compare("cubic", "with", "incast", cells)}
    assert found["mean"].ratio == pytest.approx(1, abs=0.03)


def test_few_times_have_no_tail_and_a_plot_shows_the_rest(tmp_path: Path) -> None:
    found = list(equivalence.compare("cubic", "without", "incast", [_pairs(3, 30)]))
    assert [test.statistic for test in found] == ["waits", "mean", "p95"]
    head, lines = equivalence.table(found, different="{} off", inconclusive="{} ?")
    assert len(head) == len(lines[0]) and lines[0][-1] == ""
    figure = forest.draw(found)
    assert len(figure.axes) == len(equivalence.MARGINS)
    # There is room for its only line: matplotlib warns where there is none.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        style.save(figure, tmp_path / "forest")


def test_students_t_goes_on_beyond_its_table() -> None:
    # Quantiles of a table: 40, 60 and 120 degrees of freedom.
    for freedom, one, two in ((40, 1.684, 2.021), (60, 1.671, 2.000), (120, 1.658, 1.980)):
        assert student(0.95, freedom) == pytest.approx(one, abs=1.5e-3)
        assert student(0.975, freedom) == pytest.approx(two, abs=2e-3)


def test_a_draw_has_every_value_as_often_and_another_seed_other_cells() -> None:
    cells = draw.cells(23, 7)
    for factor, values in draw.FACTORS.items():
        counts = Counter(cell[factor] for cell in cells)
        assert set(counts) == set(values) and max(counts.values()) - min(counts.values()) <= 1, counts
    assert cells == draw.cells(23, 7) != draw.cells(23, 8)


def test_cells_of_a_draw_run_on_both_substrates(tmp_path: Path) -> None:
    for file in draw.write(tmp_path, 30, 3):
        for on in SUBSTRATES:
            scenario = load(file, on=on)
        assert scenario.document["linux"]["buffer_packets"] in draw.FACTORS["buffer"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["agree"], "give a SCENARIO, or --draw N"),
        (["agree", "--draw", "0"], "0 is not in the range x>=1"),
        (["agree", "none.toml"], "none.toml: "),
    ],
)
def test_what_is_wrong_is_one_line(command: list[str], said: str, tmp_path: Path) -> None:
    ended = CliRunner().invoke(cli.commands, [*command, "--out", str(tmp_path / "out")])
    assert ended.exit_code == 2 or ended.exception is not None
    assert said in ended.output or said in str(ended.exception)
