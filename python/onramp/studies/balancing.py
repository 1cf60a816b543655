"""How an all-reduce crosses racks: ECMP and queue pairs, flowlets, spraying, REPS; links that fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, Estimate, estimate, factor, ratio
from onramp.plots import style
from onramp.result import Result
from onramp.studies.collectives import bandwidth, bars, iteration

FILE = "balancing"
#: Queues trim, and receivers take packets in any order.
UNORDERED: Mapping[str, object] = {
    "host.recovery": {"kind": "rud"},
    "switch.loss": "lossy",
    "switch.trim": "64B",
    "switch.ack_class": "control",
}
NSCC: Mapping[str, object] = {**UNORDERED, "transport": {"kind": "nscc"}}
SPRAYED: Mapping[str, object] = {"host.entropy": {"kind": "spray"}}
RECYCLED: Mapping[str, object] = {"host.entropy": {"kind": "reps"}}
MANY: Mapping[str, object] = {"traffic.0.queue_pairs": 16}

SYSTEMS: Mapping[str, Mapping[str, object]] = {
    "DCQCN, 1 QP": {},
    "DCQCN, 4 QPs": {"traffic.0.queue_pairs": 4},
    "DCQCN, 16 QPs": MANY,
    "DCQCN, flowlets": {"switch.paths": {"kind": "flowlet"}},
    "DCQCN, sprayed": {**UNORDERED, **SPRAYED},
    "NSCC, 1 QP": NSCC,
    "NSCC, 16 QPs": {**NSCC, **MANY},
    "NSCC, sprayed": {**NSCC, **SPRAYED},
    "NSCC, REPS": {**NSCC, **RECYCLED},
}
ONE, _, SIXTEEN, FLOWLETS, DCQCN_SPRAYED, NSCC_ONE, NSCC_SIXTEEN, NSCC_SPRAYED, REPS = SYSTEMS
HELD = "DCQCN, 1 QP, On-Ramp"
#: Four of a leaf's 64 links to spines fail while the job runs; switches notice after 5 ms.
FAULTS = [{"link": f"leaf0->spine{i}", "start": "500us", "reroute": "5ms"} for i in range(4)]
ALL_LINKS, FOUR_FAIL = "all links", "four links fail"
FAILING = (SIXTEEN, NSCC_SIXTEEN, NSCC_SPRAYED, REPS)


def cases(quick: bool) -> list[Case]:
    """Every way to choose paths, some of them while links fail."""
    short = {"traffic.0.size": "16MiB"} if quick else {}
    found = [Case((ALL_LINKS, name), FILE, {**short, **own}) for name, own in SYSTEMS.items()]
    found.append(Case((ALL_LINKS, HELD), FILE, {**short, "onramp.enabled": True}))
    failing = {**short, "network.faults": FAULTS}
    return [*found, *(Case((FOUR_FAIL, name), FILE, {**failing, **SYSTEMS[name]}) for name in FAILING)]


def draw(runs: Runs) -> Figure:
    """Bandwidth and the slowest group's time, and the latter where links fail."""
    figure, axes = style.panels(1, 3, (3.6, 3.0))
    healthy = [*SYSTEMS, HELD]
    of: tuple[tuple[str, list[str], Callable[[Result], float], str], ...] = (
        (ALL_LINKS, healthy, bandwidth, "bandwidth on the bus (GB/s)"),
        (ALL_LINKS, healthy, iteration, "the slowest group's time (ms)"),
        (FOUR_FAIL, list(FAILING), iteration, "the same, four links fail (ms)"),
    )
    for ax, (state, names, measure, title) in zip(axes, of, strict=True):
        colours = [style.WITHOUT if name.startswith("DCQCN") else style.WITH for name in names]
        bars(ax, {name: estimate(runs[(state, name)], measure) for name in names}, title, colours)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Meta's queue pairs (SIGCOMM'24), REPS (2024), and what On-Ramp does where flows collide."""

    def gain(state: str, first: str, second: str, of: Callable[[Result], float] = iteration) -> Estimate:
        return ratio(runs[(state, first)], runs[(state, second)], of)

    scaled = gain(ALL_LINKS, SIXTEEN, ONE, bandwidth)
    same, better = gain(ALL_LINKS, NSCC_SPRAYED, REPS), gain(ALL_LINKS, NSCC_ONE, REPS)
    spray, ecmp = gain(FOUR_FAIL, NSCC_SPRAYED, REPS), gain(FOUR_FAIL, NSCC_SIXTEEN, REPS)
    flowlets = gain(ALL_LINKS, FLOWLETS, SIXTEEN)
    lost = ratio(runs[(FOUR_FAIL, REPS)], runs[(ALL_LINKS, REPS)], iteration)
    held = gain(ALL_LINKS, ONE, HELD)
    return [
        Claim(
            "16 queue pairs raise an all-reduce's bandwidth over one",
            "16 over 1, DCQCN, ECMP: from 1.2 to 1.6 times",
            scaled.text("×"),
            (scaled.between(1.2, 1.6),),
            "up to 40%",
        ),
        Claim(
            "REPS is faster than ECMP where all links are there",
            "the slowest group's time with one queue pair over that with REPS, NSCC: above 1",
            better.text("×"),
            (better.above(1),),
        ),
        factor(
            "REPS is up to 6 times as fast as ECMP where all links are there", better, 6.0, of="the same:"
        ),
        Claim(
            "REPS is not slower than spraying where all links are there",
            "time with spraying over that with REPS, NSCC: at least 0.99",
            same.text("×"),
            (same.at_least(0.99),),
        ),
        Claim(
            "REPS is faster than spraying where links fail",
            "time with spraying over that with REPS, NSCC: above 1",
            spray.text("×"),
            (spray.above(1),),
        ),
        factor("REPS is up to 2 times as fast as spraying where links fail", spray, 2.0, of="the same:"),
        Claim(
            "REPS is faster than ECMP where links fail",
            "time with 16 queue pairs over that with REPS, NSCC: above 1",
            ecmp.text("×"),
            (ecmp.above(1),),
        ),
        factor("REPS is up to 5 times as fast as ECMP where links fail", ecmp, 5.0, of="the same:"),
        Claim(
            "REPS loses little where links fail",
            "time over that with all links: at most 64/60, the links' share, times 1.05",
            lost.text("×"),
            (lost.at_most(64 / 60 * 1.05),),
            of_paper=False,
        ),
        Claim(
            "flowlets do not do for queue pairs",
            "time with flowlets over that with 16 queue pairs: above 1",
            flowlets.text("×"),
            (flowlets.above(1),),
            of_paper=False,
        ),
        Claim(
            "On-Ramp helps where flows collide",
            "time with one queue pair without On-Ramp over that with it: above 1",
            held.text("×"),
            (held.above(1),),
            of_paper=False,
        ),
    ]


EXPERIMENT = Experiment(
    __name__,
    ("sim",),
    "An all-reduce across racks: queue pairs, flowlets, spraying, REPS",
    cases,
    draw,
    claims,
)
