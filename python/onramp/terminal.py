"""Tables on the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onramp import equivalence, groups, programs
from onramp.agreement import Agreement, overview
from onramp.comparison import Comparison, Ratio, Row
from onramp.explanation import Explanation
from onramp.forecast import Forecast
from onramp.metrics import MARK, ROUGH_NOTE, completed, is_rough, metrics, number
from onramp.paper.common import Verdict
from onramp.paper.verdict import INCONCLUSIVE, NOT, REPRODUCED
from onramp.scenario import SUBSTRATES, UNITS
from onramp.summary import Summary
from onramp.sweeps import Gain
from onramp.tracing import Trace


def console() -> Console:
    """Standard output; in a file or pipe wide enough for the tables."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def state(complete: bool, simulated_us: float, *, under_way: bool = False) -> str:
    """Words added to a title of results that are not complete."""
    words = "under way, so far to" if under_way else "incomplete, stopped at"
    return "" if complete else f" · {words} {simulated_us / 1e3:,.2f} ms"


def explanation_table(explanation: Explanation) -> Table:
    """A scenario's facts, a line each."""
    title = str(explanation.scenario.document["name"])
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False
    )
    table.add_column(no_wrap=True)
    table.add_column()
    for subject, sentence in explanation.lines:
        table.add_row(escape(subject), escape(sentence))
    return table


def comparison_table(comparison: Comparison) -> Table:
    """All sides, and the first one over each other."""
    seeds = ", ".join(map(str, comparison.seeds))
    until = min(r.summary["engine"]["simulated_us"] for r in comparison.all_runs)
    title = f"{comparison.title} · seed {seeds}{state(comparison.ended, until)}"
    table = _table(title, *comparison_head(comparison))
    group = ""
    for row in comparison.rows:
        first = row.metric.group != group
        group = row.metric.group
        if first and table.row_count:
            table.add_row()
        table.add_row(
            group if first else "",
            row.metric.heading + MARK * comparison.is_rough(row),
            *comparison_cells(row),
        )
    return table


def comparison_head(comparison: Comparison) -> list[str]:
    """Headings of the columns with numbers."""
    first, *others = comparison.runs if comparison.is_of_onramp else comparison.labels.values()
    return [first, *(column for other in others for column in (other, "ratio", "95% interval"))]


def comparison_cells(row: Row) -> list[str]:
    """Numbers of a line of a comparison."""
    first, *others = map(number, row.values)
    cells = [first]
    for other, ratio in zip(others, row.ratios, strict=True):
        cells += [other, ratio_text(ratio), interval_text(ratio.interval if ratio else None)]
    return cells


