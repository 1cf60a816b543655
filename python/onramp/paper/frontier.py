"""Not in the paper: what T and the rate of OR-ACKs cost large flows, and what they give requests."""

from __future__ import annotations

from matplotlib.figure import Figure

from onramp.paper import cluster
from onramp.paper.common import WITH, WITHOUT, Case, Experiment, Key, Runs
from onramp.paper.verdict import Claim, Estimate, ratio
from onramp.plots import style

SMALLER: dict[str, object] = {"network.hosts": 24, "traffic.1.fan_out": 20}
CONTROLS = {"cubic": "CUBIC", "bbr": "BBR", "dctcp-tcp": "DCTCP"}
LOADS = (0.4, 0.6, 0.8)
#: T in microseconds, the default first.
THRESHOLDS = (50, 75, 100)
#: Here a larger T, too, `fq`, and OR-ACKs without a least time between them.
MORE, LARGER, FQ, FEW = ("cubic", 0.6), 150, "fq", (50, 100)
#: "Large flows lose nothing" is read as at most this.
LOSS = 0.01


def _thresholds(cc: str, load: float) -> tuple[int, ...]:
    return (*THRESHOLDS, LARGER) if (cc, load) == MORE else THRESHOLDS


def _at(cc: str, load: float, what: int | str) -> Key:
    """With a T, or without On-Ramp."""
    return (cc, f"{load:.0%}", f"T = {what} µs" if isinstance(what, int) else what)


def _often(t: int) -> Key:
    return (*_at(*MORE, t), "no gap")


def cases(quick: bool) -> list[Case]:
    """Every congestion control and load without On-Ramp, and with it for every T."""
    found = []

    def add(key: Key, side: str, cc: str, load: float, changes: dict[str, object]) -> None:
        of = {**SMALLER, "transport.kind": cc, "traffic.0.load": load}
        found.append(cluster.one(key, side, quick, {**of, **changes}))

    for cc in CONTROLS:
        for load in LOADS:
            add(_at(cc, load, WITHOUT), WITHOUT, cc, load, {})
            for t in _thresholds(cc, load):
                add(_at(cc, load, t), WITH, cc, load, {"onramp.threshold": f"{t}us"})
    add(_at(*MORE, FQ), WITHOUT, *MORE, {"linux.qdisc": "fq"})
    for t in FEW:
        add(_often(t), WITH, *MORE, {"onramp.threshold": f"{t}us", "linux.or_ack_gap": "0us"})
    return found


def _slower(runs: Runs, cc: str, load: float, key: Key) -> Estimate:
    return ratio(runs[key], runs[_at(cc, load, WITHOUT)], cluster.fct("large"))


def draw(runs: Runs) -> Figure:
    """Mean and p99 of requests over how On-Ramp changes the mean of large flows; the first T is a ring."""
    figure, axes = style.panels(2, len(CONTROLS), (3.0, 2.5))
    panels = [(cc, statistic) for statistic in ("mean", "p99") for cc in CONTROLS]
    for ax, (cc, statistic) in zip(axes, panels, strict=True):
        for i, load in enumerate(LOADS):
            lines = {f"{load:.0%} load": [_at(cc, load, t) for t in _thresholds(cc, load)]}
            if cc == MORE[0] and load == MORE[1]:
                lines[f"{load:.0%}, an OR-ACK for every 16 KiB"] = [_often(t) for t in FEW]
            for (label, keys), dashes in zip(lines.items(), ("-", ":"), strict=False):
                x = [100 * _slower(runs, cc, load, key).mean - 100 for key in keys]
                y = [cluster.mean_of(runs[key], cluster.rct(statistic)) or 0 for key in keys]
                ax.plot(x, y, dashes, marker="o", ms=3, lw=1.2, color=style.LAYERS[i], label=label)
                ax.plot(x[0], y[0], "o", ms=6, mfc="white", color=style.LAYERS[i])
        ax.axvline(0, color=style.INK, lw=0.8, ls=":")
        ax.set_title(f"{CONTROLS[cc]}, T = {THRESHOLDS[0]} µs (ring) and more")
        ax.set_xlabel("large flows' FCT, change (%)")
        ax.set_ylabel(f"{statistic} RCT (µs)")
        ax.margins(x=0.1, y=0.1)
        ax.set_ylim(bottom=0)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return figure


def claims(runs: Runs) -> list[Claim]:
    """Claims that the defaults rest on."""
    found = []
    default = THRESHOLDS[0]
    for cc, name in CONTROLS.items():
        for load in LOADS:
            slower = _slower(runs, cc, load, _at(cc, load, default))
            found.append(
                Claim(
                    f"{name} at {load:.0%}: with the defaults large flows are not slower than without",
                    f"mean FCT at most {1 + LOSS:g} times",
                    slower.text("×"),
                    (slower.at_most(1 + LOSS),),
                    of_paper=False,
                )
            )
    paced = ratio(runs[_at(*MORE, default)], runs[_at(*MORE, FQ)], cluster.fct("large"))
    found.append(
        Claim(
            "CUBIC at 60%: with the defaults large flows are not slower than with `fq`, which paces too",
            f"mean FCT at most {1 + LOSS:g} times",
            paced.text("×"),
            (paced.at_most(1 + LOSS),),
            of_paper=False,
        )
    )
    for statistic in ("mean", "p99"):
        more = ratio(runs[_at(*MORE, default)], runs[_often(default)], cluster.rct(statistic))
        found.append(
            Claim(
                f"CUBIC at 60%: {statistic} RCT is near that with an OR-ACK for every 16 KiB",
                "at most 1.2 times",
                more.text("×"),
                (more.at_most(1.2),),
                of_paper=False,
            )
        )
    return found


EXPERIMENT = Experiment(
    __name__,
    ("linux", "sim"),
    "RCT against the FCT of large flows, over T and the rate of OR-ACKs",
    cases,
    draw,
    claims,
)
