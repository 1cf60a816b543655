"""Packets of single flows: read with a reader that is not ours, on both substrates."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dpkt
import numpy as np
import pytest

import onramp
from browser import Browser, needs_chromium
from conftest import SMALL, Command
from onramp import capture
from onramp.tracing import Capture, Trace
from test_linux import needs_agent, needs_kernel
from test_watch import data_of, is_self_contained

SYN, PSH = dpkt.tcp.TH_SYN, dpkt.tcp.TH_PUSH

#: Two flows after each other on one connection, and others beside them.
QUIET: dict[str, Any] = {
    "name": "quiet",
    "duration": "10ms",
    "network": {"kind": "star", "hosts": 4, "host_rate": "10Gbps"},
    "transport": {"kind": "cubic"},
    "traffic": [{"kind": "trace", "file": "flows.csv"}],
}
ARRIVALS = "src,dst,bytes,start_ns\n1,0,30000,0\n1,0,300000,1000000\n2,3,5000,1100000\n1,0,2000,4000000\n"

#: Nine senders to one host: packets are lost.
CROWD: dict[str, Any] = {
    **QUIET,
    "name": "crowd",
    "network": {"kind": "star", "hosts": 10, "host_rate": "10Gbps"},
    "linux": {"buffer_packets": 100},
    "duration": "20ms",
    "traffic": [{"kind": "trace", "file": "crowd.csv"}],
}


@dataclass(frozen=True)
class Frame:
    """A packet, numbers counted from the flow's first byte."""

    time_ns: int
    forward: bool
    seq: int
    length: int
    ack: int
    flags: int
    wire: int
    tcp: Any
    ip: Any
    headers: bytes


def frames(path: Path) -> Iterator[Frame]:
    """TCP's packets of a capture."""
    content = path.read_bytes()
    reader = dpkt.pcap.Reader(path.open("rb"))
    origin = None
    at = 24
    for _, kept in reader:
        # In whole nanoseconds, and with the length on the wire, which this reader does not tell.
        seconds, ns, size, wire = struct.unpack_from("<4I", content, at)
        at += 16 + size
        assert size == len(kept) and size <= 94
        ip = dpkt.ethernet.Ethernet(kept).data
        assert isinstance(ip, dpkt.ip.IP) and ip.len == wire - 14
        if ip.p != dpkt.ip.IP_PROTO_TCP:
            assert ip.p == dpkt.ip.IP_PROTO_UDP and ip.data.dport == 9471
            continue
        tcp = ip.data
        if origin is None:
            assert tcp.flags & SYN
            origin, src = tcp.seq + 1, ip.src
        forward = ip.src == src
        length = ip.len - 4 * ip.hl - 4 * tcp.off
        seq, ack = (tcp.seq - origin) % 2**32, (tcp.ack - origin) % 2**32
        yield Frame(
            seconds * 10**9 + ns,
            forward,
            seq,
            length,
            0 if forward else ack,
            tcp.flags,
            wire,
            tcp,
            ip,
            kept[14:],
        )


def is_sound(path: Path, bytes_: int) -> list[tuple[int, int, int]]:
    """Everything that holds of any flow's capture; its data packets as (seq, length, flags)."""
    every = list(frames(path))
    assert [f.flags & SYN for f in every[:3]] == [SYN, SYN, 0]
    assert all(a.time_ns <= b.time_ns for a, b in itertools.pairwise(every))
    acks = [f.ack for f in every[1:] if not f.forward]
    assert acks == sorted(acks) and acks[-1] == bytes_
    highest = 0
    data = [f for f in every if f.forward and f.length]
    for f in data:
        assert f.seq <= highest
        highest = max(highest, f.seq + f.length)
    assert highest == bytes_
    for f in every:
        assert _sum(f.headers[:20]) == 0xFFFF
        pseudo = f.ip.src + f.ip.dst + struct.pack(">HH", 6, f.ip.len - 20)
        # The payload, which is not in the file, is zeros.
        assert _sum(pseudo + f.headers[20:]) == 0xFFFF
    return [(f.seq, f.length, f.flags) for f in data]