def gains(found: Sequence[Gain]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table of a sweep's gains. Heads have two lines."""
    head = [f"\n{key}" for key in found[0].values]
    head += [f"{metric.group}\n{metric.label}" for metric in found[0].ratios]
    rows = []
    for gain in found:
        cells = []
        for ratio in gain.ratios.values():
            within = f"\n({interval_text(ratio.interval)})" if ratio and ratio.interval else ""
            cells.append(ratio_text(ratio) + within)
        rows.append([*gain.values.values(), *cells])
    return head, rows


def sweep_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], varied: Collection[str], title: str | None = None
) -> Table:
    """A table of a sweep, whose first columns are the `varied` keys."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=title, title_justify="left")
    for n, column in enumerate(head):
        table.add_column(column, no_wrap=n < len(varied), justify="left" if n < len(varied) else "right")
    for row in rows:
        table.add_row(*row)
    return table


def forecast_table(forecast: Forecast) -> Table:
    """Recorded, replayed without On-Ramp, and for each threshold how many times as long it takes without."""
    title = f"{forecast.without.scenario.document['name']} · without over with On-Ramp"
    table = _table(title, "recorded", "without", *(f"T = {t}" for t in forecast.comparisons))
    group = ""
    for line in forecast.rows:
        first = line.metric.group != group
        group = line.metric.group
        if first and table.row_count:
            table.add_row()
        rows = (line.with_.get(t) for t in forecast.comparisons)
        table.add_row(
            group if first else "",
            line.metric.heading + MARK * is_rough(line.metric, forecast.without.summary),
            number(line.recorded),
            number(line.without),
            *(ratio_text(row.ratios[0]) if row else "–" for row in rows),
        )
    return table


def agreement_table(agreement: Agreement) -> Table:
    """Both substrates and their ratio, by side."""
    title = f"{agreement.label} · seed {', '.join(map(str, agreement.seeds))}"
    table = _table(title, "simulator", "Linux", "ratio", "95% interval")
    side = group = ""
    for row in agreement.rows:
        if row.side != side:
            table.add_row(f"[bold]{row.side}[/]")
            group = ""
        first = row.metric.group != group
        side, group = row.side, row.metric.group
        table.add_row(
            group if first else "",
            row.metric.heading + MARK * agreement.is_rough(row),
            number(row.sim),
            number(row.linux),
            row.text,
            interval_text(row.interval),
        )
    return table


def overview_table(found: Sequence[Agreement]) -> Table:
    """Ratios of several agreements."""
    head, lines = overview(found)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    names = head.index("") + 1
    for i, column in enumerate(head):
        table.add_column(column, justify="left" if i < names else "right", overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


def equivalence_table(found: Sequence[equivalence.Test]) -> Table:
    """Equivalence tests: a line for each sample, by transport and side."""
    head, lines = equivalence.table(found, different="[red]{} off[/]", inconclusive="[yellow]{} ?[/]")
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for i, column in enumerate(head):
        table.add_column(column, justify="left" if i < 3 else "right", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    return table


def comparison_text(found: Comparison) -> str:
    """A comparison's table, tests and notes."""
    console = Console(highlight=False, width=120, no_color=True)
    with console.capture() as table:
        console.print(comparison_table(found))
    lines = (line.rstrip() for line in table.get().splitlines())
    return "\n".join([*lines, "", *comparison_lines(found)])


def comparison_lines(found: Comparison) -> list[str]:
    """Lines below a comparison: tests, notes, and of each side a deadlock or what did not finish."""
    sides = {side: results[0].summary for side, results in found.sides.items()}
    left = [
        f"{side}: {text}"
        for side, s in sides.items()
        for text in (deadlock_text(s), unfinished_text(s))
        if text
    ]
    return [*found.tests, *found.notes, *left]


def trace_table(trace: Trace, flow: int) -> Table:
    """A flow on both substrates, as its sending host sees it."""
    table = _table(f"{trace.scenario} · seed {trace.seed} · flow {flow}", "simulator", "Linux", "ratio")
    sides = [trace.capture(flow, on) for on in ("sim", "linux")]
    values = [{**(c.numbers if c else {}), "fct_us": trace.fct_us(flow, c.on) if c else None} for c in sides]
    for label, key in (
        ("packets", "packets"),
        ("with data", "data_packets"),
        ("acknowledgements", "acks"),
        ("OR-ACKs", "or_acks"),
        ("bytes of data", "bytes"),
        ("sent again (packets)", "retransmitted"),
        ("most in flight (B)", "most_in_flight"),
        ("first (µs)", "first_us"),
        ("last (µs)", "last_us"),
        ("FCT (µs)", "fct_us"),
    ):
        one, other = (side.get(key) for side in values)
        ratio = f"{one / other:.3f}" if one and other else ""
        table.add_row("", label, *("–" if v is None else f"{v:,.10g}" for v in (one, other)), ratio)
    return table


