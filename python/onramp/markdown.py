"""Tables for documents."""

from __future__ import annotations

from collections.abc import Sequence

from onramp import equivalence
from onramp.agreement import Agreement, overview
from onramp.metrics import number
from onramp.paper.common import Verdict, outcome
from onramp.terminal import interval_text

#: How a ratio beyond its goal is shown.
OFF = "**{}**"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """One table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


def agreements(found: Sequence[Agreement]) -> str:
    """One agreement in full, or several as an overview."""
    if len(found) > 1:
        return table(*overview(found, OFF))
    lines, last = [], ""
    for row in found[0].rows:
        unit = "×" if row.metric.unit == "×" else ""
        numbers = [number(row.sim) + unit, number(row.linux) + unit]
        name = f"{row.metric.group}, {row.metric.label}"
        side = row.side if row.side != last else ""
        lines.append([side, name, *numbers, row.text(OFF), interval_text(row.interval)])
        last = row.side
    return table(["", "", "simulator", "Linux", "ratio", "95% interval"], lines)


def tests(found: Sequence[equivalence.Test]) -> str:
    """Equivalence tests as a list of how many passed, and a table."""
    said = "\n".join(f"- {line}" for line in equivalence.lines(found))
    return f"{said}\n\n{table(*equivalence.table(found, OFF, '{} ?'))}"


def verdicts(found: Sequence[Verdict]) -> str:
    """The verdicts as a table, and what the figures rest on as another; substrates side by side."""
    names = {"linux": "On Linux", "sim": "Simulated"}
    shown = [on for on in names if any(v.on == on for v in found)]
    parts = []
    for of_paper, head in ((True, "Stated"), (False, "What the figure rests on")):
        rows: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        for verdict in found:
            for claim in (c for c in verdict.claims if c.of_paper == of_paper):
                key = verdict.figure.replace("fig", "Fig. "), f"{claim.statement} ({claim.criterion})"
                result = outcome(claim) if claim.holds else f"**{outcome(claim)}**"
                rows.setdefault(key, {})[verdict.on] = claim.measured, result
        if rows:
            columns = [c for on in shown for c in (names[on] if len(shown) > 1 else "Measured", "Verdict")]
            lines = [
                [*key, *(c for on in shown for c in cells.get(on, ("", "")))] for key, cells in rows.items()
            ]
            parts.append(table(["Figure", head, *columns], lines))
    return "\n\n".join(parts)
