"""Notebooks run, and results show themselves in them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import onramp
from conftest import ROOT, SMALL
from onramp import notebook

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    document = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    cells = [cell for cell in document.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells), "is kept without outputs"
    NotebookClient(document, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    kinds = {kind for cell in cells for output in cell.outputs for kind in output.get("data", ())}
    assert {"text/html", "image/png"} & kinds


def test_results_are_tables_and_pictures(tmp_path: Path) -> None:
    compared = onramp.compare(SMALL, out=tmp_path / "compared")
    shown = notebook.of_comparison(compared)
    assert shown.count("<tr>") == len(compared.rows) + 1 and shown.count("<svg") == 1
    for line in compared.tests:
        assert line.replace(">", "&gt;") in shown
    alone = notebook.of_result(compared.with_[0])
    mean = compared.with_[0].summary["incast"]["rct_us"]["mean"]
    assert re.search(rf"mean \(µs\)</td><td[^>]*>{mean:.3g}", alone) and "<svg" in alone
    explained = notebook.of_explanation(onramp.explain({**SMALL, "name": "<b>"}, trial=0))
    assert "<svg" in explained and "<b>" not in explained and "T = 12us leaves" in explained


def test_a_sweep_is_a_table(tmp_path: Path) -> None:
    vary: dict[str, list[object]] = {"onramp.threshold": ["12us", "16us"], "seed": [1, 2]}
    table = onramp.sweep(SMALL, vary, out=tmp_path)
    assert table.num_rows == 4 and table["seed"].to_pylist() == [1, 2, 1, 2]
    one = onramp.run(SMALL, {"onramp.threshold": "16us"}, seed=2)
    assert table["incast.rct_us.mean"][3].as_py() == one.summary["incast"]["rct_us"]["mean"]
    # Nothing is run again.
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/summary.json")}
    assert onramp.sweep(SMALL, vary, out=tmp_path) == table
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/summary.json")} == before
