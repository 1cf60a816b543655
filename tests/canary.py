"""A rollout on the Linux cluster: real agents, kernels and TCP, and the requests that operators do not see.

`python tests/canary.py [SECONDS [GUARD]]` prints what `onrampctl rollout` says, and RCT by phase.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import cluster
from onramp import testbed

HOSTS = 8
STEPS = ("25%", "50%", "100%")
#: The fleet is synchronised.
BEGIN_S = 3


def scenario(phase_s: int) -> dict[str, Any]:
    """WebSearch and incasts of all other hosts, as long as a rollout with such phases."""
    return {
        "name": "canary",
        "duration": f"{BEGIN_S + phase_s * (len(STEPS) + 1) + 10}s",
        "network": {"kind": "star", "hosts": HOSTS, "host_rate": "100Mbps"},
        "transport": {"kind": "cubic"},
        "onramp": {"threshold": "2ms", "max_pause": "20ms"},
        "clock": {"sync": "huygens", "stamps": "hardware", "window": "500ms", "probe_interval": "10ms"},
        "linux": {"buffer_packets": 200},
        "traffic": [
            {"kind": "background", "workload": "WebSearch", "load": 0.4},
            {"kind": "incast", "fan_out": HOSTS - 1, "size": "10KB", "load": 0.1},
        ],
    }


def rolled_out(folder: Path, phase_s: int, guard: str) -> cluster.Played:
    """Play it; hosts follow the fleet's policy from the beginning, and there is none."""
    program = testbed.agent()
    assert program is not None
    client = cluster.seen(program.resolve().with_name("onrampctl"))
    follow = [
        f"h{h}: sed -i '/^mode/d' /run/onramp/{h}.toml; kill -HUP $(cat /run/onramp/{h}.pid)"
        for h in range(HOSTS)
    ]
    rollout = f"{client} rollout --config /run/onramp/0.toml --steps {','.join(STEPS)} --for {phase_s}s"
    command = f"h0: sleep {BEGIN_S}; {rollout} --guard '{guard}' 2>&1; echo exit status $?"
    return cluster.play(folder, scenario(phase_s), *follow, command)


def main(phase_s: int, guard: str) -> None:
    """Print what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        played = rolled_out(Path(folder), phase_s, guard)
    print(played.said[-1])
    began_s, rct_ms = played.requests["start_ps"] / 1e12 - BEGIN_S, played.requests["rct_ps"] / 1e9
    print("| phase | requests | RCT, mean | p99 |\n| --- | --- | --- | --- |")
    for phase, name in enumerate(("before", *STEPS, "after")):
        took = rct_ms[(began_s >= phase * phase_s) & (began_s < (phase + 1) * phase_s)]
        if len(took):
            print(f"| {name} | {len(took)} | {np.mean(took):.1f} ms | {np.percentile(took, 99):.0f} ms |")


if __name__ == "__main__":
    words = dict(enumerate(sys.argv))
    main(int(words.get(1, "40")), words.get(2, "owd p99 < 1.0x"))
