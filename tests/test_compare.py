"""Comparisons and their page."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

import onramp
from conftest import SMALL, Command
from onramp import plots
from onramp.comparison import Comparison, Plan, Ratio, in_words
from onramp.metrics import number
from onramp.plots import bars
from onramp.scenario import to_toml


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """SMALL with and without On-Ramp."""
    return onramp.compare(SMALL, out=tmp_path_factory.mktemp("runs") / "compared")


def test_both_sides_have_the_same_arrivals(compared: Comparison) -> None:
    assert compared.arrivals.identical
    assert compared.arrivals.flows == len(compared.without[0].flows) == len(compared.with_[0].flows)
    assert [r.summary["onramp"] for r in (*compared.without, *compared.with_)] == [False, True]


def test_ratios_are_without_over_with(compared: Comparison) -> None:
    rows = {(r.metric.group, r.metric.label): r for r in compared.rows}
    row = rows["Incast RCT", "mean"]
    assert row.without == compared.without[0].summary["incast"]["rct_us"]["mean"]
    assert row.with_ == compared.with_[0].summary["incast"]["rct_us"]["mean"]
    assert row.without and row.with_ and row.ratio and row.interval
    assert row.ratio == pytest.approx(row.without / row.with_)
    assert row.interval[0] <= row.ratio <= row.interval[1]


@pytest.mark.parametrize("column", ["src", "bytes", "start_ps"])
def test_other_arrivals_are_noticed(compared: Comparison, tmp_path: Path, column: str) -> None:
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(compared.folder, folder)
    path = folder / "with/flows.parquet"
    flows = pq.read_table(path)
    at = flows.schema.get_field_index(column)
    changed = pc.add(flows[column], pa.scalar(1, flows.schema.field(at).type))
    pq.write_table(flows.set_column(at, flows.schema.field(at), changed), path)
    again = Comparison.read(folder)
    assert not again.arrivals.identical
    assert "NOT identical" in again.notes[0]


def test_command_leaves_folders_plots_and_a_page(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    done = command("compare", write(SMALL))
    assert done.returncode == 0, done.stderr
    page = tmp_path / done.stdout.splitlines()[-1]
    assert page == tmp_path / "results/small-compare-1/index.html"
    for side in ("without", "with"):
        assert (page.parent / side / "summary.json").is_file()
    assert (page.parent / "plots/bars.png").is_file() and (page.parent / "plots/bars.svg").is_file()

    stored = json.loads((page.parent / "comparison.json").read_text())
    assert stored["arrivals"]["identical"] is True and stored["complete"] is True
    text = page.read_text()
    for row in stored["rows"]:
        assert row["group"].replace(">", "&gt;") in text
        assert number(row["without"]) in done.stdout
        assert f"<td>{number(row['without'])}</td>" in text


def test_the_page_needs_nothing_else(compared: Comparison, tmp_path: Path) -> None:
    from onramp import report

    report.write([compared, compared.with_[0]], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text.count("<svg") >= 4 and text.count("<table") == 2
    without_names = re.sub(r'xmlns(:\w+)?="[^"]*"|<metadata>.*?</metadata>', "", text, flags=re.DOTALL)
    assert not re.search(
        r"""(src|href)=["'](?!#|data:image/png;base64,)|url\((?!#)|@import|https?://""", without_names
    )
    assert "prefers-color-scheme: dark" in text
    assert "name = &#34;small&#34;" in text