def _sum(content: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(content) // 2}H", content))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@pytest.fixture
def quiet(write: Callable[..., Path], tmp_path: Path) -> Path:
    """The file of QUIET."""
    (tmp_path / "flows.csv").write_text(ARRIVALS)
    return write(QUIET)


@pytest.fixture
def crowd(write: Callable[..., Path], tmp_path: Path) -> Path:
    """The file of CROWD."""
    rows = [f"{src},0,2000000,{src * 50_000}" for src in range(1, 10)]
    (tmp_path / "crowd.csv").write_text("\n".join(["src,dst,bytes,start_ns", *rows]) + "\n")
    return write(CROWD, "crowd.toml")


def test_a_flow_is_captured_at_both_hosts(quiet: Path, command: Command, tmp_path: Path) -> None:
    done = command("trace", quiet, 1, 3, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert [line.split(" · ")[0] for line in done.stdout.splitlines()] == [
        "flow 1",
        "flow 1",
        "flow 3",
        "flow 3",
    ]
    assert (
        "simulator, sender h1: " in done.stdout
        and " 0 sent again · out/flow-1-sim-sender.pcap" in done.stdout
    )
    out = tmp_path / "out"
    ends = [is_sound(out / f"flow-1-sim-{end}.pcap", 300_000) for end in ("sender", "receiver")]
    assert ends[0] == ends[1] and len(ends[0]) == -(-300_000 // 1448)
    assert is_sound(out / "flow-3-sim-sender.pcap", 2000)[-1] == (1448, 552, 0x18)
    first = next(frames(out / "flow-1-sim-sender.pcap"))
    assert first.time_ns == 1_000_000
    # It runs as onramp run does.
    assert onramp.Result(out / "sim").flows == onramp.run(quiet).flows
    assert command("trace", quiet, 1, "--out", "out").returncode == 2
    assert command("trace", quiet, 1, "--out", "out", "--force", "--json").returncode == 0


def test_windows_are_scaled_as_the_opening_says(quiet: Path) -> None:
    found = onramp.trace(quiet, [1])
    sender = found.capture(1, "sim")
    assert sender is not None
    every = list(frames(sender.path))
    for f in every[:2]:
        options = dict(dpkt.tcp.parse_opts(f.tcp.opts))
        assert options[dpkt.tcp.TCP_OPT_WSCALE] == b"\x0a" and options[dpkt.tcp.TCP_OPT_MSS] == b"\x05\xb4"
    # A receiver's first room is half of its memory.
    offered = next(f for f in every[3:] if not f.forward)
    assert 65_160 <= offered.tcp.win << 10 < 100_000


def sent_again(crowd: Path, on: str) -> Iterator[tuple[Capture, int]]:
    """Captures at the senders of two flows that lose packets, and how often the run has them retransmit."""
    found = onramp.trace(crowd, [0, 4], on=on)
    flows = {f["id"]: f for f in found.result(on).flows.to_pylist()}
    assert sum(flows[flow]["retransmitted"] for flow in (0, 4)) > 0
    for flow in (0, 4):
        one = found.capture(flow, on)
        assert one is not None
        is_sound(one.path, 2_000_000)
        yield one, flows[flow]["retransmitted"]


def test_what_was_lost_is_sent_again(crowd: Path) -> None:
    for one, retransmitted in sent_again(crowd, "sim"):
        # A probe for a lost tail is sent again, but does not count.
        assert 0 <= one.numbers["retransmitted"] - retransmitted <= 3
        sacks = [f for f in frames(one.path) if not f.forward and b"\x05\x0a" in f.tcp.opts]
        assert sacks or not retransmitted


def test_packets_are_arrays(crowd: Path) -> None:
    found = onramp.trace(crowd, [4])
    one = found.capture(4, "sim")
    assert one is not None
    packets, every = one.packets, list(frames(one.path))
    assert packets.time_ns.tolist() == [f.time_ns for f in every]
    assert packets.payload.tolist() == [f.length for f in every]
    assert packets.start[packets.data].tolist() == [f.seq for f in every if f.forward and f.length]
    time, flight = packets.in_flight()
    assert flight[-1] == 0 and flight.max() == one.numbers["most_in_flight"] > 10 * 1448
    assert np.all(np.diff(time) >= 0) and packets.sent[-1] == packets.acked[-1] == 2_000_000


def test_a_plot_is_drawn(quiet: Path, command: Command, tmp_path: Path) -> None:
    assert command("trace", quiet, 1, "--plot", "--out", "out").returncode == 0
    assert (tmp_path / "out" / "flow-1.png").is_file() and (tmp_path / "out" / "flow-1.svg").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("quiet", 4), "flow 4: is not there; there are 4, 0 to 3"),
        (("warm", 0), "flow 0: arrives in the warm-up, which is not measured; there are "),
        (("quiet", *range(65)), "65 flows: at most 64 can be traced at a time"),
        (("rdma", 1, "--on", "linux"), 'transport.kind: "dcqcn" is simulated only'),
        (("rdma", 1, "--on", "both"), 'transport.kind: "dcqcn" is simulated only'),
        (("quiet", "one"), "'one' is not a valid integer"),
        (("quiet", -1), "No such option"),
        (("quiet",), "Missing argument 'FLOW…', or --request N"),
        (("quiet", "--request", 0), "request 0: is not there; the scenario has none"),
        (("small", "--request", 9999, "--html"), "request 9999: is not there; there are "),
    ],
)
def test_a_mistake_is_one_line(
    quiet: Path, write: Callable[..., Path], command: Command, arguments: tuple[object, ...], said: str
) -> None:
    warm = {k: v for k, v in QUIET.items() if k != "traffic"} | {
        "warmup": "1ms",
        "traffic": SMALL["traffic"][:1],
    }
    rdma = {**QUIET, "transport": {"kind": "dcqcn"}}
    files = {"quiet": quiet} | {
        name: write(content, f"{name}.toml")
        for name, content in (("small", SMALL), ("warm", warm), ("rdma", rdma))
    }
    name, *rest = arguments
    done = command("trace", files[str(name)], *rest)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and not done.stdout
    assert said in done.stderr


