"""A commented scenario from a few answers: `onramp new`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onramp.errors import OnRampError, ScenarioError
from onramp.scenario import Scenario, quantity, resolve

#: Hosts of a leaf at most, and GPUs of a server.
LEAF, SERVER = 16, 8
#: T is above the longest path's least delay by so many full packets at a host link, and by this at least.
QUEUE, LEAST_S = 100, 10e-6
#: Time measured at 100 Gb/s; at other rates as many bytes.
DURATION_S = 4e-3


@dataclass(frozen=True)
class Answers:
    """Parameters of a new scenario.

    Attributes
    ----------
    network : str
        One of `NETWORKS`.
    hosts : int
        Hosts, at least; some networks have a few more.
    rate : str
        Rate of a host link, such as "100Gbps".
    transport : str
        Kind of congestion control.
    traffic : sequence of str
        Some of `TRAFFIC`.
    load : float
        Share of the host links that background, or else the first traffic, offers.
    program, topology : str, optional
        Files of other simulators, relative to the scenario: the only traffic, and the network.
    """

    network: str = "leaf-spine"
    hosts: int = 64
    rate: str = "100Gbps"
    transport: str = "dcqcn"
    traffic: Sequence[str] = ("background", "incast")
    load: float = 0.4
    program: str | None = None
    topology: str | None = None


def _star(a: Answers) -> str:
    return f'''kind = "star"            # all hosts on one switch, "s0"
hosts = {a.hosts}
host_rate = "{a.rate}"
link_delay = "1us"       # propagation, one way'''


def _fabric(a: Answers) -> str:
    return f"{4 * quantity(a.rate) / 1e9:g}Gbps"


def _leaf_spine(a: Answers) -> str:
    leaves = max(2, -(-a.hosts // LEAF))
    each = -(-a.hosts // leaves)
    spines = max(1, math.ceil(each / 4))
    return f'''kind = "leaf-spine"      # switches "leaf0", …, "spine0", …
leaves = {leaves}
hosts_per_leaf = {each}
spines = {spines}               # {each} host links and {spines} links of four times the rate on each leaf
host_rate = "{a.rate}"
fabric_rate = "{_fabric(a)}"
link_delay = "1us"       # propagation, one way'''


def _fat_tree(a: Answers) -> str:
    pods, tors = 4, 2
    each = -(-a.hosts // (pods * tors))
    return f'''kind = "fat-tree"        # switches "tor0", …, "agg0", …, "core0", …
pods = {pods}
tors_per_pod = {tors}
aggs_per_pod = 2
cores = 4
hosts_per_tor = {each}
host_rate = "{a.rate}"
fabric_rate = "{_fabric(a)}"
link_delay = "1us"       # propagation, one way'''


def _servers(a: Answers) -> str:
    return f'''kind = "servers"         # GPUs in servers, with NVLink inside and a NIC each
servers = {max(1, -(-a.hosts // SERVER))}
gpus = {SERVER}
wiring = "rails"         # a leaf for GPUs in the same place; "racks": a leaf for whole servers
host_rate = "{a.rate}"
fabric_rate = "{_fabric(a)}"'''


def _file(a: Answers) -> str:
    kind = "htsim-file" if str(a.topology).endswith(".topo") else "simai-file"
    return f'''kind = "{kind}"
file = {json.dumps(a.topology)}'''


NETWORKS: dict[str, Callable[[Answers], str]] = {
    "star": _star,
    "leaf-spine": _leaf_spine,
    "fat-tree": _fat_tree,
    "servers": _servers,
}


#: Switches and hosts for Ultra Ethernet's transports, as in uet-htsim.
UNORDERED = """
[switch]
loss = "lossy"
trim = "64B"             # a full queue cuts packets to their headers
ack_class = "control"

[host]
payload = "4086B"
entropy = { kind = "reps" }  # another path for each packet; "spray": at random
"""


def _background(a: Answers) -> str:
    return f"""# Flows between random hosts, Poisson arrivals.
[[traffic]]
kind = "background"
workload = "WebSearch"   # or FB_Hadoop, GoogleSearchRPC, a file with a distribution of sizes
load = {a.load:g}               # payload over the capacity of host links"""


def _incast(a: Answers) -> str:
    fan_out = max(1, min(a.hosts - 1, 32))
    return f"""# Requests that several hosts answer at once: what On-Ramp is for.
[[traffic]]
kind = "incast"
fan_out = {fan_out}
size = "20KB"            # of each answer
load = 0.05              # of every host's link"""


