"""A hundred thousand flows with a packet each: what they take, and that each packet comes out."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import net
from net import run, tc

FLOWS = 100_000
PKTGEN = Path("/proc/net/pktgen")


def objects() -> tuple[int, int]:
    """Flows there are, and bytes of a flow, as the allocator counts them."""
    rows = [line.split() for line in Path("/proc/slabinfo").read_text().splitlines()]
    row = next(row for row in rows if row[0] == "onramp_queue")
    return int(row[1]), int(row[3])


def generate(device: str, count: int) -> None:
    """Each packet is of a flow of its own: 50000 ports and 7 addresses have no common divisor."""
    (PKTGEN / "kpktgend_0").write_text("rem_device_all\n")
    (PKTGEN / "kpktgend_0").write_text(f"add_device {device}\n")
    for line in (
        f"count {count}",
        "pkt_size 200",
        "delay 0",
        "src_min 10.3.0.1",
        "src_max 10.3.0.7",
        "dst 10.3.1.1",
        "dst_mac 02:00:00:00:00:02",
        "udp_src_min 1000",
        "udp_src_max 51000",
        "xmit_mode queue_xmit",
    ):
        (PKTGEN / device).write_text(line + "\n")
    # It ends once its last packet is gone.
    threading.Thread(target=(PKTGEN / "pgctrl").write_text, args=("start\n",), daemon=True).start()


def test(kind: str) -> str:
    flows = FLOWS if kind == "kasan" else FLOWS // 10
    run("ip link add sink type dummy")
    run("ip link set sink up")
    tc("qdisc add dev sink root handle 1: tbf rate 8kbit burst 2kb limit 1gb", None)
    tc(f"qdisc add dev sink parent 1:1 handle 10: onramp flows {2 * FLOWS} limit {2 * FLOWS} bytes 1gb", None)
    generate("sink", flows)
    end = time.monotonic() + 300
    while time.monotonic() < end:
        gate = next(one for one in net.qdiscs(None, "sink") if one["kind"] == "onramp")
        if gate["qlen"] + gate["packets"] + gate["drops"] >= flows:
            break
        time.sleep(1)
    active, size = objects()
    drops = {key: gate[key] for key in ("limit_drops", "bytes_drops", "flow_limit_drops", "no_flow")}
    if any(drops.values()) or gate["drops"]:
        raise AssertionError(f"{gate['drops']} dropped: {drops}")
    # Hashes of 32 bits: of 100000 flows, one pair or two may share one.
    # Those that the shaper let go may have been forgotten since.
    if gate["flows"] + gate["collected"] < flows - 20:
        raise AssertionError(f"{gate['flows']} flows of {flows}, {gate['collected']} forgotten")
    tc("qdisc change dev sink root handle 1: tbf rate 10gbit burst 1mb limit 1gb", None)
    gate = next(one for one in net.drain(None, "sink", 120) if one["kind"] == "onramp")
    if gate["packets"] < flows or gate["drops"]:
        raise AssertionError(f"{flows} packets put in, {gate['packets']} came out, {gate['drops']} dropped")
    run("ip link del sink")
    return f"{flows} flows, {active} objects of {size} bytes; every packet came out"