def rdma_table(trace: Trace) -> Table:
    """Flows of RDMA, a line for each end: data packets and their bytes; in flight at most, in bytes."""
    columns = {
        "packets": "data_packets",
        "bytes": "bytes",
        "acked": "acked",
        "again": "retransmitted",
        "in flight": "most_in_flight",
        "ACKs": "acks",
        "NAKs": "naks",
        "marked": "marked",
        "echoed": "echoes",
    }
    table = _table(f"{trace.scenario} · seed {trace.seed}", *columns)
    for c in trace.captures:
        if c.numbers["protocol"] == "RoCEv2":
            # What is in flight the sender knows.
            hidden = "most_in_flight" if c.end == "receiver" else ""
            values = ("" if key == hidden else f"{c.numbers[key]:,}" for key in columns.values())
            table.add_row(f"flow {c.flow}", c.end, *values)
    return table


def trace_lines(trace: Trace) -> list[str]:
    """A line on each capture."""
    lines = []
    for c in trace.captures:
        numbers = c.numbers
        left = f", {c.left_out:,} more had no room" if c.left_out else ""
        lines.append(
            f"flow {c.flow} · {SUBSTRATES[c.on]}, {c.end} {c.host}: {numbers['packets']:,} packets, "
            f"{numbers['retransmitted']:,} sent again{left} · {c.path}"
        )
    return lines


def ratio_text(ratio: Ratio | None) -> str:
    """As "2.31×"."""
    if ratio is None or not math.isfinite(ratio.value):
        return "–"
    return f"{ratio.value:.2f}×" if ratio.value < 100 else f"{number(ratio.value)}×"


def interval_text(interval: tuple[float, float] | None) -> str:
    """As "2.20–2.43"."""
    return f"{interval[0]:.2f}–{interval[1]:.2f}" if interval and all(map(math.isfinite, interval)) else ""


def summary_table(summary: Summary, links: Sequence[str] = (), *, under_way: bool = False) -> Table:
    """One run, with the utilization of `links`."""
    onramp = "with" if summary["onramp"] else "without"
    end = state(summary["complete"], summary["engine"]["simulated_us"], under_way=under_way)
    table = _table(f"{summary['scenario']} · seed {summary['seed']} · {onramp} On-Ramp{end}", "")
    group = ""
    span = f"0 to {summary['engine']['simulated_us'] / 1e3:,.2f} ms"
    for metric in metrics(summary):
        value = metric.of(summary)
        if value is None:
            continue
        first = metric.group != group
        group = metric.group
        if first and table.row_count:
            table.add_row()
        rows = completed(summary, metric.sample) if metric.sample else 0
        of = f" · {rows:,}" if rows else "" if metric.sample else f", {span}"
        heading = metric.heading + MARK * is_rough(metric, summary)
        table.add_row(group + of if first else "", heading, number(value))
    for link in links:
        if (share := summary["network"]["utilization"].get(link)) is not None:
            table.add_row("", f"utilization {link}", f"{share:.1%}")
    return table


#: Kinds of communication that a table shows at most, and its title.
KINDS = 12
COMMUNICATION = "Communication, the most exposed first"


