"""One self-contained HTML page of results."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jinja2

from onramp import equivalence, folders, plots, sweeps
from onramp.agreement import SIDES, Agreement
from onramp.comparison import Comparison
from onramp.errors import OnRampError
from onramp.forecast import Forecast
from onramp.metrics import MARK, Metric, is_rough, metrics, number
from onramp.plots import forest, style, thresholds
from onramp.result import Result
from onramp.scenario import SUBSTRATES, Scenario
from onramp.summary import SIZES, Summary
from onramp.sweeps import Sweep
from onramp.terminal import (
    COMMUNICATION,
    clock_text,
    comparison_cells,
    comparison_head,
    comparison_lines,
    deadlock_text,
    gains,
    interval_text,
    kinds,
    ratio_text,
    rough_text,
    state,
    unfinished_text,
)


@dataclass
class Card:
    """A ratio in large type."""

    title: str
    ratio: str
    detail: str


@dataclass
class Part:
    """One comparison or run on the page."""

    title: str
    subtitle: str
    head: list[str]
    #: Rows of cells; a row with a single cell is a heading.
    rows: list[list[str]]
    notes: list[str]
    svgs: list[str]
    parameters: list[tuple[str, str]]
    scenario: str
    cards: list[Card] = field(default_factory=list)
    #: Specifications of interactive charts.
    charts: list[dict[str, Any]] = field(default_factory=list)


def read(folder: Path) -> Comparison | Agreement | Sweep | Result:
    """Results in a folder, or the rows so far of a run under way or killed.

    Raises
    ------
    OnRampError
        If that is no results.
    """
    if (folder / "comparison.json").is_file():
        return Comparison.read(folder)
    if (folder / "agreement.json").is_file():
        return Agreement.read(folder)
    if (folder / sweeps.FILE).is_file():
        return Sweep.read(folder)
    try:
        return Result(folder, partial=True)
    except OnRampError:
        what = "neither comparison.json, sweep.parquet nor summary.json"
        raise OnRampError(f"{folder}: holds no results ({what})") from None


def write(
    results: Sequence[Comparison | Agreement | Forecast | Sweep | Result],
    page: Path,
    tests: Mapping[str, Sequence[equivalence.Test]] | None = None,
    *,
    interactive: bool = False,
) -> None:
    """Write a page on comparisons, agreements and single runs, and their plots into their folders.

    `tests` are equivalence tests by title, which come first; their plots are beside the page. In an
    `interactive` page, comparisons and runs have charts in place of the plots of the same kind.

    Raises
    ------
    OnRampError
        If a package for charts is missing.
    """
    of: dict[type, Callable[[Any], Part]] = {
        Comparison: partial(_of_comparison, interactive=interactive),
        Agreement: _of_agreement,
        Forecast: _of_forecast,
        Sweep: _of_sweep,
        Result: partial(_of_run, interactive=interactive),
    }
    parts = [_of_tests(title, of_one, page.parent) for title, of_one in (tests or {}).items() if of_one]
    for found in results:
        parts.append(of[type(found)](found))
        if isinstance(found, Sweep) and (gained := sweeps.gains(found.done)):
            parts.append(_of_gains(gained))
        if isinstance(found, Result) and (of_kinds := kinds(found.summary))[1]:
            parts.append(_table(COMMUNICATION, found.summary["scenario"], *of_kinds))
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("onramp", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.get_template("report.html.j2").render(parts=parts, script=_script(parts))
    with folders.replacing(page) as path:
        path.write_text(text, encoding="utf-8")


def _script(parts: Sequence[Part]) -> str:
    """The script that draws the page's charts; none without charts."""
    if not any(part.charts for part in parts):
        return ""
    from onramp import charts

    return charts.script()


def _of_tests(title: str, found: Sequence[equivalence.Test], folder: Path) -> Part:
    head, rows = equivalence.table(found, different="{} (off)", inconclusive="{} (?)")
    stem = folder / title.lower().replace(" ", "-")
    with style.styled():
        style.save(forest.draw(found), stem)
    return Part(
        title=title,
        subtitle="Ratios with 90% intervals: equivalent where they lie within the margin",
        head=head,
        rows=rows,
        notes=equivalence.lines(found),
        svgs=_svgs([stem.with_suffix(".svg")]),
        parameters=[],
        scenario="",
    )


