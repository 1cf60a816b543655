"""Round trips of packets as `measure.rtt` records them: from leaving to being acknowledged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onramp.paper.verdict import Estimate, estimate
from onramp.result import Result
from onramp.summary import Floats


def percentile(results: Sequence[Result], which: str, section: int = 0) -> Estimate:
    """Of a traffic section in microseconds: "p50", "p99" or "p999"."""
    return estimate(results, lambda r: float(r.summary["rtt_us"][section][which]))


def distribution(results: Sequence[Result], section: int = 0) -> tuple[Floats, Floats]:
    """Percentiles in microseconds, means over runs, and the share up to each, both shape (109,)."""
    own = np.array([r.summary["rtt_us"][section]["percentiles"] for r in results])
    return own[:, :, 1].mean(axis=0), own[0, :, 0] / 100
