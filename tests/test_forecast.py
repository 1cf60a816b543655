"""Recordings, and what is forecast from them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cluster
import forecasts
from onramp import forecast, recording
from onramp.engine import Stop, Watch
from onramp.errors import OnRampError

NETWORK = """
duration = "1ms"
[network]
kind = "star"
hosts = 4
host_rate = "10Gbps"
[transport]
kind = "cubic"
[onramp]
threshold = "30us"
[[traffic]]
kind = "background"
workload = "WebSearch"
load = 0.1
"""
END = "# end = it was stopped, after {} ns\n# lost = 0\n# udp_packets = 7\n# udp_bytes = 7000\n"
END += "# unparsed_packets = 0\n# clock_unknown_s = 0\n"


def text(host: str, *rows: str, end: str = END.format(10_000_000), time: str = "fleet, from 1000") -> str:
    """A recording."""
    head = f"{recording.FIRST}\n# host = {host}\n# time = {time}\n{','.join(recording.COLUMNS)}\n"
    return head + "".join(row + "\n" for row in rows) + end


def sent(source: int, destination: int, began: int, size: int, port: int = 5000) -> tuple[str, str]:
    """A flow at its sender, and at its receiver 20 µs later."""
    ends = f"10.0.0.{source},10.0.0.{destination},{port},80"
    there = f"{ends},{began},{began + 30_000},{size},0,2,{began + size},acked"
    return there, f"{ends},{began + 20_000},{began + 20_000},0,0,0,{began + size},came"


def written(folder: Path, *flows: tuple[int, int, int, int]) -> list[Path]:
    """Recordings of four hosts that sent these flows: source, destination, beginning and bytes."""
    rows: dict[int, list[str]] = {host: [] for host in (1, 2, 3, 4)}
    for port, (source, destination, began, size) in enumerate(flows, 5000):
        there, here = sent(source, destination, began, size, port)
        rows[source].append(there)
        if destination in rows:
            rows[destination].append(here)
    files = []
    for host, lines in rows.items():
        file = folder / f"{host}.csv"
        file.write_text(text(f"10.0.0.{host} fe80::{host}", *lines))
        files.append(file)
    return files


def asked(*times: int) -> list[tuple[int, int, int, int]]:
    """Requests of host 1 to the three others at these times, a microsecond between the answers."""
    return [(source, 1, began + 1_000 * source, 20_000) for began in times for source in (2, 3, 4)]


@pytest.fixture
def recorded(tmp_path: Path) -> list[Path]:
    """Four hosts: two requests of three answers, a flow beside them, and one that goes elsewhere."""
    # Beside the first answers, but far larger.
    larger = (3, 1, 2_001_000, 900_000)
    return written(tmp_path, *asked(2_000_000, 5_000_000), larger, (2, 9, 3_000_000, 5_000))


def combined(files: list[Path]) -> recording.Flows:
    """By default settings, on four hosts."""
    return recording.combine([recording.read(f) for f in files], ["h0", "h1", "h2", "h3"], {}, 20_000)


def test_flows_requests_and_what_is_missing(recorded: list[Path]) -> None:
    flows = combined(recorded)
    assert (len(flows), flows.requests) == (7, 2)
    assert flows.start_ns[0] == 0 and set(flows.fct_ns) == {20_000}
    alone = [i for i in range(len(flows)) if flows.request[i] == recording.NONE]
    assert [(flows.source[i], flows.destination[i], flows.bytes[i]) for i in alone] == [("h2", "h0", 900_000)]
    assert any("1 flows (5 KB) were to or from hosts outside" in line for line in flows.missing)
    assert any("28 packets" in line for line in flows.missing)


def test_an_answer_that_leaves_late_belongs_to_its_request(tmp_path: Path) -> None:
    *whole, last = asked(1_000_000, 2_000_000, 3_000_000)
    late = (4, 1, last[2] + 1_500_000, 20_000)
    # Of a host that has answered, to another host, of another size, and too late.
    others = [(3, 1, 3_800_000, 20_000), (4, 2, 3_900_000, 20_000), (4, 1, 4_000_000, 900_000)]
    flows = combined(written(tmp_path, *whole, *others, late, (4, 1, 6_000_000, 20_000)))
    alone = flows.request == recording.NONE
    assert (flows.requests, sum(~alone), sum(alone)) == (3, 9, 4)
    assert list(flows.start_ns[flows.request == 2]) == [2_000_000, 2_001_000, 2_001_000]
    assert max(flows.fct_ns[flows.request == 2]) == 1_521_000
    assert any("1 answers left after the others" in line for line in flows.missing)


def test_a_recording_that_was_cut_off_is_read_as_far_as_it_goes(recorded: list[Path]) -> None:
    whole = recorded[1].read_text()
    recorded[1].write_text(whole[: whole.rindex("10.0.0.2,10.0.0.1") + 40])
    found = recording.read(recorded[1])
    assert found.totals == {} and found.flows.num_rows == 1
    assert any("Cut off" in line for line in combined(recorded).missing)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("nothing", "is no recording"),
        (text("10.0.0.1", "10.0.0.1,10.0.0.2,1,2,3"), "a line is no flow"),
        (text("10.0.0.1", "10.0.0.1,10.0.0.2,1,2,x,4,5,6,7,8,acked"), "a line is no flow"),
        (text("10.0.0.1", time="fleet"), "is incomplete"),
        (text("10.0.0.1", time="system, from 1000"), "by different clocks (fleet, system)"),
        (text("10.0.0.1", time="fleet, from 900000000"), "record at the same time"),
    ],
)
def test_mistakes_are_one_line(recorded: list[Path], file: str, said: str) -> None:
    recorded[0].write_text(file)
    with pytest.raises(OnRampError) as e:
        combined(recorded)
    assert said in str(e.value) and "\n" not in str(e.value)


def test_flows_to_hosts_that_were_not_recorded(tmp_path: Path) -> None:
    files = written(tmp_path, (1, 9, 3_000_000, 5_000), (2, 9, 3_000_000, 5_000), (1, 8, 3_000_000, 5_000))
    with pytest.raises(OnRampError) as e:
        combined(files)
    assert str(e.value) == "all flows go to 10.0.0.8, 10.0.0.9, which were not recorded: record there, too"
    with pytest.raises(OnRampError, match=r"4.csv: 10.0.0.4 is in two recordings, .*4.csv too"):
        combined([*files, files[-1]])


def test_a_mistake_leaves_no_folder_of_results(recorded: list[Path], tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(NETWORK)
    command = [sys.executable, "-m", "onramp", "forecast", str(recorded[1]), "--network", "network.toml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "all flows go to 10.0.0.1, 10.0.0.9" in done.stderr, done.stderr
    assert not (tmp_path / "results").exists()


def test_more_hosts_than_the_network_has(recorded: list[Path]) -> None:
    with pytest.raises(OnRampError, match="4 hosts were recorded, and the network has 2"):
        recording.combine([recording.read(f) for f in recorded], ["h0", "h1"], {}, 20_000)


def test_a_forecast_compares_thresholds_and_says_what_it_rests_on(
    recorded: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "network.toml").write_text(NETWORK)
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"10.0.0.{n},h{4 - n}\n" for n in (1, 2, 3, 4)))
    command = [sys.executable, "-m", "onramp", "forecast", *map(str, recorded), "--network"]
    command += [str(tmp_path / "network.toml"), "--threshold", "20us,30us", "--hosts", str(hosts)]
    command += ["--out", str(tmp_path / "out"), "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (found["flows"], found["requests"], found["thresholds"]) == (7, 2, ["20us", "30us"])
    rct = next(row for row in found["rows"] if (row["sample"], row["statistic"]) == ("incast", "mean"))
    # Answers began within 2 µs and took 20; three of 20 KB are not read faster than by 10 Gb/s.
    assert rct["recorded"] == pytest.approx(22) and rct["without"] > 48
    assert set(rct["with"]) == {"20us", "30us"} and "incast" in found["replay_over_recording"]
    assert (tmp_path / "out" / "flows.csv").read_text().splitlines()[1].startswith("h1,h3,900000,0,")
    assert (tmp_path / "out" / "index.html").exists()
    for wrong, said in (
        (["--gap", "20"], "--gap 20: is no time"),
        (["--threshold", "20"], "--threshold: "),
        ([str(recorded[0])], "10.0.0.1 is in two recordings"),
        (["--hosts", str(tmp_path / "network.toml")], "write address,host"),
    ):
        failed = subprocess.run(
            [*command[:-2], str(tmp_path / "x"), *wrong], capture_output=True, text=True, check=False
        )
        assert failed.returncode == 2 and said in failed.stderr and failed.stderr.count("\n") == 1, (
            failed.stderr
        )


@cluster.needs_cluster
def test_a_forecast_comes_true_on_linux(tmp_path: Path) -> None:
    held = forecasts.hold(tmp_path, forecasts.scenario("star", 0.4, "40ms"))
    assert held.found.flows.requests > 400
    for sample in ("incast", "medium", "all"):
        assert held.forecast[sample] == pytest.approx(held.enforced[sample], rel=0.25), sample
    shutil.rmtree(tmp_path / "observed")


def test_an_interrupted_forecast_has_what_was_done(recorded: list[Path], tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(NETWORK)
    made = forecast.plan(recorded, tmp_path / "network.toml", tmp_path, ["20us", "30us"])
    with Stop() as stop, pytest.raises(KeyboardInterrupt):
        stop.asked = True
        forecast.execute(made, tmp_path / "out", workers=1, watch=Watch(stop))
