"""DCTCP's queue, its marking threshold, and its incast (Alizadeh et al., SIGCOMM'10)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate, percent, ratio
from onramp.plots import style
from onramp.result import Result
from onramp.studies import port

DCTCP, TCP, HELD = "DCTCP", "TCP", "TCP + On-Ramp"
#: TCP is NewReno with SACK; T is an empty path's delay and the queue at which switches mark.
SYSTEMS: Mapping[str, Mapping[str, object]] = {
    DCTCP: {},
    TCP: {"transport.kind": "newreno"},
    HELD: {"transport.kind": "newreno", "onramp.enabled": True, "onramp.threshold": "320us"},
}

#: Bytes of a full packet on the wire.
PACKET = 1514
#: Packets at which a port marks, by rate in Gb/s (§3.4).
MARKS = {1: 20, 10: 65}
#: Marks at 10 Gb/s: below and above C·RTT/7 (eq. 13), which is 13 packets at 110 µs, and as stated.
THRESHOLDS = (2, 20, MARKS[10])

#: Servers that answer with 1 MB together.
SERVERS = (5, 10, 20, 30, 35, 40)
#: 35 servers with two packets each are 105 KB, more than a port has room for.
MOST = 35
TOGETHER = 1_000_000

#: "The same or better throughput" is read as at least this share.
SAME = 0.98


def cases(quick: bool) -> list[Case]:
    """Long flows at 1 Gb/s and, over the threshold, at 10; incasts over the number of servers."""
    span = {"warmup": "200ms", "duration": "100ms"} if quick else {}
    found = [Case(("1 Gb/s", system), "dctcp-flows", {**span, **more}) for system, more in SYSTEMS.items()]
    fast = {"network.host_rate": "10Gbps", "linux.buffer": "4MB", **span}
    for packets in THRESHOLDS:
        size = f"{packets * PACKET}B"
        marks = [{"rate": "10Gbps", "kmin": size, "kmax": size, "pmax": 1}]
        found.append(Case(("10 Gb/s", str(packets)), "dctcp-flows", {**fast, "switch.ecn": marks}))
    found.append(Case(("10 Gb/s", TCP), "dctcp-flows", {**fast, **SYSTEMS[TCP], "switch.ecn": []}))
    short = {"duration": "200ms"} if quick else {}
    for servers in SERVERS:
        asked: dict[str, object] = {
            "traffic.0.workers": [f"h{i + 1}" for i in range(servers)],
            "traffic.0.answer": f"{TOGETHER // servers}B",
        }
        for system, more in SYSTEMS.items():
            found.append(Case((str(servers), system), "dctcp-incast", {**asked, **more, **short}))
    return found


def queue(result: Result) -> np.ndarray:
    """Packets waiting at the port, by samples, shape (n,)."""
    return np.asarray(result.samples(f"queue {port.PORT}", measured=True)[1]) / PACKET


def took(result: Result) -> float | None:
    """Mean of a query's time in milliseconds."""
    mean = result.summary["partition-aggregate"]["latency_us"]["mean"]
    return None if mean is None else float(mean) / 1e3


def timeouts(result: Result) -> float:
    """RTOs a query."""
    queries = result.summary["partition-aggregate"]["exchanges"]
    return float(result.summary["network"]["timeouts"] / max(1, queries))


