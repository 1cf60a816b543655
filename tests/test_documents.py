"""Pages of docs/ that commands make say what these would say, and tests that pages name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import Command
from onramp.paper.common import experiments

DOCS = Path(__file__).parents[1] / "docs"
#: What ends the part of a page that is written by hand.
GENERATED = "<!-- generated -->\n"
#: Stored verdicts of studies, not of the paper's figures.
STUDIES = sorted(
    path.parent.name
    for path in DOCS.glob("verdicts/*/verdict.json")
    if path.parent.name.rsplit("-", 1)[0] not in experiments("paper")
)


def _text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize(("page", "on"), [("paper-linux", "linux"), ("paper-simulated", "sim")])
def test_tables_of_verdicts_are_those_that_are_stored(page: str, on: str, command: Command) -> None:
    said = command("paper", "ALL", "--on", on, "--markdown", "--out", DOCS / "verdicts").stdout
    written = (DOCS / f"{page}.md").read_text(encoding="utf-8").partition(GENERATED)[2]
    assert written.strip() == said.strip(), f"make docs/{page}.md again; see there"


def test_the_summary_counts_what_the_pages_count() -> None:
    row = re.compile(r"^\|([^|]*)\| (\d+) (numbers|in words) \| (\d+) \| (\d+) \| (\d+) \|$", re.M)
    summary, of = [], ""
    for name, *counts in row.findall(_text("paper.md")):
        of = name.strip() or of
        summary.append((of, *counts))
    tally = re.compile(r"^- (.*), (\d+) (numbers|statements in words): (\d+) .*, (\d+) .*, (\d+) .*$", re.M)
    pages = [
        found for page in ("paper-linux.md", "paper-simulated.md") for found in tally.findall(_text(page))
    ]
    assert summary == [(of, n, kind.removeprefix("statements "), *counts) for of, n, kind, *counts in pages]


@pytest.mark.parametrize("verdict", STUDIES)
def test_tables_of_studies_are_those_that_are_stored(verdict: str, command: Command) -> None:
    name, on = verdict.rsplit("-", 1)
    said = command("study", name, "--on", on, "--markdown", "--out", DOCS / "verdicts").stdout
    stored = [line.split(" | ", 1)[1] for line in said.splitlines() if line.startswith(f"| {name} |")]
    page = _text("studies.md")
    assert stored and [line for line in stored if line not in page] == []


def test_every_promise_of_the_security_page_names_tests_that_are_there() -> None:
    rows = [
        row.split(" | ")
        for row in (DOCS / "security.md").read_text(encoding="utf-8").splitlines()
        if " | " in row
    ]
    assert len(rows) > 10
    for row in rows[2:]:
        of, *named = re.findall(r"`([^`]+)`", row[-1]) or ["none"]
        agent = DOCS.parent / "crates" / "onrampd"
        files = {path.stem: path for path in [*agent.glob("src/fleet/*.rs"), *agent.glob("tests/*.rs")]}
        for name in named:
            # After another file of tests, a comma, comes the next one.
            if name in files:
                of = name
            elif name.endswith("…") or ("_" in name and "/" not in name):
                text = files[of].read_text(encoding="utf-8")
                assert f"fn {name.rstrip('…')}" in text, f"{of}: {name}"
