"""On-Ramp where training jobs run: their all-to-all, a tenant beside one, and the checkpoints of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onramp.paper import common
from onramp.paper.common import WITH, WITHOUT, Case, Experiment, Runs, both
from onramp.paper.verdict import Check, Claim, Estimate, estimate, ratio
from onramp.plots import style
from onramp.result import Result

TRANSPORTS: Mapping[str, Mapping[str, object]] = {
    "DCQCN": {"transport.kind": "dcqcn"},
    "HPCC": {"transport.kind": "hpcc"},
    "Swift": {"transport.kind": "swift"},
    # DCQCN's state without a mark is line rate.
    "no CC": {"switch.ecn": []},
}
CONTROLS = [name for name in TRANSPORTS if name != "no CC"]
ALONE, TENANT, CHECKPOINT = "all-to-all", "tenant", "checkpoint"
#: Cases: the job alone, a tenant beside it, checkpoints that it writes.
PARTS = (ALONE, TENANT, CHECKPOINT)
#: Shorter runs with --quick.
QUICK: Mapping[str, Mapping[str, object]] = {
    ALONE: {"traffic.0.repeat": 2},
    TENANT: {"warmup": "1ms", "duration": "4ms", "traffic.0.repeat": 6},
    CHECKPOINT: {"duration": "6ms", "traffic.0.repeat": 7},
}
#: "As fast as without" is read as at most this share longer.
SLOWER = 0.01


def cases(quick: bool) -> list[Case]:
    """Each part with each congestion control, without and with On-Ramp."""
    return [
        case
        for part in PARTS
        for name, transport in TRANSPORTS.items()
        for case in both((part, name), f"training-{part}", {**(QUICK[part] if quick else {}), **transport})
    ]


def job(result: Result) -> float:
    """Mean time of an all-to-all in microseconds."""
    return float(result.summary["collective"]["duration_us"]["mean"])


def requests(result: Result) -> float | None:
    """Mean RCT in microseconds: of the tenant's requests, or of a storage host's part of a checkpoint."""
    mean: float | None = result.summary["incast"]["rct_us"]["mean"]
    return mean


def tail(result: Result) -> float | None:
    """95th percentile of the same."""
    p95: float | None = result.summary["incast"]["rct_us"]["p95"]
    return p95


Measure = Callable[[Result], float | None]


def _times(ax: Axes, runs: Runs, part: str, of: Measure, title: str) -> None:
    width = 0.38
    for i, (side, colour) in enumerate(((WITHOUT, style.WITHOUT), (WITH, style.WITH))):
        values = [estimate(runs[(part, name, side)], of) for name in TRANSPORTS]
        at = np.arange(len(values)) + (i - 0.5) * width
        ax.bar(at, [value.mean for value in values], 0.92 * width, color=colour, label=side)
        half = np.nan_to_num([value.half for value in values])
        mean = [value.mean for value in values]
        ax.errorbar(at, mean, half, fmt="none", ecolor=style.INK, elinewidth=0.9, capsize=2)
    ax.set_xticks(range(len(TRANSPORTS)), list(TRANSPORTS))
    ax.tick_params(axis="x", length=0)
    ax.set_title(title, fontsize=9)
    ax.set_ylabel("µs")


def draw(runs: Runs) -> Figure:
    """Times of all-to-alls, and of the requests beside them."""
    figure, axes = style.panels(1, 5, (2.5, 2.6))
    _times(axes[0], runs, ALONE, job, "job alone: all-to-all")
    _times(axes[1], runs, TENANT, job, "beside a tenant: all-to-all")
    _times(axes[2], runs, TENANT, requests, "the tenant's mean RCT")
    _times(axes[3], runs, CHECKPOINT, job, "with checkpoints: all-to-all")
    _times(axes[4], runs, CHECKPOINT, requests, "mean time of a checkpoint")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8.5)
    return figure


def _claim(
    runs: Runs,
    part: str,
    control: str,
    statement: str,
    criterion: str,
    of: Mapping[str, Measure],
    check: Callable[[Estimate], Check],
) -> Claim:
    """Claim about values with On-Ramp over those without."""
    values = [
        ratio(runs[(part, control, WITH)], runs[(part, control, WITHOUT)], measure) for measure in of.values()
    ]
    said = ", ".join(f"{value.text('×')} {what}" for what, value in zip(of, values, strict=True))
    return Claim(f"{control}: {statement}", criterion, said, tuple(map(check, values)), of_paper=False)


def claims(runs: Runs) -> list[Claim]:
    """Expectations of our own: the job is not slower, and what shares its network is faster."""
    same = f"mean time with over without at most {1 + SLOWER:g}"
    faster = "mean and 95th percentile of RCT with over without, each below 1"
    rct: Mapping[str, Measure] = {"mean": requests, "p95": tail}
    within: Mapping[str, Measure] = {"mean": job}

    def slower(x: Estimate) -> Check:
        return x.at_most(1 + SLOWER)

    def below(x: Estimate) -> Check:
        return x.below(1)

    found = []
    for control in CONTROLS:
        found += [
            _claim(runs, ALONE, control, "a job alone is not slower", same, within, slower),
            _claim(runs, TENANT, control, "a tenant's requests are faster", faster, rct, below),
            _claim(runs, TENANT, control, "the job beside them is not slower", same, within, slower),
            _claim(runs, CHECKPOINT, control, "checkpoints are faster", faster, rct, below),
            _claim(runs, CHECKPOINT, control, "the job that writes them is not slower", same, within, slower),
        ]
    for control in CONTROLS:
        without, with_ = (runs[(TENANT, control, side)] for side in (WITHOUT, WITH))
        found.append(common.steady(f"{control}, beside a tenant", without, with_, "RCT of the tenant"))
    alone, dcqcn = ((CHECKPOINT, name, side) for name, side in (("no CC", WITH), ("DCQCN", WITHOUT)))
    times = [ratio(runs[alone], runs[dcqcn], of) for of in (requests, job)]
    found.append(
        Claim(
            "On-Ramp without congestion control does better than DCQCN without On-Ramp",
            f"checkpoints' mean RCT over DCQCN's below 1, the all-to-all's time at most {1 + SLOWER:g}",
            f"{times[0].text('×')} RCT, {times[1].text('×')} all-to-all",
            (times[0].below(1), slower(times[1])),
            of_paper=False,
        )
    )
    return found


EXPERIMENT = Experiment(
    __name__, ("sim",), "Training jobs: all-to-all, a tenant beside one, checkpoints", cases, draw, claims
)