def _of_comparison(c: Comparison, *, interactive: bool) -> Part:
    rows: list[list[str]] = []
    group = ""
    for row in c.rows:
        if row.metric.group != group:
            group = row.metric.group
            rows.append([group])
        rows.append([row.metric.heading + MARK * c.is_rough(row), *comparison_cells(row)])
    cards = [
        Card(
            f"{row.metric.group}, {row.metric.label}" + (f": {label}" if len(c.runs) > 2 else ""),
            ratio_text(row.ratios[n]),
            f"{number(row.values[0])} → {number(row.values[n + 1])} µs",
        )
        for row in c.rows
        if _is_card(row.metric)
        for n, label in enumerate(list(c.labels.values())[1:])
    ]
    until = min(r.summary["engine"]["simulated_us"] for r in c.all_runs)
    if c.is_of_onramp:
        subtitle = "The same arrivals with and without On-Ramp"
    else:
        subtitle = f"{'The same' if c.arrivals.identical else 'Different'} arrivals on {len(c.runs)} sides"
    svgs, charts = _pictures(c.sides, c.folder, interactive=interactive)
    return Part(
        title=c.title + state(c.ended, until),
        subtitle=subtitle,
        head=["", *comparison_head(c)],
        rows=rows,
        notes=[*comparison_lines(c), DEFINITIONS[c.with_[0].summary["substrate"]]],
        svgs=svgs,
        parameters=parameters(c.scenario, c.seeds, c.with_[0].summary),
        scenario=c.scenario.text,
        cards=cards,
        charts=charts,
    )


def _of_agreement(a: Agreement) -> Part:
    rows: list[list[str]] = []
    group = ""
    for row in a.rows:
        if (heading := f"{row.metric.group}, {row.side}") != group:
            group = heading
            rows.append([heading])
        numbers = [number(row.sim), number(row.linux), row.text, interval_text(row.interval)]
        rows.append([row.metric.heading + MARK * a.is_rough(row), *numbers])
    svgs = []
    for side, runs in a.runs.items():
        sides = {f"{name}, {SIDES[side]}": runs[on] for on, name in SUBSTRATES.items()}
        svgs += _svgs(plots.save_all(sides, a.folder / f"plots-{side}", kinds=("cdf", "queue")))
    result = next(iter(a.runs.values()))["linux"][0]
    return Part(
        title=a.label,
        subtitle="The same arrivals in the simulator and on Linux",
        head=["", "simulator", "Linux", "simulator / Linux", "95% interval"],
        rows=rows,
        notes=[*a.notes, DEFINITIONS["linux"]],
        svgs=svgs,
        parameters=parameters(a.scenario, a.seeds, result.summary),
        scenario=a.scenario.text,
    )


def _of_forecast(f: Forecast) -> Part:
    rows: list[list[str]] = []
    group = ""
    for line in f.rows:
        if line.metric.group != group:
            group = line.metric.group
            rows.append([group])
        ratios = [
            f"{ratio_text(row.ratios[0])} {interval_text(row.interval)}" if row else "–"
            for row in (line.with_.get(t) for t in f.comparisons)
        ]
        rough = MARK * is_rough(line.metric, f.without.summary)
        rows.append([line.metric.heading + rough, number(line.recorded), number(line.without), *ratios])
    stem = f.folder / "forecast"
    with style.styled():
        style.save(thresholds.draw(f), stem)
    return Part(
        title=f"Forecast for {f.without.scenario.document['name']}",
        subtitle="The recorded flows, replayed with and without On-Ramp: without over with",
        head=["", "recorded", "without", *(f"T = {t}" for t in f.comparisons)],
        rows=rows,
        notes=[*f.notes, *filter(None, [rough_text(f.without.summary)]), DEFINITIONS["sim"]],
        svgs=_svgs([stem.with_suffix(".svg")]),
        parameters=[],
        scenario="",
    )


def _of_sweep(s: Sweep) -> Part:
    head, rows = sweeps.overview(s.done)
    first = s.done[0][1]
    with style.styled():
        style.save(sweeps.draw(s.done), s.folder / "sweep")
    return Part(
        title=f"Sweep of {first.summary['scenario']}",
        subtitle=f"{len(s.done)} runs over {', '.join(s.keys)}",
        head=head,
        rows=rows,
        notes=[*sweeps.notes(s.done), DEFINITIONS[first.summary["substrate"]]],
        svgs=_svgs([s.folder / "sweep.svg"]),
        parameters=[],
        scenario="",
    )


def _of_gains(found: Sequence[sweeps.Gain]) -> Part:
    return _table("What On-Ramp gains", sweeps.GAINS, *gains(found))


def _table(title: str, subtitle: str, head: list[str], rows: list[list[str]]) -> Part:
    """A part that is a table only."""
    return Part(
        title=title,
        subtitle=subtitle,
        head=head,
        rows=rows,
        notes=[],
        svgs=[],
        parameters=[],
        scenario="",
    )