#: Places in a packet's list on a page.
FLOW, KIND, AGAIN, HELD, MARKED, DROPPED, LINKS = 0, 1, 4, 5, 6, 7, 8


def agrees_with_captures(found: Trace, on: str) -> Any:
    """Holds a page to the captures of both hosts; its data."""
    (path,) = (p for p in found.pages if p.name == f"space-time-{on}.html")
    html = path.read_text()
    assert is_self_contained(html)
    data = data_of(html)
    for n, flow in enumerate(found.flows):
        own = [p for p in data["packets"] if p[FLOW] == n and p[KIND] == "data"]
        ends = [c for c in found.captures if (c.flow, c.on) == (flow, on)]
        assert [c.end for c in ends] == ["sender", "receiver"] and data["flows"][n]["id"] == flow
        left, there = (sorted(one.packets.time_ns[one.packets.data].tolist()) for one in ends)
        assert [p[LINKS + 1] if len(p) > LINKS else p[DROPPED][1] for p in own] == left
        assert sorted(p[-1] for p in own if p[DROPPED] is None) == there
        assert sum(p[DROPPED] is not None for p in own) == len(left) - len(there)
        assert sum(p[AGAIN] for p in own) == ends[0].numbers["retransmitted"]
        acks = sum(p[FLOW] == n and p[KIND] == "ack" for p in data["packets"])
        # Those on their way when the last byte is acknowledged are not followed.
        assert 0 <= ends[1].numbers["acks"] - acks <= 8
    return data


