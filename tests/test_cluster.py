"""On-Ramp when things go wrong, on the Linux cluster; skipped where its kernel was not built."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cluster
from cluster import PYTHON, ROOT, Played, agent, finished, needs_cluster, seen
from onramp.scenario import to_toml

FORGE = f"{PYTHON} {seen(ROOT / 'tests/guest/forge.py')}"
PACED = f"{PYTHON} {seen(ROOT / 'tests/guest/paced.py')}"

pytestmark = needs_cluster

#: Requests go out from here on, one a millisecond: the queue has built up.
FIRST_MS, LAST_MS = 10, 35
ANSWERS = 20

#: Hosts that fill h0's port.
LONG = 8

#: h1 to h8 fill h0's port, h3 to h22 answer its requests. h23 does nothing.
INCAST: dict[str, Any] = {
    "name": "incast",
    "duration": f"{LAST_MS}ms",
    "network": {"kind": "star", "hosts": 24, "host_rate": "10Gbps"},
    "transport": {"kind": "cubic"},
    "linux": {"buffer_packets": 1000},
    "traffic": [
        {"kind": "long", "src": [f"h{n + 1}" for n in range(LONG)], "dst": "h0"},
        {"kind": "trace", "file": "requests.csv"},
    ],
}
ONRAMP: dict[str, Any] = {"threshold": "50us", "max_pause": "2ms"}
WITH: dict[str, Any] = {**INCAST, "onramp": ONRAMP}


Play = Callable[..., Played]


def answers(last_ms: int = LAST_MS) -> list[str]:
    """Lines of a trace."""
    return [
        f"{src},0,2000,{ms}000000,{ms}" for ms in range(FIRST_MS, last_ms) for src in range(3, 3 + ANSWERS)
    ]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Play a scenario and its trace on the cluster, with commands beside it."""

    def play(scenario: dict[str, Any], trace: list[str], *jobs: str) -> Played:
        folder = tmp_path_factory.mktemp("cluster")
        (folder / "requests.csv").write_text("\n".join(["src,dst,bytes,start_ns,request", *trace]) + "\n")
        return cluster.play(folder, scenario, *jobs)

    return play


def own_agents(hosts: int, **settings: str | int) -> list[str]:
    """Commands that start agents which the cluster knows nothing of."""
    jobs = []
    for n in range(hosts):
        peers = [f"10.0.0.{peer + 1}" for peer in range(hosts) if peer != n]
        config: dict[str, Any] = {
            "mode": "enforce",
            "interface": "eth0",
            "parent": "1:1",
            **ONRAMP,
            "line_rate": "10Gbps",
            "clock": "shared",
            "key": "00" * 16,
            "socket": f"/run/{n}.sock",
            "state_dir": f"/run/{n}.state",
            "max_flows": 4096,
            "max_stamps": 4096,
            "peers": peers,
            **settings,
        }
        text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in config.items())
        start = f"exec {agent()} run --config /run/{n}.toml"
        jobs.append(
            f"h{n}: echo $$ >/run/{n}.pid; echo '{text}' >/run/{n}.toml; chmod 600 /run/{n}.toml; {start}"
        )
    return jobs


def status(socket: str) -> str:
    """A command that says an agent's status."""
    return f"{agent()} status --json --socket {socket}"


@pytest.fixture(scope="module")
def without(play: Play) -> Played:
    """INCAST without On-Ramp."""
    return play(INCAST, answers())


@pytest.fixture(scope="module")
def with_(play: Play) -> Played:
    """INCAST with On-Ramp on every host."""
    return play(WITH, answers())


def test_an_incast_drops_nothing_and_takes_half_the_time(without: Played, with_: Played) -> None:
    for played in (without, with_):
        finished(played)
    fields = ["id", "src", "dst", "start_ps"]
    arrived, again = (np.sort(p.flows[fields], order="id") for p in (without, with_))
    assert np.array_equal(arrived, again), "arrivals are identical"
    assert len(with_.requests) == LAST_MS - FIRST_MS
    assert with_.counters["network"]["drops"] == 0 < without.counters["network"]["drops"]
    assert with_.quartile_us < without.quartile_us / 2, (with_.quartile_us, without.quartile_us)
    stats = with_.counters["onramp_stats"]
    assert stats["pauses"] > 0 and stats["or_acks"] > 100
    for refused in ("malformed", "unknown_peer", "bad_tag", "no_stamp"):
        assert stats[f"or_acks_{refused}"] == 0, stats


