"""`onramp new`: a scenario from a few answers."""

from __future__ import annotations

import dataclasses
import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

import onramp
from conftest import ROOT, Command
from onramp import template
from onramp.scenario import quantity


@pytest.mark.parametrize("network", template.NETWORKS)
@pytest.mark.parametrize("hosts", [2, 7, 100])
def test_what_it_writes_is_a_scenario_whose_t_leaves_a_queue(
    network: str, hosts: int, write: Callable[..., Path]
) -> None:
    text, there = template.write("mine", template.Answers(network=network, hosts=hosts))
    scenario = onramp.validate(write(text))
    assert scenario.advice == ()
    facts = json.loads(scenario.loaded.explain())
    assert len(scenario.loaded.hosts) == there >= hosts
    room = quantity(scenario.document["onramp"]["threshold"]) - facts["owd_ps"][1] / 1e12
    assert 10e-6 <= room < 12e-6


@pytest.mark.parametrize("rate", ["1Gbps", "10Gbps", "400Gbps"])
def test_every_traffic_runs_over_tcp(rate: str, write: Callable[..., Path]) -> None:
    answers = template.Answers("star", 6, rate, "cubic", tuple(template.TRAFFIC), 0.2)
    scenario = onramp.validate(write(template.write("mine", answers)[0]))
    assert [traffic["kind"] for traffic in scenario.document["traffic"]] == list(template.TRAFFIC)
    # A hundred packets at a host link.
    facts = json.loads(scenario.loaded.explain())
    room = quantity(scenario.document["onramp"]["threshold"]) - facts["owd_ps"][1] / 1e12
    assert room >= max(10e-6, 100 * 8 * 1048 / quantity(rate))


def test_the_command_writes_a_file_and_refuses_to_write_over_one(command: Command, tmp_path: Path) -> None:
    done = command(
        "new", "mine.toml", "--network", "star", "--hosts", 9, "--traffic", "incast", "--rate", "25Gbps"
    )
    assert done.returncode == 0, done.stderr
    assert command("validate", "mine.toml").stdout == "mine.toml: ok\n"
    assert command("run", "mine.toml", "--set", "duration=200us", "--set", "warmup=0us").returncode == 0
    before = (tmp_path / "mine.toml").read_text()
    again = command("new", "mine.toml")
    assert (again.returncode, again.stderr) == (2, "onramp: mine.toml: exists; choose another FILE\n")
    assert (tmp_path / "mine.toml").read_text() == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--rate", "fast"), "--rate fast: is no rate, such as 100Gbps"),
        (("--rate", "7us"), "--rate 7us: is no rate, such as 100Gbps"),
        (
            ("--traffic", "incasts"),
            "--traffic incasts: is none of background, incast, rpc, storage, collective",
        ),
        (("--transport", "qubic"), 'did you mean "cubic"?'),
        (("--traffic", "storage"), "needs TCP"),
        (("--hosts", "1"), "1 is not in the range"),
    ],
)
def test_mistakes_leave_no_file(given: tuple[str, ...], said: str, command: Command, tmp_path: Path) -> None:
    done = command("new", "mine.toml", *given)
    assert done.returncode == 2 and said in done.stderr
    assert not (tmp_path / "mine.toml").exists()


def test_it_asks_with_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"Network": "star", "Hosts": 9, "Traffic": "rpc, incast"}

    def prompt(text: str, default: Any, **_: Any) -> Any:
        return given.get(text.split(" (")[0], default)

    monkeypatch.setattr(click, "prompt", prompt)
    answers = template.Answers()
    for field in dataclasses.fields(template.Answers):
        answers = template.ask(answers, field.name)
    assert answers == template.Answers("star", 9, traffic=("rpc", "incast"))


def test_examples_are_written_once_and_run(command: Command, tmp_path: Path) -> None:
    done = command("new", "examples")
    assert done.returncode == 0
    theirs = {path.relative_to(tmp_path / "scenarios") for path in (tmp_path / "scenarios").rglob("*.toml")}
    assert theirs == {path.relative_to(ROOT / "scenarios") for path in (ROOT / "scenarios").rglob("*.toml")}
    assert done.stdout.startswith(f"scenarios: {len(theirs)} scenarios")
    assert command("validate", "scenarios/demo.toml", "scenarios/studies/irn.toml").returncode == 0
    again = command("new", "examples")
    assert (again.returncode, again.stderr) == (2, "onramp: scenarios: is not empty; choose another FOLDER\n")


def test_examples_go_into_an_empty_folder_whatever_its_name(command: Command, tmp_path: Path) -> None:
    assert command("new", "examples", ".").returncode == 0
    assert (tmp_path / "demo.toml").is_file()


def test_examples_that_do_not_fit_leave_nothing(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    done = command("new", "examples")
    assert (done.returncode, done.stderr) == (2, "onramp: scenarios: [Errno 28] No space left on device\n")
    assert not (tmp_path / "scenarios").exists()