def test_a_page_of_space_and_time_is_what_the_captures_are(crowd: Path) -> None:
    found = onramp.trace(crowd, [0, 4, 8], {"onramp": {"threshold": "60us"}}, html=True)
    data = agrees_with_captures(found, "sim")
    assert not data["ends_only"] and data["onramp"] == "60us"
    assert {f["unit"] for f in data["flows"]} == {"byte"}
    names = [f"{src}->{dst}" for src, dst, *_ in data["ports"]]
    flows = {f["id"]: f for f in found.result("sim").flows.to_pylist()}
    for n, flow in enumerate(found.flows):
        own = [p for p in data["packets"] if p[FLOW] == n and p[KIND] == "data"]
        for p in own:
            links = [p[i : i + 3] for i in range(LINKS, len(p), 3)]
            assert [names[port] for port, _, _ in links] == [f"h{flow + 1}->s0", "s0->h0"][: len(links)]
            # A full packet takes 1.2112 µs at 10 Gb/s, and nothing leaves before it has come.
            assert all(comes - leaves >= 1000 for _, leaves, comes in links)
            assert all(b[1] >= a[2] for a, b in itertools.pairwise(links))
            assert p[DROPPED] is None or names[p[DROPPED][0]] == "s0->h0"
        assert any(p[DROPPED] for p in own)
        held = sum(p[HELD] for p in own)
        assert held / 1e3 == pytest.approx(flows[flow]["paused_ps"] / 1e6, rel=0.02, abs=60)
    assert (
        onramp.Result(found.folder / "sim").flows
        == onramp.run(crowd, {"onramp": {"threshold": "60us"}}).flows
    )


