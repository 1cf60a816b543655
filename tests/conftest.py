"""Small scenarios and a way to call the command."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import onramp
from onramp.result import Result

ROOT = Path(__file__).parents[1]

#: Nine hosts on a switch; some hundred flows and requests, done in well under a second.
SMALL: dict[str, Any] = {
    "name": "small",
    "duration": "500us",
    "network": {"kind": "star", "hosts": 9},
    "transport": {"kind": "dcqcn"},
    "onramp": {"threshold": "12us"},
    "clock": {"sync": "gaussian", "sigma": "200ns"},
    "measure": {"queues": ["s0->h0"], "links": ["s0->h0"], "owd": ["h1->h0"]},
    "traffic": [
        {"kind": "background", "workload": "FB_Hadoop", "load": 0.4},
        {"kind": "incast", "fan_out": 6, "size": "2KB", "load": 0.02},
    ],
}

#: Keeps two long flows going for hours of wall time.
ENDLESS: dict[str, Any] = {
    **SMALL,
    "name": "endless",
    "duration": "100s",
    "traffic": [*SMALL["traffic"], {"kind": "long", "src": ["h1", "h2"], "dst": "h0"}],
}


#: Files that take longest, which begin first: workers of pytest-xdist take a file each.
LONGEST = ("test_newest_kernel.py", "test_stock_kernels.py", "test_newest_kernel_agents.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of machines, which skip where there are none; the longest files come first."""
    for item in items:
        if item.get_closest_marker("skipif"):
            item.add_marker(pytest.mark.machines)
    items.sort(key=lambda item: item.path.name not in LONGEST)


def rust() -> dict[str, str]:
    """Variables of the environment by which cargo finds what is its own, whatever HOME is."""
    home = Path.home()
    own = {"CARGO_HOME": home / ".cargo", "RUSTUP_HOME": home / ".rustup"}
    return {name: os.environ.get(name, str(default)) for name, default in own.items()}


@dataclass(frozen=True)
class Done:
    """How a call of the command ended."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Results of SMALL."""
    return onramp.run(SMALL, out=tmp_path_factory.mktemp("runs") / "small")


@pytest.fixture(scope="session")
def synchronised(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Results of SMALL, longer, with clocks that are synchronised by short windows while flows arrive."""
    clock = {"sync": "huygens", "window": "5ms", "probe_interval": "50us", "lead": "1ms"}
    overrides = {"clock": clock, "onramp.threshold": "auto", "duration": "15ms", "measure.next_owd": 2000}
    return onramp.run(SMALL, overrides, out=tmp_path_factory.mktemp("runs") / "synchronised")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a scenario file, from TOML or nested dicts."""

    def write(scenario: str | dict[str, Any], name: str = "scenario.toml") -> Path:
        from onramp.scenario import to_toml

        path = tmp_path / name
        path.write_text(scenario if isinstance(scenario, str) else to_toml(scenario), encoding="utf-8")
        return path

    return write


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Call `onramp` with `tmp_path` as the current folder."""
    from onramp.cli import main

    def call(*args: object) -> Done:
        monkeypatch.chdir(tmp_path)
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(arg) for arg in args])
        assert isinstance(end.value.code, int)
        return Done(end.value.code, *capfd.readouterr())

    return call
