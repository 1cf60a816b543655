"""Figure 22: the throughput of each TIMELY flow of figure 1 (appendix 10.1)."""

from __future__ import annotations

from onramp.paper import fig1, star

EXPERIMENT = star.throughputs(__name__, "TIMELY", fig1.GAINS)
