"""A flow's bytes over time: sent, acknowledged, in flight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from onramp.plots import style
from onramp.scenario import SUBSTRATES
from onramp.summary import Floats
from onramp.tracing import Trace

COLOURS = {"sim": style.LAYERS[0], "linux": style.LAYERS[1]}


def draw(trace: Trace, flow: int) -> Figure:
    """Bytes sent, acknowledged and in flight over time, all substrates over each other."""
    with style.styled():
        return _draw(trace, flow)


def save_all(trace: Trace) -> list[Path]:
    """Write a plot of each flow that has a capture as PNG and SVG; the PNG files."""
    written = []
    for flow in trace.flows:
        if any(c.flow == flow and len(c.packets) for c in trace.captures):
            style.save(draw(trace, flow), trace.folder / f"flow-{flow}")
            written.append(trace.folder / f"flow-{flow}.png")
    return written


def _draw(trace: Trace, flow: int) -> Figure:
    """Two panels, one line per substrate: bytes sent (acknowledged below), and bytes in flight."""
    found = {c.on: c.packets for c in trace.captures if c.flow == flow and c.end == "sender"}
    begin = min(int(p.time_ns[0]) for p in found.values())
    last = max(int(p.time_ns[-1]) for p in found.values()) - begin
    each, unit = (1e3, "µs") if last < 2_000_000 else (1e6, "ms")
    most = max(int(p.sent.max(initial=0)) for p in found.values())
    size, name = (1e3, "KB") if most < 2_000_000 else (1e6, "MB")
    figure, axes = style.panels(2, 1, (7.2, 2.9), sharex=True)
    bytes_, flight = axes
    for on, packets in found.items():
        colour = COLOURS[on]
        x = (packets.time_ns - begin) / each
        # The one drawn first stays visible below the other.
        width = 2.4 if on == "sim" and len(found) > 1 else 1.1
        for ax, values in ((bytes_, packets.sent / size), (flight, packets.in_flight()[1] / 1e3)):
            ax.plot(*_steps(x, values), color=colour, lw=width, alpha=0.9, label=SUBSTRATES[on])
        bytes_.plot(*_steps(x, packets.acked / size), color=colour, lw=0.7, alpha=0.6)
        repeated = packets.retransmitted
        ends = (packets.start + packets.payload)[repeated] / size
        mark, ink = ("|", style.LAYERS[3]) if on == "sim" else ("x", style.INK)
        bytes_.plot(x[repeated], ends, mark, color=ink, ms=5, mew=0.9)
    again = any(p.retransmitted.any() for p in found.values())
    bytes_.set_title(f"Flow {flow}: sent and, thin, acknowledged{'; marks: sent again' if again else ''}")
    bytes_.set_ylabel(name)
    flight.set_title("In flight")
    flight.set_ylabel("KB")
    # Captures of TCP begin with an opening at the arrival, those of RDMA with the first packet.
    begins = "first packet" if any(p.rdma.any() for p in found.values()) else "arrival"
    flight.set_xlabel(f"time since its {begins} ({unit})")
    for ax in axes:
        ax.set_ylim(bottom=0)
    if len(found) > 1:
        figure.legend(*bytes_.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


def _steps(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Each value holds until the next one; at most a few thousand points."""
    return style.envelope(np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1], 3000)