def _rpc(a: Answers) -> str:
    clients = max(1, a.hosts // 4)
    return f"""# Remote procedure calls on open connections: some hosts ask the others.
[[traffic]]
kind = "rpc"
from = {_names(0, clients)}
to = {_names(clients, a.hosts)}
request = "1KB"
response = "10KB"
depth = 1                # open on a connection; or per_second = 1000, Poisson"""


def _storage(a: Answers) -> str:
    clients = max(1, a.hosts // 2)
    return f"""# Blocks of other hosts' disks, by NVMe over TCP.
[[traffic]]
kind = "storage"
from = {_names(0, clients)}
to = {_names(clients, a.hosts)}
block = "32KiB"
depth = 32               # open on a connection
writes = 0.3             # share of blocks that are written"""


def _collective(_: Answers) -> str:
    return """# A training job's collective among all hosts, repeated.
[[traffic]]
kind = "collective"
operation = "all-reduce" # or reduce-scatter, all-gather, broadcast, reduce, all-to-all
size = "16MiB"           # the whole buffer, as nccl-tests count it
compute = "100us"        # before each
repeat = 4"""


TRAFFIC: dict[str, Callable[[Answers], str]] = {
    "background": _background,
    "incast": _incast,
    "rpc": _rpc,
    "storage": _storage,
    "collective": _collective,
}


def _program(a: Answers) -> str:
    return f"""# A job of another simulator, on the first hosts: docs/collectives.md tells what is simulated.
[[traffic]]
kind = "program"
file = {json.dumps(a.program)}
repeat = 1               # iterations
compute_scale = 1.0      # computations take this many times as long as the file says"""


def _names(first: int, end: int) -> str:
    names = [f'"h{host}"' for host in range(first, end)]
    if len(names) <= 8:
        return f"[{', '.join(names)}]"
    rows = [", ".join(names[at : at + 8]) for at in range(0, len(names), 8)]
    return "[\n    " + ",\n    ".join(rows) + ",\n]"


def ask(answers: Answers, key: str) -> Answers:
    """Ask for one of the answers on the terminal; what is there is the default."""
    import click

    default = getattr(answers, key)
    if key == "network":
        value = click.prompt("Network", default=default, type=click.Choice(list(NETWORKS)))
    elif key == "traffic":
        text = click.prompt(f"Traffic ({', '.join(TRAFFIC)})", default=",".join(default))
        value = tuple(part.strip() for part in text.split(","))
    elif key == "hosts":
        value = click.prompt("Hosts", default=default, type=click.IntRange(min=2, max=100_000))
    elif key == "load":
        value = click.prompt(
            "Load of the background", default=default, type=click.FloatRange(0, 1, min_open=True)
        )
    else:
        value = click.prompt(key.capitalize(), default=default)
    return replace(answers, **{key: value})


def write(name: str, answers: Answers, base: Path = Path()) -> tuple[str, int]:
    """Text of a scenario in the folder `base` that is checked, with T chosen for its network; and its hosts.

    Racks are of one size: there may be more hosts than were asked for.

    Raises
    ------
    ScenarioError, OnRampError
        If the answers make none.
    """
    unknown = [kind for kind in answers.traffic if kind not in TRAFFIC]
    if unknown or not answers.traffic:
        raise OnRampError(f"--traffic {','.join(answers.traffic)}: is none of {', '.join(TRAFFIC)}")
    try:
        rate = quantity(answers.rate)
    except ValueError:
        rate = 0.0
    if rate <= 0 or not answers.rate.endswith("bps"):
        raise OnRampError(f"--rate {answers.rate}: is no rate, such as 100Gbps")
    first = _text(name, answers, rate, "1ms")
    facts = json.loads(_checked(first, name, base).loaded.explain())
    room = max(LEAST_S, QUEUE * facts["packet"] * 8 / facts["host_rate"])
    threshold = math.ceil(1e6 * (facts["owd_ps"][1] / 1e12 + room))
    text = _text(name, answers, rate, f"{threshold}us")
    return text, len(_checked(text, name, base).loaded.hosts)


def _checked(text: str, name: str, base: Path) -> Scenario:
    try:
        return resolve(text, "", base, {}, default_name=name)
    except ScenarioError as e:
        # Of each line of the message without where it would have been.
        mistakes = [line.partition(": ")[2] for line in str(e).splitlines()]
        raise OnRampError("\n".join(f"{name}.toml is not written: {mistake}" for mistake in mistakes)) from e


def _text(name: str, answers: Answers, rate: float, threshold: str) -> str:
    duration = DURATION_S * 100e9 / rate
    traffic = "\n\n".join(TRAFFIC[kind](answers) for kind in answers.traffic)
    until = _time(duration)
    times = f'''warmup = "{until}"           # load before time 0, so that the network is not empty then
duration = "{until}"         # flows that start in this time are measured'''
    if answers.program is not None:
        traffic = _program(answers)
        times = 'duration = "1ms"         # of other traffic; a job runs until it is complete'
    beside = UNORDERED if answers.transport in ("nscc", "rccc") else ""
    network = NETWORKS[answers.network] if answers.topology is None else _file
    return f'''# A scenario by `onramp new`. What it offers: onramp explain {name}.toml
name = "{name}"
seed = 1
{times}

[network]
{network(answers)}

[transport]
kind = "{answers.transport}"
{beside}
# Holds packets at their senders while the one-way delay is above T. `onramp compare` runs with and without.
[onramp]
enabled = {json.dumps(answers.program is None)}
threshold = "{threshold}"

# What is recorded over time; completion times are in any case.
[measure]
queues = []              # ports such as "leaf0->h0"
links = []

{traffic}
'''


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:g}ms" if seconds >= 1e-3 else f"{seconds * 1e6:g}us"
