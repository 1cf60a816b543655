"""Whatever is put into a gate is sent or dropped, and then nothing is left, wherever the gate is."""

from __future__ import annotations

import json
import time
from pathlib import Path

import net
from kernel import say
from net import OUT, Child, run, tc

SECONDS, ROUNDS = 8, 6
#: Where the gate is, the qdiscs above it, and what the agent calls the place.
TREES = {
    "root": ([], "root"),
    "mq": (["qdisc replace dev DEV root handle 1: mq"], "mq"),
    "htb": (
        [
            "qdisc replace dev DEV root handle 1: htb default 1",
            "class add dev DEV parent 1: classid 1:1 htb rate 30mbit ceil 60mbit quantum 20000",
        ],
        "1:1",
    ),
    "tbf": (["qdisc replace dev DEV root handle 1: tbf rate 30mbit burst 128kb limit 8mb"], "1:1"),
    "prio": (
        ["qdisc replace dev DEV root handle 1: prio"]
        + [f"qdisc add dev DEV parent 1:{band} handle 1{band}: onramp" for band in (1, 3)],
        "1:2",
    ),
}
#: The most packets that one segment stands for.
SEGMENTS = 50
#: Packets that may wait for a qdisc's lock; more are dropped, and no qdisc counts them. An emulated
#: processor may stand still with the lock for long.
BURST = Path("/proc/sys/net/core/qdisc_max_burst")
SMALL = "limit 30 bytes 20000 flow_limit 8 flows 5 quantum 300"


def put_in() -> tuple[int, int]:
    """Packets and bytes on their way into the root, as a filter before it counts them."""
    filters = json.loads(tc(f"-s -j filter show dev {OUT} egress"))
    actions = next(one["options"]["actions"] for one in filters if "actions" in one.get("options", {}))
    stats = actions[0]["stats"]
    return stats["packets"], stats["bytes"]


class Count:
    """What has been put in, what came out, and the qdiscs, at a moment when nothing moves."""

    def __init__(self) -> None:
        while True:
            self.packets, self.bytes = put_in()
            self.qdiscs = net.drain()
            if put_in() == (self.packets, self.bytes):
                break
            time.sleep(0.2)
        self.root: dict[str, int] = next(one for one in self.qdiscs if one.get("root"))
        self.gates = [one for one in self.qdiscs if one["kind"] == "onramp"]
        #: Packets that the root has sent, and no gate: they came before the gate.
        self.missed = self.root["packets"] - sum(gate["packets"] for gate in self.gates)


def compare(before: Count, segments: bool) -> str:
    """The model: in = sent + dropped, and all that went through the tree went through its leaves."""
    after = Count()
    packets, size = after.packets - before.packets, after.bytes - before.bytes
    sent, sent_bytes, drops = (after.root[key] - before.root[key] for key in ("packets", "bytes", "drops"))
    most = drops * (SEGMENTS if segments else 1)
    if not drops <= packets - sent <= most or (not drops and size != sent_bytes):
        what = f"{packets} packets ({size} bytes) put in, {sent} ({sent_bytes}) sent, {drops} dropped"
        raise AssertionError(f"{what}: {after.qdiscs}")
    if after.missed != before.missed:
        raise AssertionError(f"the leaves have sent other than the root: {after.qdiscs}")
    if sum(gate["drops"] for gate in after.gates) > after.root["drops"]:
        raise AssertionError(f"the root knows of less drops than the leaves: {after.qdiscs}")
    if any(gate["throttled_flows"] for gate in after.gates):
        raise AssertionError(f"empty flows wait: {after.qdiscs}")
    count = {key: sum(gate[key] for gate in after.gates) for key in ("held", "cut", "acks_first")}
    return f"{packets} in, {drops} dropped, {', '.join(f'{key} {n}' for key, n in count.items())}"


def play(name: str, *, small: bool) -> str:
    """Traffic through one tree: with segments, or with one packet in each buffer and small limits."""
    net.hosts()
    sink = Child("b", net.sink)
    commands, parent = TREES[name]
    for command in commands:
        tc(command.replace("DEV", OUT))
    if small:
        # TCP makes no larger segments, so that each drop is one packet.
        run("ip -n a link set dev eth0 gso_max_segs 1")
        run(f"ip -n r link set dev {OUT} gso_max_segs 1")
    agents = net.agents(parent=parent)
    if small:
        for gate in [one for one in net.qdiscs() if one["kind"] == "onramp"]:
            place = "root" if gate.get("root") else f"parent {gate['parent']}"
            tc(f"qdisc change dev {OUT} {place} handle {gate['handle']} onramp {SMALL}")
    tc(f"qdisc add dev {OUT} clsact")
    tc(f"filter add dev {OUT} egress matchall action pass")
    before = Count()
    # On a slow machine it takes more than one round until a segment is cut.
    for _ in range(ROUNDS):
        traffic = net.everything(SECONDS, gso=not small)
        for one in traffic:
            one.wait()
        said = compare(before, segments=not small)
        if small or "cut 0, " not in said:
            break
    else:
        raise AssertionError(f"no segment was cut: {said}")
    net.reaches()
    net.end(sink, agents)
    return said


def test(kind: str) -> str:
    said = []
    if BURST.exists():
        BURST.write_text("1000000")
    for name in TREES:
        for small in (False, True):
            said.append(play(name, small=small))
            say(f"  {name}{', small limits' if small else ''}: {said[-1]}")
    if all("held 0, " in line for line in said):
        raise AssertionError("nothing was held anywhere")
    return f"{len(said)} plays; nothing stays, nothing is unaccounted for"
