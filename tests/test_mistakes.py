"""Every mistake is one clear line and exit status 2."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import onramp
from conftest import ROOT, SMALL, Command

GOOD = """\
name = "good"
duration = "100us"

[network]
kind = "star"
hosts = 9

[transport]
kind = "dcqcn"

[onramp]
threshold = "12us"

[[traffic]]
kind = "background"
workload = "WebSearch"
load = 0.4
"""

INCAST = '\n[[traffic]]\nkind = "incast"\nfan_out = {}\nsize = "2KB"\nload = 0.02\n'
TRACE = '\n[[traffic]]\nkind = "trace"\nfile = "{}"\n'
HPCC = TRACE + 'format = "hpcc"\n'

#: What is replaced by what, and what the line must name.
BROKEN: dict[str, tuple[str, str, list[str]]] = {
    "unknown key": ("threshold =", "treshold =", ["scenario.toml:12", "treshold", "threshold"]),
    "unknown section": ("[onramp]", "[onrampp]", ["scenario.toml:11", "onrampp", "onramp"]),
    "bare number": ('"12us"', "12", ["scenario.toml:12", "onramp.threshold", "16us"]),
    "wrong unit": ('"12us"', '"12KB"', ["scenario.toml:12", "onramp.threshold", "us"]),
    "wrong type": ("hosts = 9", 'hosts = "nine"', ["scenario.toml:6", "hosts"]),
    "impossible value": ("load = 0.4", "load = -0.4", ["scenario.toml:17", "load"]),
    "zero duration": ('"100us"', '"0us"', ["scenario.toml:2", "duration"]),
    "unknown transport": ('"dcqcn"', '"cubik"', ["scenario.toml:9", "cubik", "cubic", "timely"]),
    "unknown topology": ('"star"', '"ring"', ["scenario.toml:5", "ring", "star", "fat-tree"]),
    "missing key": ("hosts = 9\n", "", ["scenario.toml", "network", "hosts"]),
    "missing workload": ('"WebSearch"', '"WebSaerch"', ["scenario.toml:16", "WebSaerch"]),
    "bad TOML": ("[network]", "[network", ["scenario.toml:4"]),
    "fan-out too large": ("load = 0.4\n", "load = 0.4\n" + INCAST.format(9), ["fan_out", "9", "8"]),
    "missing file": ("load = 0.4\n", "load = 0.4\n" + TRACE.format("no.csv"), ["scenario.toml", "no.csv"]),
    "malformed trace": ("load = 0.4\n", "load = 0.4\n" + TRACE.format("bad.csv"), ["bad.csv", "3"]),
    "unreachable host": ("load = 0.4\n", "load = 0.4\n" + TRACE.format("far.csv"), ["far.csv", "2", "12"]),
    "too many flows": (
        "load = 0.4\n",
        "load = 0.4\n" + HPCC.format("four.txt"),
        ["four.txt:1", "announces 2 flows, but 4 follow"],
    ),
    "no flow": (
        "load = 0.4\n",
        "load = 0.4\n" + TRACE.format("none.csv"),
        ["scenario.toml:21", "none.csv", "no flow"],
    ),
    "flows after the load": (
        "load = 0.4\n",
        "load = 0.4\n" + TRACE.format("late.csv"),
        ["scenario.toml:21", "traffic[1].file", "2s", "duration = 100us"],
    ),
    "program's own transport": (
        '"dcqcn"',
        '"custom"\nname = "aimd"',
        ["scenario.toml:10", "aimd", "examples/controller"],
    ),
    "unknown gain": ('"12us"', '"12us"\ngain = 0.3', ["scenario.toml:13", "onramp.gain", "0.25"]),
}


def is_one_line(text: str) -> bool:
    """A single line that is no dump of the program's insides."""
    return text.count("\n") == 1 and not re.search("Traceback|panicked|Error\\(", text)


@pytest.fixture
def traces(tmp_path: Path) -> None:
    """Broken traces."""
    head = "src,dst,bytes,start_ns\n"
    (tmp_path / "bad.csv").write_text(head + "1,0,5000,0\n1,0,many,0\n")
    (tmp_path / "far.csv").write_text(head + "12,0,5000,0\n")
    (tmp_path / "none.csv").write_text(head)
    (tmp_path / "late.csv").write_text(head + "1,0,5000,2000000000\n")
    (tmp_path / "four.txt").write_text("2\n" + "1 0 3 100 5000 0\n" * 4)


@pytest.mark.usefixtures("traces")
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_scenario_is_one_line(
    write: Callable[..., Path], command: Command, tmp_path: Path, case: str
) -> None:
    old, new, named = BROKEN[case]
    assert old in GOOD
    write(GOOD.replace(old, new, 1))
    done = command("run", "scenario.toml")
    assert done.returncode == 2, done.stderr
    assert is_one_line(done.stderr), done.stderr
    for part in named:
        assert part in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "results").exists()
    # Nothing is valid that does not run.
    assert command("validate", "scenario.toml").stderr == done.stderr


