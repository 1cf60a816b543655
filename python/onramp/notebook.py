"""Results as Jupyter shows them: tables and pictures in place of a path."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onramp import plots, terminal
from onramp.metrics import MARK, ROUGH_NOTE, is_rough, metrics, number
from onramp.plots import offered, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from onramp.comparison import Comparison
    from onramp.explanation import Explanation
    from onramp.result import Result


def of_result(result: Result) -> str:
    """A run's numbers, and its completion times as bars."""
    summary = result.summary
    rows: list[list[str]] = []
    for metric in metrics(summary):
        if (value := metric.of(summary)) is not None:
            heading = metric.heading + MARK * is_rough(metric, summary)
            rows.append([metric.group, heading, number(value)])
    texts = (terminal.deadlock_text, terminal.unfinished_text, terminal.clock_text, terminal.engine_text)
    notes = [text for of in texts if (text := of(summary))]
    if any(is_rough(metric, summary) for metric in metrics(summary)):
        notes.insert(0, ROUGH_NOTE)
    return _page(str(summary["scenario"]), ["", "", ""], rows, notes, _bars({"": [result]}))


def of_comparison(found: Comparison) -> str:
    """A comparison's numbers, tests in words, and completion times as bars."""
    rows = [
        [row.metric.group, row.metric.heading + MARK * found.is_rough(row), *terminal.comparison_cells(row)]
        for row in found.rows
    ]
    head = ["", "", *terminal.comparison_head(found)]
    return _page(found.title, head, rows, [*found.tests, *found.notes], _bars(found.sides))


def of_explanation(found: Explanation) -> str:
    """A scenario's facts, traffic matrix and offered loads."""
    with style.styled():
        figure = offered.draw(found.facts)
    return _page(found.scenario.name, [], [list(line) for line in found.lines], [], _svg(figure))


def _bars(sides: plots.Sides) -> str:
    with style.styled():
        figure = plots.KINDS["bars"](sides)
    return _svg(figure) if figure is not None else ""


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with style.styled():
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    # Without the head of a file.
    return text.getvalue()[text.getvalue().index("<svg") :]


def _page(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str], picture: str
) -> str:
    """Rows whose first cell is that of the row before leave it empty."""
    lines = []
    before = None
    for first, *others in rows:
        shown = first if first != before else ""
        before = first
        numbers = "".join(f'<td style="text-align:right">{html.escape(cell)}</td>' for cell in others[1:])
        left = f'<td style="text-align:left">{html.escape(shown)}</td>'
        label = f'<td style="text-align:left">{html.escape(others[0])}</td>'
        lines.append(f"<tr>{left}{label}{numbers}</tr>")
    heads = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    top = f"<thead><tr>{heads}</tr></thead>" if any(head) else ""
    below = "".join(f"<div>{html.escape(note)}</div>" for note in notes)
    below = f'<div style="margin:1em 0">{below}</div>' if below else ""
    return f"<h4>{html.escape(title)}</h4><table>{top}<tbody>{''.join(lines)}</tbody></table>{below}{picture}"
