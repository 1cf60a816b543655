"""The dashboard, as Grafana's own types read it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

PACKAGED = Path(__file__).parents[1] / "packaging" / "grafana"


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that reads it."""
    program = tmp_path_factory.mktemp("grafana") / "check"
    # What is not there is not fetched by a test.
    build = ["go", "build", "-o", str(program), "."]
    try:
        done = subprocess.run(
            build,
            cwd=PACKAGED / "check",
            env={**os.environ, "GOPROXY": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("Go: not installed: make test-chart does")
    if "disabled by GOPROXY=off" in done.stderr:
        pytest.skip("Grafana's foundation SDK: not here: make test-chart fetches it")
    assert done.returncode == 0, done.stderr
    return program


def said(check: Path, dashboard: Path) -> str:
    """What is wrong with a dashboard."""
    return subprocess.run([check, dashboard], capture_output=True, text=True, check=False).stderr


def test_grafana_reads_the_dashboard(check: Path) -> None:
    assert said(check, PACKAGED / "onramp.json") == ""


def test_what_grafana_does_not_know_is_told(check: Path, tmp_path: Path) -> None:
    dashboard = json.loads((PACKAGED / "onramp.json").read_text(encoding="utf-8"))
    del dashboard["templating"]["list"][1]["name"]
    dashboard["panels"][0]["colour"] = "red"
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(dashboard), encoding="utf-8")
    told = said(check, wrong)
    assert "templating.list[1].name" in told and "colour" in told, told