def test_the_good_scenario_is_good(write: Callable[..., Path]) -> None:
    assert onramp.validate(write(GOOD)).name == "good"


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["run", "nowhere.toml"], "nowhere.toml: No such file"),
        (["run", "scenario.toml", "--set", "onramp.threshold"], "key=value"),
        (["run", "scenario.toml", "--set", "onramp.threshold=12"], "--set: onramp.threshold"),
        (["run", "scenario.toml", "--set", "traffic.3.load=1"], "traffic"),
        (["run", "scenario.toml", "--on", "linux"], "use --on sim"),
        (["agree", "scenario.toml"], "use --on sim"),
        (["run", "scenario.toml", "--fast"], "--fast"),
        (["run"], "SCENARIO"),
        (["compare", "scenario.toml", "--seeds", "1,x"], "--seeds 1,x"),
        (["sweep", "scenario.toml"], "--vary"),
        (["sweep", "scenario.toml", "--vary", "onramp.gain=0.25,0.3"], "onramp.gain"),
        (["paper", "fig99"], "fig99"),
        (["report", "."], "holds no results"),
        (["show", "."], "is not a result folder"),
        (["perfetto", ".."], "is not a result folder"),
        (["fly"], "fly"),
    ],
)
def test_a_wrong_call_is_one_line(
    write: Callable[..., Path], command: Command, args: list[str], named: str
) -> None:
    write(GOOD)
    done = command(*args)
    assert done.returncode == 2, done
    assert is_one_line(done.stderr), done.stderr
    assert named in done.stderr


def test_validate_names_every_mistake_and_passes_the_rest(
    write: Callable[..., Path], command: Command
) -> None:
    write(GOOD, "good.toml")
    write(GOOD.replace("load = 0.4", "load = 0").replace('"100us"', '"0us"'), "bad.toml")
    done = command("validate", "good.toml", "bad.toml")
    assert done.returncode == 2
    assert done.stdout == "good.toml: ok\n"
    assert [line.split(": ")[0] for line in done.stderr.splitlines()] == ["bad.toml:2", "bad.toml:17"]


def test_a_threshold_below_the_delay_of_an_empty_network_is_warned_of(
    write: Callable[..., Path], command: Command
) -> None:
    write(GOOD)
    low = GOOD.replace('"12us"', '"2us"')
    write(low, "low.toml")
    # Two links of 1 us, and twice 1048 bytes at 100 Gb/s.
    warning = (
        "warning: low.toml:12: onramp.threshold: 2us is not above the longest one-way delay of the empty "
        'network, 2.17us: packets are held although nothing queues; write such as "13us", '
        "which leaves room for queues and clocks\n"
    )
    for args in (["validate"], ["run"], ["compare"], ["sweep", "--vary", "seed=1,2"]):
        name, *options = args
        # On a busy machine there is progress beside.
        said = [command(name, file, *options).stderr for file in ("low.toml", "scenario.toml")]
        assert [[line for line in text.splitlines(True) if line.startswith("warning")] for text in said] == [
            [warning],
            [],
        ], name
    # A comparison has On-Ramp on one side, whatever the file says.
    write(low.replace("[onramp]", "[onramp]\nenabled = false"), "off.toml")
    assert command("run", "off.toml").stderr == ""
    assert "off.toml:13: onramp.threshold" in command("compare", "off.toml").stderr
    assert "2us" in onramp.validate(write(low)).advice[0]


def test_python_raises_what_the_command_prints() -> None:
    broken: dict[str, Any] = {**SMALL, "duration": "5"}
    with pytest.raises(onramp.ScenarioError, match="duration"):
        onramp.run(broken)
    with pytest.raises(ValueError):
        onramp.validate(broken)


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("**/*.toml")), ids=lambda p: p.stem)
def test_every_scenario_of_the_project_is_valid(path: Path) -> None:
    scenario = onramp.validate(path)
    assert scenario.name == path.stem
    assert scenario.replace({}).text == scenario.text


def test_python_speaks_of_overrides_and_the_command_of_its_option(
    write: Callable[..., Path], command: Command
) -> None:
    path = write(SMALL)
    with pytest.raises(onramp.ScenarioError, match=r"^overrides: onramp.threshold: "):
        onramp.validate(path, {"onramp.threshold": 12})
    for what in ("validate", "run"):
        done = command(what, path, "--set", "onramp.threshold=12")
        assert done.stderr.startswith("--set: onramp.threshold: ")