def test_killed_agents_leave_traffic_as_it_was_without_them(play: Play, without: Played) -> None:
    last = 160
    scenario = {**INCAST, "duration": f"{last}ms"}
    # What tc needs to tell of the gate.
    plugin = ROOT / "datapath" / "tc"
    subprocess.run(["make", "-s", "-C", plugin], check=True)
    gates = f"TC_LIB_DIR={seen(plugin)} tc -s qdisc show dev eth0"
    # Arrivals begin 60 to 125 ms after the last command was started.
    end = f"sleep 0.15; kill -9 $(cat /run/*.pid); sleep 0.005; {gates}; echo LATER; sleep 0.05; {gates}"
    jobs = [*own_agents(3 + ANSWERS), f"h1: {end}"]
    played = play(scenario, answers(last), *jobs)
    finished(played)
    first, later = played.said[-1].split("LATER")
    assert "qdisc onramp" in first, "the kernel keeps the gate"
    held = [text.split("held ")[1].split(" ")[0] for text in (first, later)]
    assert held[0] == held[1] != "0", "held nothing more"
    rct = played.rct_us
    assert cluster.quartile(rct[:8]) < without.quartile_us / 2, "it had an effect"
    ratio = cluster.quartile(rct[-20:]) / without.quartile_us
    assert 0.6 < ratio < 1.5, ratio


#: TC's "as if I were not here".
NEXT = 2**32 - 1