def kinds(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Communication of programs by operation, ranks and size, head and rows; none of a single kind."""
    head = ["", "ranks", "size", "count", "mean (µs)", "busbw (GB/s)", "exposed (share)"]
    found = summary.get("collective", {}).get("kinds", ())
    if len(found) < 2:
        return head, []
    rows = []
    for kind in found[:KINDS]:
        counts = [str(kind["ranks"]), size(kind["bytes"]), f"{kind['count']:,}"]
        numbers = map(number, (kind["mean_us"], kind["busbw"], kind["exposed"]))
        rows.append([kind["operation"], *counts, *numbers])
    if len(found) > KINDS:
        rows.append([f"and {len(found) - KINDS} more in summary.json"])
    return head, rows


def kinds_table(summary: Summary) -> Table | None:
    """The same as a table; None where there is only one kind."""
    head, rows = kinds(summary)
    table = _table(COMMUNICATION, *head[1:])
    for name, *cells in rows:
        table.add_row(name, *(["", *cells] if cells else []))
    return table if rows else None


def ranks_table(ranks: Sequence[programs.Rank], hosts: Sequence[str]) -> Table:
    """Each rank of programs in each iteration."""
    table = _table("", "rank", "host", "iteration", "finished (µs)", "computed (µs)", "exposed (µs)")
    for one in ranks:
        times = map(number, (one.finished_us, one.computed_us, one.exposed_us))
        table.add_row(f"traffic {one.traffic}", "", str(one.rank), hosts[one.host], str(one.number), *times)
    return table


def size(count: float) -> str:
    """Bytes with a binary unit where they are a whole number of it, else a decimal one."""
    for name in ("GiB", "MiB", "KiB"):
        if count >= UNITS[name] and count % UNITS[name] == 0:
            return f"{count / UNITS[name]:,.0f} {name}"
    name = next((name for name in ("GB", "MB", "KB") if count >= UNITS[name]), "B")
    return f"{number(count / UNITS[name])} {name}"


#: Colours of verdicts.
COLOURS = {REPRODUCED: "green", NOT: "red", INCONCLUSIVE: "yellow"}


def verdict_tables(verdict: Verdict) -> Iterator[Table]:
    """A figure's claims, one table per variant of On-Ramp."""
    seeds = ", ".join(map(str, verdict.seeds))
    form = f"{verdict.on}, {'quick, ' if verdict.quick else ''}seed {seeds}"
    for variant, claims in verdict.claims.items():
        named = f", On-Ramp {variant}" if len(verdict.claims) > 1 else ""
        table = Table(
            title=f"{verdict.figure}: {verdict.title} ({form}{named})", title_justify="left", box=None
        )
        table.title_style = "bold"
        for column in ("statement", "paper", "measured", "verdict"):
            table.add_column(column, overflow="fold")
        for claim in claims:
            colour = COLOURS.get(claim.verdict, "default")
            table.add_row(claim.statement, claim.stated, claim.measured, f"[{colour}]{claim.outcome}[/]")
        yield table


def unfinished_text(summary: Summary) -> str:
    """A line on what did not finish; empty if all did."""
    left = {what: count for what, count in summary["unfinished"].items() if count}
    if not left:
        return ""
    of = {group.table for group in groups.of_summary(summary)}
    if "collectives" in of and "exchanges" not in of:
        left = {"operations" if what == "exchanges" else what: count for what, count in left.items()}
    named = ", ".join(
        f"{count:,} {what if count > 1 else what.removesuffix('s')}" for what, count in left.items()
    )
    limit = f" at time_limit, {summary['engine']['simulated_us'] / 1e3:,.10g} ms" * summary["complete"]
    return f"Unfinished{limit}: {named} (in no statistic above)."


def rough_text(summary: Summary) -> str:
    """A line on percentiles of few times; empty if there are none."""
    return ROUGH_NOTE if any(is_rough(metric, summary) for metric in metrics(summary)) else ""


def deadlock_text(summary: Summary) -> str:
    """A line that names a PFC deadlock; empty without one."""
    circle = summary["network"].get("pfc_deadlock")
    return f"PFC deadlock: {circle}" if circle else ""


def clock_text(summary: Summary) -> str:
    """A line on how well clocks were synchronised; empty if they were not, or no two had a correction."""
    error = summary.get("clock", {}).get("error_ns")
    if error is None or error["p50"] is None:
        return ""
    return (
        f"Clocks: {error['p50']:,} ns apart at the median over pairs of hosts and time, "
        f"{error['p99']:,} ns at p99."
    )


def skipping_text(summary: Summary) -> str | None:
    """A line on iterations that were skipped, or why none was; None where nothing repeats."""
    line: str | None = summary["engine"].get("skipping")
    return line


def engine_text(summary: Summary) -> str:
    """A line on how fast the run was."""
    e = summary["engine"]
    return (
        f"{e['packet_hops'] / 1e6:,.1f} M packet-hops in {e['wall_s']:,.1f} s "
        f"({round(e['packet_hops_per_s'], -3):,.0f} a second), {e['peak_rss_mb']:,.0f} MB"
    )
