"""Figure 1: TIMELY's queue with a low and a high gain, without and with On-Ramp."""

from __future__ import annotations

from onramp.paper import star

LOW, HIGH = "TIMELY β = 0.2", "TIMELY β = 0.8"
GAINS = {LOW: "fig1-timely-0.2", HIGH: "fig1-timely-0.8"}
USED = star.Used(0.56, 0.66, f"{HIGH}: the queue underflows and the link is under-utilized", "61%")

EXPERIMENT = star.queues(__name__, "TIMELY", GAINS, USED)
