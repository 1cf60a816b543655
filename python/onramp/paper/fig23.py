"""Figure 23: the throughput of each DCQCN flow of figure 2 (appendix 10.1)."""

from __future__ import annotations

from onramp.paper import fig2, star

EXPERIMENT = star.throughputs(__name__, "DCQCN", fig2.GAINS)
