"""NICs with several ports: HPN's rails and lost link, MRC's lost plane, the victim of an incast."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from onramp.paper.common import Case, Experiment, Runs
from onramp.paper.verdict import Claim, estimate, factor, ratio
from onramp.plots import style
from onramp.result import Result
from onramp.studies.collectives import bandwidth, bars, iteration

#: Parts: all-reduces on two networks, a job that loses a link, a ring that loses a plane, the victim.
HPN, LINK, RING, VICTIM = "planes-hpn", "planes-link", "planes-ring", "planes-victim"
RAILS, RACKS = "rails, two planes (HPN)", "racks, dual ToR (DCN+)"
DUAL, DUAL_LOST, SINGLE_LOST = "two ToRs, all links", "two ToRs, a link lost", "one ToR, a link lost"
ADAPTIVE, REPS = "shortest queue", "REPS"
ALL, LOST, SILENT = "all planes", "one of eight lost", "lost, nobody knows"
NSCC, ONE_QP = "NSCC on eight planes", "DCQCN, one QP"
ALONE, BESIDE = "alone", "beside a 7:1 incast"

#: DCN+: a leaf for all GPUs of 16 servers, its planes share their spines.
DCN: Mapping[str, object] = {
    "network.wiring": "racks",
    "network.segment": 16,
    "network.shared_spines": True,
}
#: The first server loses a link while the second iteration computes; its NIC and switches know after 1 ms.
FAULT: Mapping[str, object] = {"link": "nic0->leaf0", "start": "60ms", "reroute": "1ms"}
SINGLE: Mapping[str, object] = {
    "network.planes": 1,
    "network.bond": False,
    "network.host_rate": "400Gbps",
    "network.faults": [{"link": "h0->leaf0", "start": "60ms"}],
    "time_limit": "300ms",
}
DCQCN: Mapping[str, object] = {
    "network.planes": 1,
    "network.bond": False,
    "network.host_rate": "800Gbps",
    "network.fabric_rate": "800Gbps",
    "transport": {"kind": "dcqcn"},
    "switch": {},
    "host.entropy": {"kind": "flow"},
}
CHOICES: Mapping[str, Mapping[str, object]] = {
    ADAPTIVE: {"switch.paths": {"kind": "adaptive"}, "host.entropy": {"kind": "spray"}},
    REPS: {},
}
PLANES: Mapping[str, Mapping[str, object]] = {
    ALL: {},
    LOST: {"network.failed": ["nic0->leaf0"]},
    SILENT: {"network.faults": [{"link": "nic0->leaf0", "start": "300us"}]},
}
FILES: Mapping[str, Mapping[str, object]] = {
    ALONE: {"traffic.0.file": "planes-alone.csv"},
    BESIDE: {},
}


def cases(quick: bool) -> list[Case]:
    """All parts."""
    small = {"traffic.0.size": "16MiB"} if quick else {}
    found = [Case((HPN, name), HPN, {**small, **own}) for name, own in ((RAILS, {}), (RACKS, DCN))]
    faults: Mapping[str, Mapping[str, object]] = {
        DUAL: {},
        DUAL_LOST: {"network.faults": [FAULT]},
        SINGLE_LOST: SINGLE,
    }
    found += [Case((LINK, name), LINK, {**small, **own}) for name, own in faults.items()]
    found += [
        Case((RING, choice, planes), RING, {**small, **CHOICES[choice], **PLANES[planes]})
        for choice, planes in ((ADAPTIVE, ALL), (ADAPTIVE, LOST), (REPS, ALL), (REPS, LOST), (REPS, SILENT))
    ]
    found += [
        Case((VICTIM, name, file), VICTIM, {**own, **FILES[file]})
        for name, own in ((NSCC, CHOICES[ADAPTIVE]), (ONE_QP, DCQCN))
        for file in FILES
    ]
    return found


def done(result: Result) -> float:
    """All-reduces that are complete."""
    return float(result.collectives.num_rows)


def victim(result: Result) -> float:
    """Goodput of the flow from the eighth host in GB/s."""
    flows = result.flows.to_pylist()
    return next(float(1e3 * flow["bytes"] / flow["fct_ps"]) for flow in flows if flow["dst"] == 9)


def draw(runs: Runs) -> Figure:
    """A panel for each part."""
    figure, axes = style.panels(2, 2, (4.6, 1.9))
    of: tuple[tuple[str, Callable[[Result], float], str], ...] = (
        (HPN, iteration, "448 GPUs: slowest all-reduce (ms)"),
        (LINK, done, "256 GPUs: all-reduces done, of 32"),
        (RING, bandwidth, "32 hosts, 8 planes: bus (GB/s)"),
        (VICTIM, victim, "an incast's victim: goodput (GB/s)"),
    )
    for ax, (part, measure, title) in zip(axes, of, strict=True):
        keys = [key for key in runs if key[0] == part]
        values = {", ".join(map(str, key[1:])): estimate(runs[key], measure) for key in keys}
        bars(ax, values, title, style.WITH)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """HPN (SIGCOMM'24), MRC (OCP, 2026), and what was found on the way."""
    gain = ratio(runs[(HPN, RACKS)], runs[(HPN, RAILS)], iteration)
    dual, single = (estimate(runs[(LINK, name)], done) for name in (DUAL_LOST, SINGLE_LOST))
    slower = ratio(runs[(LINK, DUAL_LOST)], runs[(LINK, DUAL)], iteration)
    lost = {
        choice: ratio(runs[(RING, choice, LOST)], runs[(RING, choice, ALL)], bandwidth) for choice in CHOICES
    }
    silent = ratio(runs[(RING, REPS, SILENT)], runs[(RING, REPS, ALL)], bandwidth)
    left = {
        name: ratio(runs[(VICTIM, name, BESIDE)], runs[(VICTIM, name, ALONE)], victim)
        for name in (NSCC, ONE_QP)
    }
    return [
        Claim(
            "eight all-reduces at a time among 448 GPUs are faster on HPN than on DCN+",
            "the slowest one's time on DCN+ over that on HPN: above 1",
            gain.text("×"),
            (gain.above(1),),
        ),
        factor("their bandwidth is up to 158% higher", gain, 2.58, of="the same:"),
        Claim(
            "a job with two ToRs goes on when a NIC loses a link",
            "all-reduces of 32 that complete: all",
            dual.text(),
            (dual.at_least(32),),
        ),
        Claim(
            "with one ToR it stops",
            "all-reduces of 32 that complete: at most 31",
            single.text(),
            (single.at_most(31),),
        ),
        Claim(
            "the lost link costs some percent of an iteration",
            "iterations, 40 ms of which are computation, over those with all links: from 1 to 1.125 times",
            slower.text("×"),
            (slower.between(1, 1.125),),
            "6.25% of its job's throughput",
        ),
        Claim(
            "where packets take the shortest queue, seven of eight planes carry seven eighths",
            "bandwidth over that with all: from 0.85 to 0.90",
            lost[ADAPTIVE].text("×"),
            (lost[ADAPTIVE].between(0.85, 0.90),),
            "87.5%",
        ),
        Claim(
            "REPS loses no more",
            "the same with REPS: at least 0.85",
            lost[REPS].text("×"),
            (lost[REPS].at_least(0.85),),
            of_paper=False,
        ),
        Claim(
            "REPS alone finds the planes that are left",
            "bandwidth over that with all, neither NIC nor switches know: at least 0.7",
            silent.text("×"),
            (silent.at_least(0.7),),
            of_paper=False,
        ),
        Claim(
            "an incast takes nothing from a flow to another host, NSCC on eight planes",
            "goodput beside the incast over that alone: at least 0.98",
            left[NSCC].text("×"),
            (left[NSCC].at_least(0.98),),
            "none",
        ),
        Claim(
            "DCQCN with one queue pair loses by it",
            "the same: below 1",
            left[ONE_QP].text("×"),
            (left[ONE_QP].at_most(0.999),),
            "25% less",
        ),
    ]


EXPERIMENT = Experiment(
    __name__,
    ("sim",),
    "NICs with several ports: lost links and planes, an incast's victim",
    cases,
    draw,
    claims,
)