def test_several_seeds_have_intervals_over_seeds(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    done = command("compare", write(SMALL), "--seeds", "1,2,3", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "Student's t" in done.stdout and "seed 1, 2, 3" in done.stdout
    found = Comparison.read(tmp_path / "out")
    assert found.seeds == [1, 2, 3] and found.arrivals.identical
    first = found.rows[0]
    ratios = [
        a.summary["incast"]["rct_us"]["mean"] / b.summary["incast"]["rct_us"]["mean"]
        for a, b in zip(found.without, found.with_, strict=True)
    ]
    assert first.ratio == pytest.approx(math.prod(ratios) ** (1 / 3))
    assert first.interval and min(ratios) >= first.interval[0] and max(ratios) <= first.interval[1] + 1


def test_bars_stand_on_zero_and_are_means_over_seeds() -> None:
    found = onramp.compare(SMALL, seeds=[1, 2, 3])
    figure = plots.draw("bars", found.sides)
    rows = {(row.metric.group, row.metric.label): row for row in found.rows}
    mean = rows["Incast RCT", "mean"]
    assert mean.ratio
    panel = next(ax for ax in figure.axes if ax.get_title("left") == "Incast RCT")
    heights = [patch.get_height() for patch in panel.patches]  # type: ignore[attr-defined]
    assert heights == pytest.approx([mean.without, mean.with_])
    assert [text.get_text() for text in panel.texts] == [f"{mean.ratio:.2f}×"]
    for ax in figure.axes:
        assert ax.get_yscale() == "linear" and ax.get_ylim()[0] == 0
    assert "over seeds" in figure.get_supxlabel()
    # A logarithmic axis has no zero: nothing stands on it.
    ax = Figure().subplots()
    bars.panel(
        ax, ["a"], {"one": [bars.Bar(1.0, 2.0)], "other": [bars.Bar(1000.0, None)]}, ratio=True, log=True
    )
    assert ax.get_yscale() == "log" and not ax.patches


def test_json_holds_what_the_table_shows(write: Callable[..., Path], command: Command) -> None:
    done = command("compare", write(SMALL), "--json", "--out", "out")
    assert done.returncode == 0 and done.stderr == ""
    assert {row["group"] for row in json.loads(done.stdout)["rows"]} >= {"Incast RCT", "Network"}


def test_any_scenarios_are_compared_with_the_first(command: Command, tmp_path: Path) -> None:
    files = [tmp_path / f"{kind}.toml" for kind in ("dcqcn", "hpcc")]
    for file in files:
        file.write_text(to_toml({**SMALL, "transport": {"kind": file.stem}}))
    done = command("compare", *files, "--seeds", "1,2,3", "--set", "onramp.enabled=false")
    assert done.returncode == 0, done.stderr
    found = Comparison.read(tmp_path / "results/dcqcn-hpcc-compare-1-2-3")
    assert list(found.runs) == ["dcqcn", "hpcc"] and found.seeds == [1, 2, 3]
    assert found.arrivals.identical and not found.is_of_onramp
    row = next(row for row in found.rows if row.metric.heading == "mean (µs)")
    means = [
        [result.summary["incast"]["rct_us"]["mean"] for result in results] for results in found.runs.values()
    ]
    assert row.values == tuple(pytest.approx(sum(of) / 3) for of in means)
    ratios = [a / b for a, b in zip(*means, strict=True)]
    assert row.ratio == pytest.approx(math.prod(ratios) ** (1 / 3))
    # The table, the page and the words tell the same.
    page = html.unescape((found.folder / "index.html").read_text())
    for line in (*found.tests, *found.notes):
        assert line in done.stdout and line in page
    assert any(line.startswith("hpcc: Incast RCT, mean ") for line in found.tests)


def test_variants_of_a_scenario_are_compared(tmp_path: Path) -> None:
    sides: dict[str, dict[str, object]] = {
        "one": {"onramp.threshold": "16us"},
        "two": {"onramp.threshold": "30us"},
        "off": {"onramp.enabled": False},
    }
    found = onramp.compare(SMALL, sides=sides, out=tmp_path / "compared")
    assert list(found.sides) == ["one", "two", "off"]
    assert found.folder / "one" == found.without[0].folder
    row = found.rows[0]
    assert len(row.values) == 3 and len(row.ratios) == 2
    assert [results[0].summary["onramp"] for results in found.runs.values()] == [True, True, False]
    stored = json.loads((found.folder / "comparison.json").read_text())["rows"][0]
    assert stored["one"] == row.values[0] and set(stored["ratios"]) == {"two", "off"}
    again = Comparison.read(found.folder)
    assert again.rows == found.rows


def test_what_is_worse_is_told_whatever_it_is(tmp_path: Path) -> None:
    sides: dict[str, dict[str, object]] = {"fast": {}, "slow": {"network.host_rate": "25Gbps"}}
    found = onramp.compare(SMALL, sides=sides, seeds=[1, 2, 3], out=tmp_path / "compared")
    worse = [row for row in found.rows if row.metric.sample and row.interval and row.interval[1] < 1]
    assert {row.metric.statistic for row in worse} >= {"mean", "p95"}
    for row in worse:
        told = f"slow: {row.metric.group}, {row.metric.label} takes "
        assert any(line.startswith(told) for line in found.tests), told
    assert str(found).splitlines()[0].startswith("fast, slow") and found.tests[0] in str(found)


def test_loads_that_differ_are_told(tmp_path: Path) -> None:
    sides: dict[str, dict[str, object]] = {"less": {"traffic.0.load": 0.1}, "more": {"traffic.0.load": 0.2}}
    found = onramp.compare(SMALL, sides=sides, out=tmp_path / "compared")
    assert found.notes[0] == "Arrivals: not the same on all sides; ratios are of different loads."
    assert all(row.interval is None for row in found.rows) and found.tests == []
    with pytest.raises(
        onramp.OnRampError, match="a comparison has 2 to 8 sides that differ, and here is one"
    ):
        onramp.compare(SMALL, sides={"alone": {}})


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ((1.2, 1.5), "is 1.30 times as fast (1.20 to 1.50)"),
        ((0.5, 0.8), "takes 1.43 times as long (1.25 to 2)"),
        ((0.9, 1.1), "shows no difference (0.900 to 1.10 times as fast)"),
        ((0.997, 1.004), "differs by less than 0.5%"),
    ],
)
def test_ratios_are_told_in_words(interval: tuple[float, float], words: str) -> None:
    value = {1.2: 1.3, 0.5: 0.7}.get(interval[0], 1.0)
    assert in_words(Ratio(value, interval)) == words


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("small.toml", "small.toml"), "2 to 8 sides that differ, and here is one"),
        (("small.toml", "--vary", "onramp.threshold=" + ",".join(f"{t}us" for t in range(9, 18))), "9 sides"),
        (("small.toml", "--vary", "seed=1,2"), "give them with --seeds"),
        (("small.toml", "none.toml"), "none.toml: No such file"),
    ],
)
def test_sides_that_cannot_be_are_one_line(
    given: tuple[str, ...], said: str, write: Callable[..., Path], command: Command
) -> None:
    write(SMALL, "small.toml")
    done = command("compare", *given)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1


def test_sides_have_folders_of_their_own(tmp_path: Path) -> None:
    loaded = onramp.validate(SMALL, on="sim")
    plan = Plan.of_several({"plots": loaded, "a/b": loaded, "a b": loaded, "x" * 300: loaded}, None)
    assert list(plan.sides) == ["plots-0", "a-b", "a-b-2", "x" * 80]
    assert list(plan.labels.values()) == ["plots", "a/b", "a b", "x" * 300] and len(plan.name) <= 80
