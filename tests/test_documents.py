"""Pages of docs/ that commands make say what these would say."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Command

DOCS = Path(__file__).parents[1] / "docs"
#: What ends the part of a page that is written by hand.
GENERATED = "<!-- generated -->\n"


@pytest.mark.parametrize(("page", "on"), [("paper-linux", "linux"), ("paper-simulated", "sim")])
def test_tables_of_verdicts_are_those_that_are_stored(page: str, on: str, command: Command) -> None:
    said = command("paper", "ALL", "--on", on, "--markdown", "--out", DOCS / "verdicts").stdout
    written = (DOCS / f"{page}.md").read_text(encoding="utf-8").partition(GENERATED)[2]
    assert written.strip() == said.strip(), f"make docs/{page}.md again; see there"
