"""A run in the browser while it goes, and the page that stays."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onramp
from browser import Browser, needs_chromium
from conftest import ENDLESS, SMALL, Command
from onramp.pages import page

#: As much as the page of any run may have.
MOST_BYTES = 3_000_000


def data_of(html: str) -> Any:
    """Data within a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])


def is_self_contained(html: str) -> bool:
    """True if a page refers to nothing elsewhere."""
    return not re.search(r"""(src|href)=(?!"data:,")|https?://|@import|url\(""", html)


def ask(port: int, path: str = "/data.json", host: str | None = None, method: str = "GET") -> tuple[int, str]:
    """Status and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@contextmanager
def watched(scenario: Path, folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`onramp watch` under way with its results in `folder`, and the port of its page."""
    command = [sys.executable, "-m", "onramp", "watch", str(scenario), "--out", str(folder), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        address = process.stderr.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", address)
        assert found, address
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


def picture_of(port: int) -> Any:
    """State of a run that has a picture."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        status, text = ask(port)
        assert status == 200
        state = json.loads(text)
        if state["picture"] and len(state["picture"]["end_us"]) > 5:
            return state
        time.sleep(0.2)
    raise AssertionError("there is no picture after a minute")


def interrupt(process: subprocess.Popen[str]) -> str:
    """Ctrl-C: the end of standard output."""
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    return out


def test_the_page_is_served_while_the_run_goes_and_stays(write: Callable[..., Path], tmp_path: Path) -> None:
    with watched(write(ENDLESS), tmp_path / "out") as (process, port):
        first = picture_of(port)
        assert first["state"] == "running" and 0 <= first["share"] < 1 and first["onramp"]
        assert ask(port, "/")[0] == 200 and data_of(ask(port, "/")[1]) is None
        time.sleep(1.5)
        later = picture_of(port)
        assert later["simulated_us"] > first["simulated_us"]
        assert later["picture"]["end_us"][-1] > first["picture"]["end_us"][-1]
        # Two long flows to one host: its link is used, and something waits before it.
        busy = [row["name"] for row in later["picture"]["rows"]].index("s0->h0")
        assert np.mean(later["picture"]["mean_percent"][busy][5:]) > 80
        assert max(later["picture"]["queue_ns"][busy]) > 0
        assert interrupt(process).rstrip().endswith("out/watch.html")
    kept = data_of((tmp_path / "out" / "watch.html").read_text())
    assert kept["state"] == "interrupted" and kept["share"] < 1
    assert kept["picture"]["end_us"][-1] >= later["picture"]["end_us"][-1]
    assert not onramp.Result(tmp_path / "out").summary["complete"]


def test_only_this_machine_may_ask_and_only_read(write: Callable[..., Path], tmp_path: Path) -> None:
    with watched(write(ENDLESS), tmp_path / "out") as (process, port):
        for host in ("localhost", "LOCALHOST:80", f"127.0.0.1:{port}"):
            assert ask(port, host=host)[0] == 200
        for host in ("example.org", f"example.org:{port}", "127.0.0.1.example.org", "localhost:80:80", "::1"):
            for path in ("/", "/data.json"):
                status, text = ask(port, path, host)
                assert status == 403 and "endless" not in text
        assert ask(port, "/summary.json")[0] == 404 and ask(port, "/../etc/passwd")[0] == 404
        assert ask(port, method="HEAD") == (200, "")
        assert ask(port, method="POST")[0] == 501 and ask(port, method="DELETE")[0] == 501
        with socket.socket() as other:
            other.bind(("127.0.0.2", 0))
            assert other.connect_ex(("127.0.0.2", port)), "only one address listens"
        interrupt(process)


@pytest.mark.parametrize("transport", ["dcqcn", "cubic"])
def test_a_watched_run_has_the_same_bytes(
    write: Callable[..., Path], command: Command, tmp_path: Path, transport: str
) -> None:
    network = {"kind": "leaf-spine", "leaves": 3, "hosts_per_leaf": 3, "spines": 2}
    measure = {"queues": ["leaf0->h0"], "links": ["leaf0->h0"]}
    changed = {"network": network, "transport": {"kind": transport}, "measure": measure, "warmup": "50us"}
    path = write({**SMALL, **changed})
    assert command("run", path, "--threads", 2, "--out", "plain").returncode == 0
    assert command("watch", path, "--threads", 2, "--out", "watched").returncode == 0
    plain, other = (onramp.Result(tmp_path / name) for name in ("plain", "watched"))
    assert plain.summary["sha256"] == other.summary["sha256"]
    for one in (plain, other):
        for of_wall in ("wall_s", "packet_hops_per_s", "peak_rss_mb"):
            del one.summary["engine"][of_wall]
    assert plain.summary == other.summary


def test_the_page_has_the_numbers_of_the_run_and_is_small(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    done = command("watch", write({**SMALL, "warmup": "100us"}), "--out", "out", "--json")
    assert done.returncode == 0
    summary = json.loads(done.stdout)
    html = (tmp_path / "out" / "watch.html").read_text()
    assert len(html) < MOST_BYTES
    assert is_self_contained(html)
    state = data_of(html)
    picture = state["picture"]
    assert state["state"] == "done" and state["share"] == 1 and len(picture["end_us"]) < 1000
    result = onramp.Result(tmp_path / "out")
    groups = picture["completions"]
    sizes = np.asarray(result.flows["bytes"])
    assert groups["small"]["count"] == np.sum(sizes <= 10e3) and groups["requests"]["count"] == len(
        result.requests
    )
    assert picture["done"][-1] == len(result.flows) and picture["open"][-1] == 0
    for name, group in groups.items():
        assert sum(group["counts"]) == group["count"], name
    rct = summary["incast"]["rct_us"]
    assert groups["requests"]["mean_us"] == pytest.approx(rct["mean"], rel=2e-3)
    exact = np.percentile(np.asarray(result.requests["rct_ps"]) / 1e6, 99, method="inverted_cdf")
    assert groups["requests"]["p99_us"] == pytest.approx(exact, rel=1e-2)
    assert picture["begin_us"] == -100 and 0 in picture["end_us"]
    # Utilisation from time 0 on, weighted by time, is the summary's.
    ends = np.array([picture["begin_us"], *picture["end_us"]])
    widths = np.diff(ends) * (ends[1:] > 0)
    row = [row["name"] for row in picture["rows"]].index("s0->h0")
    mean = np.average(picture["mean_percent"][row], weights=widths)
    assert mean / 100 == pytest.approx(summary["network"]["utilization"]["s0->h0"], abs=0.01)
    held = np.sum(np.array(picture["held_mean"]) * widths)
    assert held == pytest.approx(summary["onramp_stats"]["paused_us"], rel=0.01)


def test_a_page_without_on_ramp_says_so(write: Callable[..., Path], command: Command, tmp_path: Path) -> None:
    assert command("watch", write(SMALL), "--set", "onramp.enabled=false", "--out", "out").returncode == 0
    state = data_of((tmp_path / "out" / "watch.html").read_text())
    assert not state["onramp"] and not any(state["picture"]["paths_held"]) and not state["picture"]["paths"]


def test_names_are_no_markup() -> None:
    html = page("watch", json.dumps({"scenario": "</script><script>alert(1)</script><!--"}))
    assert "alert(1)</script><!--" not in html and data_of(html)["scenario"].startswith("</script>")


def test_a_mistake_is_one_line(write: Callable[..., Path], command: Command, tmp_path: Path) -> None:
    path = write(SMALL)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cases = {
            (path, "--port", port): f"--port {port}: Address already in use; leave it out for a free one",
            (path, "--port", 70000): "70000 is not in the range",
            (path, "--port", "http"): "'http' is not a valid integer",
            ("nothing.toml",): "nothing.toml: No such file or directory",
            (path, "--on", "linux"): "No such option",
            (path, "--set", "duration=1"): "duration",
        }
        for arguments, said in cases.items():
            done = command("watch", *arguments)
            assert done.returncode == 2 and said in done.stderr, done
            assert done.stderr.count("\n") == 1 and not done.stdout
    assert not (tmp_path / "results").exists()


def test_without_a_window_no_browser_is_opened(
    write: Callable[..., Path], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    done = command("watch", write(SMALL), "--open", "--out", "out")
    assert done.returncode == 0 and "there is no browser with a window here" in done.stderr


def test_a_browser_is_opened_at_the_page(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, opened = tmp_path / "browser.sh", tmp_path / "opened"
    script.write_text(
        f'#!/bin/sh\necho "$1" >{tmp_path}/opened.part\nmv {tmp_path}/opened.part {tmp_path}/opened\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{script} %s")
    with watched(write(ENDLESS), tmp_path / "out", "--open") as (process, port):
        end = time.monotonic() + 60
        while not opened.exists():
            assert time.monotonic() < end, "nothing was opened"
            time.sleep(0.1)
        assert opened.read_text().strip() == f"http://127.0.0.1:{port}/"
        interrupt(process)


@needs_chromium
def test_a_browser_shows_the_run_and_its_end(write: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Browser(tmp_path) as browser:
        with watched(write(ENDLESS), out) as (process, port):
            browser.open(f"http://127.0.0.1:{port}/")
            browser.until("document.getElementById('deepest').innerText.includes('Longest so far')")
            assert browser.text("name") == "endless" and "% · " in browser.text("run")
            assert "paths with flows held" in browser.text("holding")
            browser.point("#heat", 0.8, 0.3)
            browser.until(
                "/under way.*deepest queue.*paths held/.test(document.getElementById('moment').innerText)"
            )
            assert re.match(r"[hs]0?.*->.* · .* used", browser.text("cell"))
            process.send_signal(signal.SIGINT)
            browser.until("document.getElementById('run').innerText.startsWith('interrupted at')")
            process.communicate(timeout=60)
        assert {url.rsplit("/", 1)[0] for url in browser.loaded} <= {f"http://127.0.0.1:{port}", "data:,"}
        assert not browser.complaints
    with Browser(tmp_path / "again") as browser:
        browser.open((out / "watch.html").as_uri())
        assert browser.text("run").startswith("interrupted at")
        assert browser.value("document.querySelectorAll('#ports tbody tr').length") > 0
        for shown in ("queue", "mean"):
            browser.point(f"input[value={shown}]", 0.5, click=True)
        # Something is drawn: not all of the map has one colour.
        drawn = "new Set(new Uint32Array(document.getElementById('heat').getContext('2d')"
        drawn += ".getImageData(300, 0, 900, 250).data.buffer)).size"
        assert browser.value(drawn) > 4
        assert {url.split(":")[0] for url in browser.loaded} <= {"file", "data"} and not browser.complaints
