"""Figure 5: two long CUBIC flows on Linux."""

from __future__ import annotations

from onramp.paper import flows

EXPERIMENT = flows.experiment(__name__, "Two", "cluster-two-flows", (0.12, 0.3))
