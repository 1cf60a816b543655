"""An agent that hangs: the gate lets everything through after 3 s, and holds again when the agent goes on."""

from __future__ import annotations

import signal
import time

import net
from net import ADDRESSES, Child


def held() -> tuple[int, int]:
    """Times flows were held, and packets sent."""
    gates = [one for one in net.qdiscs() if one["kind"] == "onramp"]
    return sum(gate["held"] for gate in gates), sum(gate["packets"] for gate in gates)


def test(kind: str) -> str:
    net.hosts()
    sink = Child("b", net.sink)
    agents = net.agents()
    traffic = [Child("r", net.tcp, ADDRESSES["b"], 300) for _ in range(4)]
    time.sleep(4)
    first = held()[0]
    if not first:
        raise AssertionError("nothing was held before")
    agents[0].process.send_signal(signal.SIGSTOP)
    # The programs' time runs out 3 s after the agent's last sign of life, which is at most 1 s old.
    time.sleep(4)
    open_from, sent_from = held()
    time.sleep(3)
    open_to, sent_to = held()
    agents[0].process.send_signal(signal.SIGCONT)
    # A loaded machine leaves the agent without a processor for long.
    for _ in range(30):
        time.sleep(1)
        again = held()[0]
        if again > open_to:
            break
    for one in traffic:
        one.stop()
    net.drain()
    net.end(sink, agents)
    if open_to != open_from:
        raise AssertionError(f"held {open_to - open_from} times while the agent was stopped")
    if sent_to <= sent_from:
        raise AssertionError("nothing was sent while the agent was stopped")
    if again <= open_to:
        raise AssertionError("nothing was held once the agent went on")
    sent = sent_to - sent_from
    return f"held {first} times, none while stopped ({sent} packets sent), {again - open_to} after"
