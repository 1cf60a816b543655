"""Figure 2: DCQCN's queue with a low and a high gain, without and with On-Ramp."""

from __future__ import annotations

from onramp.paper import star

LOW, HIGH = "DCQCN Ti = 55 µs, Td = 50 µs", "DCQCN Ti = 300 µs, Td = 4 µs"
GAINS = {LOW: "fig2-dcqcn-55-50", HIGH: "fig2-dcqcn-300-4"}
USED = star.Used(0.0, star.FULL, f"{HIGH}: the queue underflows and the link is under-utilized")

EXPERIMENT = star.queues(__name__, "DCQCN", GAINS, USED)
