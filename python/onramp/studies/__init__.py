"""Studies beside the paper: of what On-Ramp is compared with, or stands on.

Each is a module as those of `onramp.paper` are.
"""

from __future__ import annotations

from onramp.paper import common
from onramp.paper.common import Figure

FIGURES = (
    "swift-incast",
    "swift-large",
    "swift-target",
    "swift-queues",
    "swift-endpoint",
    "rcp-fct",
    "rcp-rate",
    "rcp-stability",
    "pacing-base",
    "pacing-flows",
    "pacing-law",
    "pacing-clustering",
    "pacing-drops",
    "pacing-egress",
    "carousel",
    "irn",
    "transports",
)


def figure(name: str) -> Figure:
    """A study by its name, such as "swift-incast"."""
    return common.find(__name__, FIGURES, name)