def test_a_tenth_of_the_or_acks_may_get_lost(play: Play, without: Played) -> None:
    # UDP to port 9471, and a random number below a tenth: dropped; else on to the next filter.
    program = [
        (40, 0, 0, 12), (21, 0, 8, 0x0800), (48, 0, 0, 23), (21, 0, 6, 17), (40, 0, 0, 36), (21, 0, 4, 9471),
        (32, 0, 0, 2**32 - 4096 + 56), (37, 2, 0, 2**32 // 10), (6, 0, 0, 2), (6, 0, 0, 0), (6, 0, 0, NEXT),
    ]  # fmt: skip
    code = f"{len(program)}," + ",".join(" ".join(map(str, line)) for line in program)
    lose = f"tc qdisc add dev h$n clsact; tc filter add dev h$n egress bpf da bytecode '{code}'"
    played = play(WITH, answers(), f"s0: set -e; for n in $(seq 22); do {lose}; done; echo set up")
    assert played.said == ["set up\n"]
    finished(played)
    stats = played.counters["onramp_stats"]
    lost = 1 - stats["or_acks"] / stats["or_acks_sent"]
    assert 0.05 < lost < 0.15, stats
    assert played.quartile_us < without.quartile_us / 2
    assert played.counters["network"]["timeouts"] == 0
    assert played.rct_us.max() < 10_000, "nothing stalls"


def test_forged_or_acks_change_nothing(play: Play, with_: Played) -> None:
    hosts = [f"h{n}" for n in range(23)]
    scenario = {**INCAST, "onramp": {**ONRAMP, "hosts": hosts}}
    played = play(
        scenario,
        answers(),
        f"s0: {FORGE} replay 10.0.0.1 10.0.0.2 10.0.0.3",
        # From before time 0, whenever that is, to after the last request.
        f"h23: sleep 0.05; {FORGE} blind 10.0.0.24 10.0.0.1 10.0.0.2 120; echo done",
    )
    assert played.said == ["", "done\n"]
    finished(played)
    stats = played.counters["onramp_stats"]
    for refused in ("malformed", "unknown_peer", "bad_tag", "no_stamp"):
        assert stats[f"or_acks_{refused}"] >= 200, stats
    assert played.counters["network"]["drops"] == 0
    assert 0.67 < played.quartile_us / with_.quartile_us < 1.5, (played.quartile_us, with_.quartile_us)
    sent = [np.sort(p.flows, order="id")["bytes"][:LONG].sum() for p in (played, with_)]
    assert 0.95 < sent[0] / sent[1] < 1.05, "the long flows got as much through"


def test_hosts_without_onramp_are_left_alone(play: Play, without: Played) -> None:
    # Requester h0 has none, so that no pair of hosts of this traffic has it on both sides.
    hosts = [f"h{n}" for n in range(1, 24, 2)]
    scenario = {**INCAST, "onramp": {**ONRAMP, "hosts": hosts}}
    played = play(scenario, answers(), "h0: sleep 0.2; cat /proc/net/snmp")
    finished(played)
    names, values = (line.split()[1:] for line in played.said[0].splitlines() if line.startswith("Udp:"))
    udp = dict(zip(names, values, strict=True))
    assert udp["InDatagrams"] == udp["NoPorts"] == "0", "no OR-ACK came"
    stats = played.counters["onramp_stats"]
    assert stats["pauses"] == stats["or_acks_sent"] == stats["stamped"] == 0, stats
    assert 0.67 < played.quartile_us / without.quartile_us < 1.5, (played.quartile_us, without.quartile_us)


def test_many_flows_pass_through_a_small_table(play: Play) -> None:
    hosts, flows, room = 8, 10_000, 256
    lines = []
    for n in range(flows):
        src = n % hosts
        lines.append(f"{src},{(src + 1 + n // hosts % (hosts - 1)) % hosts},3000,{60_000_000 + 100 * n},")
    scenario = {
        **INCAST,
        "duration": "62ms",
        "network": {**INCAST["network"], "hosts": hosts},
        "traffic": INCAST["traffic"][1:],
    }
    last = f"h0: sleep 0.3; {status('/run/0.sock')}"
    played = play(scenario, lines, *own_agents(hosts, max_flows=room, max_stamps=room), last)
    finished(played)
    assert len(played.flows) == flows
    assert played.counters["engine"]["connections_opened_before"] > flows / 2
    told = json.loads(played.said[-1])
    assert 0 < told["flows"]["count"] <= room == told["flows"]["capacity"]
    assert told["counters"]["sent"] >= flows / hosts and told["counters"]["or_acks_received"] > 0


def _exec(folder: Path, scenario: dict[str, Any], *jobs: str) -> str:
    (folder / "scenario.toml").write_text(to_toml(scenario))
    done = cluster.run("exec", "--scenario", folder / "scenario.toml", *jobs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


#: Two hosts for commands; the traffic is not played.
PAIR: dict[str, Any] = {
    **INCAST,
    "network": {"kind": "star", "hosts": 2, "host_rate": "10Gbps"},
    "traffic": [{"kind": "long", "src": ["h1"], "dst": "h0"}],
}


def test_iperf3_runs_unmodified(tmp_path: Path) -> None:
    client = f"iperf3 -c 10.0.0.2 -n 10M -J; {status('/run/onramp/0.sock')}"
    said = _exec(tmp_path, {**PAIR, "onramp": ONRAMP}, "h1: iperf3 -s -1", f"h0: {client}")
    found, at = json.JSONDecoder().raw_decode(said)
    told = json.loads(said[at:])
    assert found["end"]["sum_received"]["bits_per_second"] > 8.5e9
    assert found["end"]["sum_sent"]["retransmits"] == 0
    # 8 ms, and one in 100 µs at most.
    assert 50 < told["counters"]["or_acks_received"] <= 90
    assert told["paths"][0]["owd"]["min_ns"] > 1000


def test_enforcing_survives_crash_reload_and_end(tmp_path: Path) -> None:
    show = "tc qdisc show dev eth0 | sed -n 's/ refcnt.*//;p'"
    starts = own_agents(2)
    server = f"{starts[1].partition(': ')[2].replace('exec ', '', 1)} & {PACED} sink"
    start = (
        starts[0].partition(": ")[2].partition("; ")[2].replace("exec ", "", 1)
        + " 2>/run/0.log & pid=$!; sleep 0.3"
    )
    change = (
        'sed -i \'s/threshold = .*/threshold = "{}"/; s/mode = .*/mode = "{}"/\' /run/0.toml; kill -HUP $pid'
    )
    told = status("/run/0.sock")
    steps = [
        # An operator's own, below the link.
        "tc qdisc replace dev eth0 parent 1:1 handle 7: pfifo limit 777",
        show,
        # A crash, and a new start.
        start,
        show,
        "kill -9 $pid; sleep 0.01",
        show,
        f"ip -o link | grep -c onramp0; {start}",
        f"{told}",
        # Changes while traffic runs, of which little waits: a qdisc that is replaced drops that.
        f"{PACED} send 10.0.0.2 >/run/sent & sender=$!; sleep 0.05",
        f"{change.format('70us', 'observe')}; sleep 0.05; {told}",
        show,
        f"{change.format('90us', 'enforce')}; sleep 0.05; {told}",
        show,
        "wait $sender; cat /run/sent",
        # The end.
        "kill $pid; wait $pid; echo $?",
        f"{show}; ip -o link | grep -c onramp0; ls /run/0.sock /run/0.state 2>&1 | grep -c cannot",
    ]
    said = _exec(tmp_path, PAIR, f"h1: {server}", "h0: " + "; echo; echo NEXT; ".join(steps))
    parts = [part.strip() for part in said.split("NEXT")]
    (
        _,
        before,
        _,
        gate,
        _,
        after_crash,
        left,
        again,
        _,
        observing,
        restored,
        enforcing,
        gate_again,
        sent,
        code,
        end,
    ) = parts
    assert "pfifo 7: parent 1:1 limit 777p" in before
    assert "qdisc onramp" in gate and "qdisc onramp" in after_crash and "pfifo 7:" not in gate
    assert left.startswith("1"), "the crash left the device"
    assert json.loads(again.splitlines()[-1])["problems"] == []
    first, second = json.loads(observing), json.loads(enforcing)
    assert (first["mode"], first["parameters"]["threshold_ns"]) == ("observe", 70_000)
    assert restored == before and first["interfaces"][0]["gates"] == []
    assert (second["mode"], second["parameters"]["threshold_ns"]) == ("enforce", 90_000)
    assert second["counters"]["sent"] > first["counters"]["sent"] > 0
    assert "qdisc onramp" in gate_again
    rate, retransmitted = map(float, sent.split())
    assert rate > 0.9e8 and retransmitted == 0
    assert code == "0" and end.splitlines()[: len(before.splitlines())] == before.splitlines()
    assert end.splitlines()[len(before.splitlines()) :] == ["0", "2"], "nothing is left"
