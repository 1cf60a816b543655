"""Interactive charts, and the pages that have them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import vl_convert

import onramp
from browser import Browser, needs_chromium
from conftest import Command
from onramp import charts
from onramp.result import Result


def rows(specification: dict[str, Any]) -> list[dict[str, Any]]:
    """All rows of data within a specification."""
    return [row for dataset in specification["datasets"].values() for row in dataset]


@pytest.mark.parametrize("kind", charts.KINDS)
def test_every_kind_compiles_and_draws(small: Result, kind: str) -> None:
    specification = onramp.chart(small, kind).to_dict()
    assert rows(specification)
    assert vl_convert.vegalite_to_svg(specification).startswith("<svg")


def test_all_flows_are_points_with_their_numbers_and_times(small: Result) -> None:
    points = rows(onramp.chart(small, "flows").to_dict())
    flows = small.flows.to_pylist()
    alone = {str(row["id"]): row for row in flows if row["request"] is None or row["request"] < 0}
    shown = {row["id"]: row for row in points if row.get("src")}
    assert shown.keys() == alone.keys()
    for number, row in shown.items():
        assert row["us"] == pytest.approx(alone[number]["fct_ps"] / 1e6)
        assert row["bytes"] == str(alone[number]["bytes"])


def test_of_many_flows_the_slowest_are_among_the_points(
    small: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts.flows, "MOST", 20)
    points = rows(onramp.chart(small, "flows").to_dict())
    requests = [row for row in points if row.get("requester")]
    slowest = max(small.requests["rct_ps"].to_pylist())
    assert len(requests) == 20
    assert max(row["us"] for row in requests) == pytest.approx(slowest / 1e6)


def test_what_a_run_has_not_is_named(small: Result, tmp_path: Path) -> None:
    with pytest.raises(onramp.OnRampError, match="'bars': is none of cdf, flows, queue"):
        onramp.chart(small, "bars")
    bare = onramp.run(small.scenario, {"measure.queues": "[]", "measure.owd": "[]"}, out=tmp_path / "bare")
    with pytest.raises(onramp.OnRampError, match="'queue': the run has nothing to show"):
        onramp.chart(bare, "queue")


@needs_chromium
def test_a_page_draws_its_charts_without_a_network(small: Result, command: Command, tmp_path: Path) -> None:
    folder = shutil.copytree(small.folder, tmp_path / "small")
    done = command("report", str(folder), "--interactive")
    assert done.returncode == 0, done.stderr
    page = folder / "index.html"
    with Browser(tmp_path) as browser:
        browser.open(page.as_uri())
        browser.until(f"document.querySelectorAll('figure.chart svg.marks').length === {len(charts.KINDS)}")
        drawn = browser.value("document.querySelectorAll('figure.chart svg.marks .mark-symbol path').length")
        asked = [
            e["params"]["request"]["url"]
            for e in browser.events
            if e["method"] == "Network.requestWillBeSent"
        ]
        errors = [e for e in browser.events if e["method"] == "Runtime.exceptionThrown"]
    assert drawn > 50
    assert not errors
    assert all(url.startswith(("file:", "data:")) for url in asked)
    embedded = page.read_text(encoding="utf-8").split('<script type="application/json">')[1:]
    assert [json.loads(text.partition("</script>")[0])["$schema"] for text in embedded]
