"""Figure 24: twelve long CUBIC flows on Linux."""

from __future__ import annotations

from onramp.paper import flows

EXPERIMENT = flows.experiment(__name__, "Twelve", "cluster-twelve-flows", (0.1, 0.4))