def _of_run(result: Result, *, interactive: bool) -> Part:
    s = result.summary
    # Nothing is put into the folder of a run that may be under way.
    with tempfile.TemporaryDirectory() if result.is_partial else nullcontext(result.folder) as folder:
        svgs, charts = _pictures({"": [result]}, Path(folder), interactive=interactive)
    rows: list[list[str]] = []
    group = ""
    for metric in metrics(s):
        if (value := metric.of(s)) is None:
            continue
        if metric.group != group:
            group = metric.group
            rows.append([group])
        rows.append([metric.heading + MARK * is_rough(metric, s), number(value)])
    return Part(
        title=str(s["scenario"])
        + state(s["complete"], s["engine"]["simulated_us"], under_way=result.is_under_way),
        subtitle="With On-Ramp" if s["onramp"] else "Without On-Ramp",
        head=["", "value"],
        rows=rows,
        notes=[
            *filter(None, [deadlock_text(s), rough_text(s), unfinished_text(s), clock_text(s)]),
            DEFINITIONS[s["substrate"]],
        ],
        svgs=svgs,
        parameters=parameters(result.scenario, [s["seed"]], s),
        scenario=result.scenario.text,
        charts=charts,
    )


def _is_card(metric: Metric) -> bool:
    """Shown at the top of the page: means, and the tail of requests."""
    if metric.sample in SIZES:
        return metric.statistic == "mean" and metric.sample != "all"
    return bool(metric.sample) and metric.statistic in ("mean", "p95")


DEFINITIONS = {
    "sim": "RCT: request completion time, until the last answer's sender has its last ACK. "
    "FCT: flow completion time, until the sender has the last ACK. "
    "p95: exact 95th percentile of all completed.",
    "linux": "RCT: request completion time, until the requester has read the last byte. "
    "FCT: flow completion time, until the receiver has read the last byte. "
    "p95: exact 95th percentile of all completed.",
}


def _pictures(
    sides: plots.Sides, folder: Path, *, interactive: bool
) -> tuple[list[str], list[dict[str, Any]]]:
    """Plots as SVG elements, and charts, which stand in place of the plots of their kinds."""
    files = plots.save_all(sides, folder / "plots")
    if not interactive:
        return _svgs(files), []
    from onramp import charts

    static = [file for file in files if file.stem not in charts.KINDS]
    return _svgs(static), charts.specifications({side: results[0] for side, results in sides.items()})


def _svgs(files: Sequence[Path]) -> list[str]:
    """SVG elements that take the page's colours of text and background."""
    texts = [file.read_text(encoding="utf-8") for file in files]
    bodies = [text[text.index("<svg") :] for text in texts]
    # A single panel as wide as the page would be as high as the window.
    most = r' style="max-width: calc(1.6 * \1pt)"\g<0>'
    bodies = [re.sub(r' width="([\d.]+)pt"', most, body, count=1) for body in bodies]
    return [body.replace(style.INK, "currentColor").replace(style.PAPER, "var(--back)") for body in bodies]


def parameters(scenario: Scenario, seeds: Sequence[int], summary: Summary) -> list[tuple[str, str]]:
    """Name and text of a scenario, for a reader."""
    d = scenario.document
    onramp = {k: d["onramp"][k] for k in ("threshold", "version", "gain", "max_pause", "ack")}
    linux = summary["substrate"] == "linux"
    if linux:
        onramp.pop("ack")
        switches = [("Linux", _say(d["linux"]))]
    else:
        switches = [("Switch", _say({k: d["switch"][k] for k in ("loss", "buffer")}))]
    run_by = [summary["version"], summary["commit"], summary["engine"].get("kernel")]
    return [
        ("Network", _say(d["network"])),
        *[("Traffic", _say(traffic)) for traffic in d["traffic"]],
        ("Congestion control", _say(d["transport"])),
        ("On-Ramp", _say(onramp)),
        ("Clocks", _say(d["clock"])),
        *switches,
        ("Arrivals during", d["duration"]),
        ("Seeds" if len(seeds) > 1 else "Seed", ", ".join(map(str, seeds))),
        ("Run by" if linux else "Simulator", " · ".join(filter(None, run_by))),
    ]


def _say(section: dict[str, Any]) -> str:
    parts = [str(section["kind"])] if "kind" in section else []
    for key, value in section.items():
        if key == "kind":
            continue
        if isinstance(value, (list, dict)) and len(str(value)) > 60:
            value = f"({len(value)}, below)"
        text = str(value).lower() if isinstance(value, bool) else value
        parts.append(f"{key.replace('_', ' ')} {text}")
    return " · ".join(parts)
