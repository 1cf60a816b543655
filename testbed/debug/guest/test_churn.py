"""Everything that may happen to a gate and its surroundings, at once, under traffic."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import net
from net import ADDRESSES, OUT, QUEUES, Child, run, tc

SECONDS = 120
COUNTS = Path("/run/churned")


def qdiscs(dice: random.Random) -> None:
    root = f"dev {OUT} root handle"
    match dice.randint(0, 7):
        case 0 | 1:
            settings = (
                "limit 50",
                "limit 10240",
                "flows 1",
                "flows 65536",
                "quantum 256",
                "max_hold 1ms",
                "pacing 0",
            )
            tc(f"qdisc change dev {OUT} root onramp {dice.choice(settings)}", check=False)
        case 2:
            tc(f"qdisc replace {root} {dice.randint(1, 9)}: onramp limit 1000", check=False)
        case 3:
            tc(f"qdisc del dev {OUT} root", check=False)
        case 4:
            tc(f"qdisc replace {root} 20: mq", check=False)
            for queue in range(1, QUEUES + 1):
                tc(f"qdisc replace dev {OUT} parent 20:{queue} onramp", check=False)
        case 5:
            tc(f"qdisc replace {root} 30: prio", check=False)
            tc(f"qdisc replace dev {OUT} parent 30:2 onramp flow_limit 20", check=False)
        case 6:
            tc(f"qdisc replace {root} 40: tbf rate 50mbit burst 128kb latency 50ms", check=False)
            tc(f"qdisc replace dev {OUT} parent 40:1 onramp", check=False)
        case 7:
            tc(f"-s qdisc show dev {OUT}", check=False)


def channels(dice: random.Random) -> None:
    queues = dice.randint(1, QUEUES)
    run(f"ethtool -L {OUT} tx {queues} rx {queues}", check=False)


def flaps(dice: random.Random) -> None:
    run(f"ip link set {OUT} down", check=False)
    time.sleep(dice.random() / 10)
    run(f"ip link set {OUT} up", check=False)
    time.sleep(2 * dice.random())


def often(act: Callable[[random.Random], None], seed: int) -> None:
    dice = random.Random(seed)
    end = time.monotonic() + SECONDS
    count = 0
    while time.monotonic() < end:
        act(dice)
        count += 1
        time.sleep(dice.random() / 4)
    with COUNTS.open("a") as file:
        file.write(f"{act.__name__} {count}, ")


def killed(agent: net.Agent, end: float) -> int:
    count = 0
    while time.monotonic() < end:
        agent.end(signal.SIGKILL)
        agent.start()
        time.sleep(4 * random.random())
        count += 1
    return count


def deleted() -> None:
    """Namespaces with a gate each, that go while there is traffic between them."""
    end = time.monotonic() + SECONDS
    count = 0
    while time.monotonic() < end:
        for host in "xy":
            run(f"ip netns add {host}")
        net.link("x", "eth0", "10.1.0.1/24", "y", "eth0", "10.1.0.2/24")
        for host in "xy":
            # A program would need an agent; packets wait for the shaper.
            tc("qdisc add dev eth0 root handle 1: tbf rate 5mbit burst 32kb limit 4mb", host=host)
            tc("qdisc add dev eth0 parent 1:1 onramp", host=host)
        traffic = [Child("x", net.udp, "10.1.0.2", 2), Child("x", net.raw, "eth0", 2)]
        time.sleep(1)
        for host in "xy":
            run(f"ip netns del {host}")
        for one in traffic:
            one.stop()
        count += 1
    with COUNTS.open("a") as file:
        file.write(f"namespaces deleted {count}, ")


def test(kind: str) -> str:
    net.hosts()
    sink = Child("b", net.sink)
    agents = net.agents()
    disturbers = [Child("r", often, act, seed) for seed, act in enumerate((qdiscs, qdiscs, channels, flaps))]
    pid = os.fork()
    if not pid:
        try:
            deleted()
            os._exit(0)
        finally:
            os._exit(1)
    traffic = net.everything(SECONDS)
    kills = killed(agents[0], time.monotonic() + SECONDS)
    for one in disturbers + traffic:
        one.wait()
    if os.waitpid(pid, 0)[1]:
        raise AssertionError("namespaces could not be deleted")
    if agents[0].refused():
        # The last time it came up while a shaper was at the root, with others below.
        tc(f"qdisc del dev {OUT} root", check=False)
        agents[0].start()
    agents[0].ready()
    net.drain()
    net.reaches()
    # The agent has put its gate back where somebody else's was.
    for _ in range(100):
        gates = [one for one in net.qdiscs() if one["kind"] == "onramp"]
        if gates and all("program" in gate["options"] for gate in gates):
            break
        time.sleep(0.2)
    else:
        raise AssertionError(f"no gate came back: {net.qdiscs()}")
    for agent in agents:
        agent.end()
    net.drain()
    net.end(sink)
    return f"{COUNTS.read_text()}agents killed {kills}; no packet stays, and {ADDRESSES['b']} can be reached"
