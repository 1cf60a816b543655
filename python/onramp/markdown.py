"""Tables for documents."""

from __future__ import annotations

from collections.abc import Sequence

from onramp import equivalence
from onramp.agreement import Agreement, overview
from onramp.metrics import number
from onramp.paper.common import Verdict
from onramp.paper.verdict import INCONCLUSIVE, NOT, REPRODUCED, VERDICTS, Claim
from onramp.scenario import SUBSTRATES
from onramp.terminal import interval_text

#: How a ratio that is not equivalent is shown.
OFF = "**{}**"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """One table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


def agreements(found: Sequence[Agreement]) -> str:
    """One agreement in full, or several as an overview."""
    if len(found) > 1:
        return table(*overview(found))
    lines, last = [], ""
    for row in found[0].rows:
        unit = "×" if row.metric.unit == "×" else ""
        numbers = [number(row.sim) + unit, number(row.linux) + unit]
        name = f"{row.metric.group}, {row.metric.label}"
        side = row.side if row.side != last else ""
        lines.append([side, name, *numbers, row.text, interval_text(row.interval)])
        last = row.side
    return table(["", "", "simulator", "Linux", "ratio", "95% interval"], lines)


def tests(found: Sequence[equivalence.Test]) -> str:
    """Equivalence tests as a list of how many passed, and a table."""
    said = "\n".join(f"- {line}" for line in equivalence.lines(found))
    return f"{said}\n\n{table(*equivalence.table(found, OFF, '{} ?'))}"


#: How a verdict is shown beside what was measured.
MARKS = {REPRODUCED: "✓", NOT: "✗", INCONCLUSIVE: "?", "": ""}


def verdicts(found: Sequence[Verdict]) -> str:
    """How many statements are reproduced, and every one of them in a table, variants of On-Ramp side by side.

    Substrates come one after the other, each with what its figures rest on as a second table.
    """
    parts = []
    for on in SUBSTRATES:
        if of := [verdict for verdict in found if verdict.on == on]:
            parts += [_tally(of), _table(of, of_paper=True), _table(of, of_paper=False)]
    return "\n\n".join(part for part in parts if part)


def _tally(found: Sequence[Verdict]) -> str:
    """A list of how many statements came out how, by variant; those with a number of the text apart."""
    lines = []
    for variant in _variants(found):
        claims = [c for v in found for c in v.claims.get(variant, ()) if c.of_paper]
        for what, of in (
            ("numbers", [c for c in claims if c.stated]),
            ("statements in words", [c for c in claims if not c.stated]),
        ):
            if not of:
                continue
            counts = ", ".join(
                f"{sum(c.verdict == name for c in of)} {name} {MARKS[name]}" for name in VERDICTS
            )
            lines.append(f"- {SUBSTRATES[found[0].on]}, On-Ramp {variant}, {len(of)} {what}: {counts}")
    return "\n".join(lines)


def _variants(found: Sequence[Verdict]) -> list[str]:
    return list(dict.fromkeys(variant for verdict in found for variant in verdict.claims))


def _table(found: Sequence[Verdict], *, of_paper: bool) -> str:
    variants = _variants(found)
    lines = []
    for verdict in found:
        figure = verdict.figure.replace("fig", "Fig. ")
        rows: dict[str, dict[str, Claim]] = {}
        for variant, claims in verdict.claims.items():
            for claim in (c for c in claims if c.of_paper == of_paper):
                rows.setdefault(claim.statement, {})[variant] = claim
        for statement, by in rows.items():
            first = next(iter(by.values()))
            cells = [f"{by[v].measured} {MARKS[by[v].verdict]}".strip() if v in by else "" for v in variants]
            stated = [first.stated or "in words"] if of_paper else []
            lines.append([figure, f"{statement} ({first.criterion})", *stated, *cells])
    if not lines:
        return ""
    head = ["Stated (reproduced if)", "Paper"] if of_paper else ["What the figure rests on (holds if)"]
    columns = [f"On-Ramp {variant}" for variant in variants] if len(variants) > 1 else ["Measured"]
    return table(["Figure", *head, *columns], lines)