def test_a_request_on_rdma_has_a_page_that_is_what_its_captures_are(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    path = write({**SMALL, "transport": {"kind": "dcqcn"}})
    done = command("trace", path, "--request", 1, "--html", "--out", "out")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "out/space-time-sim.html", done
    data = agrees_with_captures(Trace(tmp_path / "out"), "sim")
    assert {f["unit"] for f in data["flows"]} == {"packet"}
    result = onramp.Result(tmp_path / "out" / "sim")
    parts = [f for f in result.flows.to_pylist() if f["request"] == 1]
    assert len(parts) == 6 and {f["id"] for f in data["flows"]} == {f["id"] for f in parts}
    sent = [p for p in data["packets"] if p[KIND] == "data"]
    # 2 KB are two packets, each over two links.
    assert len(sent) == 12 and all(len(p) == LINKS + 6 for p in sent)
    end = max(f["start_ns"] + f["fct_ns"] for f in data["flows"]) - min(f["start_ns"] for f in data["flows"])
    requests = {r["id"]: r for r in result.requests.to_pylist()}
    assert end == pytest.approx(requests[1]["rct_ps"] / 1e3)
    assert (
        len(list((tmp_path / "out").glob("*.pcap"))) == 12 and not (tmp_path / "out/sim/ways.json").exists()
    )


#: CROWD on RDMA: what is lost is sent again by go-back-N.
FABRIC: dict[str, Any] = {
    **{key: value for key, value in CROWD.items() if key != "linux"},
    "name": "fabric",
    "transport": {"kind": "dcqcn"},
    "switch": {
        "loss": "lossy",
        "buffer": "60KB",
        "ecn": [{"rate": "10Gbps", "kmin": "5KB", "kmax": "20KB", "pmax": 1.0}],
    },
}


@dataclass(frozen=True)
class Rdma:
    """A packet of RoCEv2: a reply if `syndrome` is one."""

    time_ns: int
    opcode: int
    psn: int
    payload: int
    marked: bool
    becn: bool
    syndrome: int | None


def rdma(path: Path) -> Iterator[Rdma]:
    """RoCEv2 packets of a capture."""
    content = path.read_bytes()
    at = 24
    for _, kept in dpkt.pcap.Reader(path.open("rb")):
        seconds, ns, size, wire = struct.unpack_from("<4I", content, at)
        at += 16 + size
        ip = dpkt.ethernet.Ethernet(kept).data
        assert ip.data.dport == 4791 and ip.len + 14 <= wire and _sum(kept[14:34]) == 0xFFFF
        opcode, flags, _, ecn, _, _, _, numbered = struct.unpack_from(">BBHBBHBB", kept, 42)
        psn = numbered << 16 | int.from_bytes(kept[52:54], "big")
        reply = opcode == 17
        payload = ip.len - 20 - 8 - 12 - 4 - (4 if reply else 0) - (flags >> 4 & 3)
        syndrome = kept[54] if reply else None
        yield Rdma(seconds * 10**9 + ns, opcode, psn, payload, ip.tos & 3 == 3, ecn == 0x40, syndrome)


@pytest.fixture
def fabric(write: Callable[..., Path], crowd: Path) -> Path:
    """The file of FABRIC."""
    assert crowd.is_file()
    return write(FABRIC, "fabric.toml")


def test_go_back_n_on_rdma_is_seen_packet_by_packet(fabric: Path, command: Command, tmp_path: Path) -> None:
    done = command("trace", fabric, 0, 4, "--plot", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "NAKs" in done.stdout and " sent again · out/flow-4-sim-receiver.pcap" in done.stdout
    assert (tmp_path / "out" / "flow-4.png").is_file()
    found = Trace(tmp_path / "out")
    flows = {f["id"]: f for f in found.result("sim").flows.to_pylist()}
    assert onramp.Result(tmp_path / "out" / "sim").flows == onramp.run(fabric).flows
    assert sum(flows[flow]["retransmitted"] for flow in (0, 4)) > 0
    for flow in (0, 4):
        sender, receiver = (found.capture(flow, "sim", end) for end in ("sender", "receiver"))
        assert sender is not None and receiver is not None
        every, there = list(rdma(sender.path)), list(rdma(receiver.path))
        data = [p for p in every if p.syndrome is None]
        assert {p.psn for p in data} == set(range(2000)) and {p.payload for p in data} == {1000}
        assert {(p.psn == 0, p.psn == 1999, p.opcode) for p in data} == {
            (True, False, 0),
            (False, False, 1),
            (False, True, 2),
        }
        numbers = sender.numbers
        assert numbers["retransmitted"] == flows[flow]["retransmitted"] == len(data) - 2000
        # What is sent next after a NAK is the packet that it names.
        for told, sent in itertools.pairwise(every):
            if told.syndrome == 0x60 and sent.syndrome is None:
                assert sent.psn == told.psn
        assert numbers["naks"] == sum(p.syndrome == 0x60 for p in every)
        assert numbers["acked"] == 2_000_000 and sender.packets.in_flight()[1][-1] == 0
        assert numbers["echoes"] == sum(p.becn for p in every)
        came = receiver.numbers
        assert came["marked"] == sum(p.marked for p in there if p.syndrome is None) > 0
        assert numbers["marked"] == 0 and came["data_packets"] < len(data)
        start = flows[flow]["start_ps"]
        assert (numbers["first_us"], numbers["last_us"]) == pytest.approx(
            (start / 1e6, (start + flows[flow]["fct_ps"]) / 1e6), abs=1e-3
        )


def test_flows_of_tcp_and_rdma_are_traced_in_one_run(write: Callable[..., Path], quiet: Path) -> None:
    assert quiet.is_file()
    both = [*QUIET["traffic"], {**QUIET["traffic"][0], "transport": {"kind": "dcqcn"}}]
    found = onramp.trace(write({**QUIET, "traffic": both}, "mixed.toml"), range(8), html=True)
    protocols = {c.flow: c.numbers["protocol"] for c in found.captures}
    assert sorted(protocols.values()) == 4 * ["RoCEv2"] + 4 * ["TCP"]
    data = data_of(found.pages[0].read_text())
    units = {"RoCEv2": "packet", "TCP": "byte"}
    assert {f["id"]: f["unit"] for f in data["flows"]} == {f: units[p] for f, p in protocols.items()}


@pytest.mark.parametrize("transport", ["dcqcn", "timely", "dctcp", "hpcc", "swift", "nscc"])
def test_every_rdma_transport_is_captured(write: Callable[..., Path], quiet: Path, transport: str) -> None:
    assert quiet.is_file()
    found = onramp.trace(write({**QUIET, "transport": {"kind": transport}}, "rdma.toml"), [1, 3])
    for one in found.captures:
        total = 300_000 if one.flow == 1 else 2000
        assert (one.numbers["protocol"], one.numbers["bytes"]) == ("RoCEv2", total)
        assert one.numbers["acked"] == total and one.numbers["retransmitted"] == 0
        assert one.packets.start[one.packets.data].tolist() == list(range(0, total, 1000))


@needs_kernel
def test_on_linux_a_page_has_both_ends(crowd: Path) -> None:
    found = onramp.trace(crowd, [0, 4], on="both", html=True)
    assert [p.name for p in found.pages] == ["space-time-sim.html", "space-time-linux.html"]
    data = agrees_with_captures(found, "linux")
    assert data["ends_only"] and any(p[DROPPED] for p in data["packets"])
    agrees_with_captures(found, "sim")


@needs_chromium
def test_a_browser_shows_packets_and_zooms_and_filters(crowd: Path, tmp_path: Path) -> None:
    found = onramp.trace(crowd, [0, 4], html=True)
    with Browser(tmp_path, height=1000) as browser:
        browser.open(found.pages[0].as_uri())
        assert browser.text("flows").startswith("2 to h0") and " dropped" in browser.text("packets")
        whole = browser.value("view")
        browser.wheel("#picture", 0.2, 0.5, -300)
        browser.until(f"view[1] - view[0] < {0.9 * (whole[1] - whole[0])}")
        # To the middle of a queue: some packet is near.
        browser.until("packets.some((p) => p.links.length > 1 && p.begin > view[0] && p.end < view[1])")
        place = browser.value(
            "(() => { const isWhole = (p) => p.links.length > 1 && p.begin > view[0] && p.end < view[1];"
            "const p = packets.find(isWhole);"
            "const { from, to } = stretches(p)[1]; const x = (from[0] + to[0]) / 2, c = $('picture');"
            "const part = (x - view[0]) / (view[1] - view[0]);"
            "const at = LEFT + part * (c.clientWidth - LEFT - RIGHT), y = (from[1] + to[1]) / 2;"
            "return [at / c.clientWidth, y / c.clientHeight]; })()"
        )
        browser.point("#picture", *place)
        browser.until("document.getElementById('packet').innerText.includes('s0->h0: waited ')")
        browser.point("#all", 0.5, click=True)
        browser.until(f"view[0] === {whole[0]} && view[1] === {whole[1]}")
        seen = browser.value("shownPackets().length")
        browser.point("#table input", 0.5, click=True)
        assert 0 < browser.value("shownPackets().length") < seen
        browser.point("#none", 0.5, click=True)
        assert browser.value("shownPackets().length") == 0
        assert {url.split(":")[0] for url in browser.loaded} <= {"file", "data"} and not browser.complaints


def test_a_flow_that_does_not_begin_is_an_error(quiet: Path, command: Command, tmp_path: Path) -> None:
    done = command("trace", quiet, 3, "--set", "duration=2ms", "--set", "time_limit=3ms", "--out", "out")
    assert done.returncode == 1 and "flow 3 does not begin before the end (time_limit 3ms)" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_capture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no packets at all, but long enough")
    with pytest.raises(onramp.OnRampError, match="is no capture"):
        capture.read(tmp_path / "text")
    with pytest.raises(onramp.OnRampError, match="No such file"):
        capture.read(tmp_path / "nothing")


@needs_kernel
def test_a_flow_alone_is_the_same_on_both(quiet: Path, command: Command, tmp_path: Path) -> None:
    done = command("trace", quiet, 0, 1, 3, "--on", "both", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "simulator" in done.stdout and "ratio" in done.stdout
    out = tmp_path / "out"
    for flow, bytes_, begin in ((0, 30_000, 0), (1, 300_000, 1_000_000), (3, 2000, 4_000_000)):
        for end in ("sender", "receiver"):
            paths = [out / f"flow-{flow}-{on}-{end}.pcap" for on in ("sim", "linux")]
            one, other = (is_sound(path, bytes_) for path in paths)
            # Where segments end, which is marked (PSH), hangs on acknowledgements to the nanosecond.
            one, other = ([(seq, length, flags & ~PSH) for seq, length, flags in p] for p in (one, other))
            assert one == other, (flow, end)
            sim, linux = ([f for f in frames(path) if f.length] for path in paths)
            times = [np.array([f.time_ns - begin for f in every]) for every in (sim, linux)]
            assert np.all(np.abs(times[0] - times[1]) <= 0.01 * times[1] + 20), (flow, end)
            endpoints = [{(f.ip.src, f.ip.dst, f.tcp.sport, f.tcp.dport) for f in e} for e in (sim, linux)]
            assert endpoints[0] == endpoints[1]
    # The run beside the capture is as it is without.
    assert onramp.Result(out / "linux").flows == onramp.run(quiet, on="linux").flows


@needs_kernel
def test_losses_on_linux_are_in_the_capture(crowd: Path) -> None:
    for one, retransmitted in sent_again(crowd, "linux"):
        assert one.left_out == 0
        assert abs(one.numbers["retransmitted"] - retransmitted) <= 3


@needs_agent
def test_or_acks_are_in_the_capture_on_both(quiet: Path) -> None:
    overrides = {"onramp": {"threshold": "20us"}}
    found = onramp.trace(quiet, [1], overrides, on="both")
    counts = [c.numbers["or_acks"] for c in found.captures]
    assert min(counts) > 0 and max(counts) - min(counts) <= 2, counts
    assert json.loads(json.dumps(found.to_json()))["flows"] == [1]


def test_a_long_flow_is_read_as_a_large_one_and_sends_what_its_socket_has(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    long = [{"kind": "long", "src": ["h1"], "dst": "h0"}]
    large = [{"kind": "trace", "file": "large.csv"}]
    (tmp_path / "large.csv").write_text("src,dst,bytes,start_ns\n1,0,300000000,0\n")
    seen = []
    for traffic in (long, large):
        found = onramp.trace(write({**QUIET, "duration": "3ms", "traffic": traffic}), [0])
        seen.append(next(c.packets for c in found.captures if c.end == "sender"))
    # From then on where either was written shows: what follows a cut takes what its socket has.
    count = np.searchsorted(seen[0].time_ns, 2_990_000)
    one, other = (packets.time_ns[:count] - packets.time_ns[0] for packets in seen)
    assert np.abs(one - other).max() <= 1
    for field in ("start", "payload", "ack"):
        assert np.array_equal(*(getattr(packets, field)[:count] for packets in seen)), field
    # The first segments that the window cuts within a packet: as on Linux, but for the last, 744 there.
    data = [packets.payload[(packets.payload > 0) & (packets.time_ns < 3_000_000)] for packets in seen]
    assert [list(payload[payload < 1448]) for payload in data] == [[40, 216], [40, 920]]
    left = seen[0].time_ns[-1] - 3_000_000
    assert 100_000 < left < 1_000_000, "no acknowledgement waits for bytes that never come"
