"""`onramp explain`: what it says before a run is what the run shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import onramp
from onramp.cli import commands
from onramp.engine import Watch

FAT_TREE = {
    "duration": "2ms",
    "network": {
        "kind": "fat-tree",
        "pods": 2,
        "tors_per_pod": 2,
        "aggs_per_pod": 2,
        "cores": 2,
        "hosts_per_tor": 4,
    },
    "transport": {"kind": "dcqcn"},
    "traffic": [{"kind": "background", "workload": "FB_Hadoop", "load": 0.3}],
}


def star(**more: Any) -> dict[str, Any]:
    """Eight hosts under a switch."""
    return {
        "duration": "2ms",
        "network": {"kind": "star", "hosts": 8},
        "transport": {"kind": "dcqcn"},
        "traffic": [{"kind": "background", "workload": "FB_Hadoop", "load": 0.3}],
        **more,
    }


def offered(facts: dict[str, Any], kind: str) -> list[float]:
    """Loads of the links of a kind."""
    return [link["load"] for link in facts["loads"] if link["kind"] == kind]


def test_a_trace_that_only_computes_has_a_cost(tmp_path: Path) -> None:
    (tmp_path / "compute.goal").write_text(
        "num_ranks 1\nrank 0 {\nl1: calc 1000\nl2: calc 5\nl2 requires l1\n}\n"
    )
    traffic = [{"kind": "program", "file": str(tmp_path / "compute.goal"), "repeat": 2}]
    cost = onramp.explain(star(traffic=traffic)).cost
    assert cost is not None and (cost.packet_hops, cost.progress) == (0, 1)


def test_a_trial_in_which_nothing_is_sent_tells_nothing() -> None:
    found = onramp.explain(star(), watch=Watch(stop=lambda: True))
    assert found.to_json()["cost"]["seconds"] is None
    assert "nothing was sent while it was tried" in repr(found)


def test_what_is_offered_is_what_a_run_sends(tmp_path: Path) -> None:
    scenario = star()
    found = onramp.explain(scenario, trial=60)
    flows = onramp.run(scenario, out=tmp_path / "run").flows
    (section,) = found.facts["sections"]
    assert (section["count"], section["bytes"]) == (len(flows), flows["bytes"].to_numpy().sum())
    assert sum(map(sum, found.facts["matrix"])) == section["bytes"]
    # Each link's payload, and a header of 48 B for each packet of 1000 B or less.
    first = flows.filter(flows["src"].to_numpy() == 0)["bytes"].to_numpy().astype(int)
    wire = int((first + 48 * -(-first // 1000)).sum())
    (link,) = [link for link in found.facts["loads"] if link["link"] == "h0->s0"]
    assert link["bytes"] == pytest.approx(wire, rel=0.02)
    assert link["load"] == pytest.approx(8 * wire / (100e9 * 2e-3), rel=0.02)
    # The trial was the whole run: data packets cross two links, and so do their acknowledgements.
    assert found.cost is not None and found.cost.progress == 1
    assert found.cost.packet_hops == pytest.approx(2 * found.facts["packet_hops"], rel=0.02)


def test_flows_are_spread_over_equally_short_paths() -> None:
    facts = onramp.explain(FAT_TREE, trial=0).facts
    assert facts["hops"] == [2, 6]
    by_kind = {kind: offered(facts, kind) for kind in {link["kind"] for link in facts["loads"]}}
    sent = {kind: sum(link["bytes"] for link in facts["loads"] if link["kind"] == kind) for kind in by_kind}
    # What leaves hosts arrives at hosts, and what goes up comes down.
    for up, down in (("h->tor", "tor->h"), ("tor->agg", "agg->tor"), ("agg->core", "core->agg")):
        assert sent[up] == pytest.approx(sent[down])
    assert sent["agg->core"] < sent["tor->agg"] < sent["h->tor"]


def test_a_collective_takes_no_less_than_it_says(tmp_path: Path) -> None:
    scenario = star(traffic=[{"kind": "collective", "operation": "all-reduce", "size": "8MB"}])
    found = onramp.explain(scenario, trial=0)
    result = onramp.run(scenario, out=tmp_path / "run")
    took = result.collectives["duration_ps"].to_numpy()[0]
    assert 0.9 * took < found.facts["span_ps"] <= took
    assert max(offered(found.facts, "h->s")) <= 1
    assert found.facts["sections"][0]["bytes"] == 2 * 7 * 8_000_000


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, "off"),
        (
            {"onramp": {"threshold": "auto"}, "clock": {"sync": "huygens"}},
            "T follows each path's least delay",
        ),
        (
            {"onramp": {"threshold": "12us"}},
            "T = 12us leaves the longest path 9.83 µs of queueing, 123 kB at a host link",
        ),
        (
            {"onramp": {"threshold": "1us"}},
            "T = 1us is below the longest path's delay: it holds without a queue",
        ),
    ],
)
def test_t_is_set_against_the_least_delay(more: dict[str, Any], line: str) -> None:
    found = onramp.explain(star(**more), trial=0)
    assert dict(found.lines)["On-Ramp"] == line


def test_the_command_tells_and_draws(tmp_path: Path) -> None:
    file = tmp_path / "incast.toml"
    file.write_text(
        'duration = "1ms"\nnetwork = { kind = "star", hosts = 9 }\ntransport = { kind = "cubic" }\n'
        '[[traffic]]\nkind = "incast"\nfan_out = 8\nsize = "20KB"\nload = 0.2\n'
        '[[traffic]]\nkind = "long"\nsrc = ["h1"]\ndst = "h2"\nstop = "1ms"\n'
    )
    picture = tmp_path / "offered.svg"
    run = CliRunner().invoke(commands, ["explain", str(file), "--plot", str(picture)])
    assert run.exit_code == 0, run.output
    for expected in (
        "9 hosts; switches: 1 s; 9 links of 100 Gb/s",
        "a packet of 1514 B takes",
        "1000 packets for each switch port",
        "long: 1 flow that sends as fast as it may",
    ):
        assert expected in run.output
    assert picture.read_text().startswith("<?xml")
    facts = json.loads(CliRunner().invoke(commands, ["explain", str(file), "--trial", "0", "--json"]).output)
    assert facts["cost"] is None and facts["sections"][1]["endless"] == 1

    wrong = CliRunner().invoke(commands, ["explain", str(file), "--plot", str(tmp_path / "offered.gif")])
    assert wrong.exit_code == 2 and "ends in .png or .svg" in wrong.output