def draw(runs: Runs) -> Figure:
    """Queue at 1 Gb/s; time and timeouts of queries over the number of servers."""
    figure, axes = style.panels(1, 3, (3.4, 2.8))
    for system in SYSTEMS:
        pooled = np.sort(np.concatenate([queue(r) for r in runs["1 Gb/s", system]]))
        axes[0].step(pooled, np.arange(1, len(pooled) + 1) / len(pooled), lw=1.4, label=system)
        for ax, of in ((axes[1], took), (axes[2], timeouts)):
            values = [estimate(runs[str(n), system], of) for n in SERVERS]
            half = np.nan_to_num([v.half for v in values])
            ax.errorbar(SERVERS, [v.mean for v in values], half, fmt="o-", ms=3, lw=1.3, capsize=2)
    axes[0].set_title("queue at 1 Gb/s (packets), share of time", fontsize=9)
    axes[1].set_title("mean time of a query (ms)", fontsize=9)
    axes[2].set_title("RTOs a query", fontsize=9)
    for ax in axes[1:]:
        ax.set_xlabel("servers")
        ax.set_ylim(bottom=0)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """The abstract, sections 3.3, 3.4, 4.1 and 4.2.1."""
    dctcp, tcp = runs["1 Gb/s", DCTCP], runs["1 Gb/s", TCP]
    used = [estimate(results, port.utilization) for results in (dctcp, tcp)]
    waiting = [estimate(results, lambda r: float(queue(r).mean())) for results in (dctcp, tcp)]
    high = estimate(dctcp, lambda r: float(np.percentile(queue(r), 95)))
    marks = MARKS[1]
    found = [
        Claim(
            "1 Gb/s: DCTCP has the same throughput as TCP",
            f"at least {SAME:.0%} of it",
            f"{used[0].text('', 100)} to {used[1].text('% of the link', 100)}",
            (used[0].over(used[1]).at_least(SAME),),
        ),
        percent(
            f"1 Gb/s: DCTCP takes less buffer ({waiting[0].text()} to {waiting[1].text()} packets)",
            waiting[0].over(waiting[1]).each(lambda x: 100 * (1 - x)),
            90.0,
        ),
        Claim(
            "1 Gb/s: DCTCP's queue stays around the threshold",
            f"95th percentile {marks / 2:g} to {1.5 * marks:g} packets",
            high.text(" packets"),
            (high.between(marks / 2, 1.5 * marks),),
            f"K = {marks}",
        ),
    ]
    fast = {n: estimate(runs["10 Gb/s", str(n)], port.utilization) for n in THRESHOLDS}
    alone = estimate(runs["10 Gb/s", TCP], port.utilization)
    for packets, why in ((MARKS[10], "as stated"), (20, "above C·RTT/7")):
        found.append(
            Claim(
                f"10 Gb/s: K = {packets} packets, {why}, loses no throughput",
                f"at least {SAME:.0%} of TCP's",
                f"{fast[packets].text('', 100)} to {alone.text('% of the link', 100)}",
                (fast[packets].over(alone).at_least(SAME),),
            )
        )
    least = THRESHOLDS[0]
    found.append(
        Claim(
            f"10 Gb/s: K = {least} packets, below C·RTT/7, loses throughput",
            f"less than with K = {MARKS[10]}",
            f"{fast[least].text('', 100)} to {fast[MARKS[10]].text('% of the link', 100)}",
            (fast[least].over(fast[MARKS[10]]).below(1),),
        )
    )
    return [*found, *_incasts(runs)]


def _incasts(runs: Runs) -> list[Claim]:
    """Section 4.2.1, and On-Ramp below TCP in place of marks."""
    few = [n for n in SERVERS if n <= MOST]
    none = {n: estimate(runs[str(n), DCTCP], timeouts) for n in few}
    beyond = estimate(runs[str(SERVERS[-1]), DCTCP], timeouts)
    found = [
        Claim(
            f"DCTCP has no timeouts up to {MOST} servers",
            "none",
            ", ".join(f"{e.text()} a query with {n}" for n, e in none.items()),
            tuple(e.at_most(0) for e in none.values()),
        ),
        Claim(
            f"with more than {MOST} servers DCTCP has timeouts: two packets of each do not fit",
            f"more than none with {SERVERS[-1]}",
            beyond.text(" a query"),
            (beyond.above(0),),
        ),
    ]
    several = (20, 30, MOST)
    found += [_faster(runs, n, DCTCP, "DCTCP is faster than TCP", of_paper=True) for n in several]
    found += [_faster(runs, n, HELD, "On-Ramp helps TCP", of_paper=False) for n in several]
    return found


def _faster(runs: Runs, servers: int, system: str, statement: str, *, of_paper: bool) -> Claim:
    """That queries take less time than with TCP alone."""
    own, tcp = runs[str(servers), system], runs[str(servers), TCP]
    return Claim(
        f"{servers} servers: {statement}",
        "mean time of a query, TCP's over it, above 1",
        f"{ratio(tcp, own, took).text('×')}, {estimate(own, timeouts).text(' RTOs a query')}",
        (ratio(tcp, own, took).above(1),),
        of_paper=of_paper,
    )


EXPERIMENT = Experiment(
    __name__,
    ("sim", "linux"),
    "DCTCP: queue and throughput of long flows, and incasts of 1 MB",
    cases,
    draw,
    claims,
)
