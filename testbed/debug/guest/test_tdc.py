"""The qdisc's tests in the form of the kernel's own, run by the kernel's own runner."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).parents[3] / "datapath" / "tdc" / "onramp.json"


def test(kind: str) -> str:
    # The runner's own place for what differs from machine to machine.
    settings = Path("/run/tdc")
    settings.mkdir()
    (settings / "tdc_config_local.py").write_text(
        f"ENVIR = {{'TC_LIB_DIR': {os.environ['TC_LIB_DIR']!r}, 'PATH': {os.environ['PATH']!r}}}\n"
        "EXTRA_NAMES = {'TIMEOUT': 120}\n"
    )
    done = subprocess.run(
        [sys.executable, "tdc.py", "-f", CASES, "--outfile", "/run/tdc/results", "--format", "tap"],
        cwd=f"{os.environ['SHARE']}/tc-testing",
        env={**os.environ, "PYTHONPATH": str(settings), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    results = Path("/run/tdc/results").read_text() if Path("/run/tdc/results").exists() else ""
    good = len(re.findall(r"^ok (?!.*skip)", results, re.M | re.I))
    planned = re.search(r"^1\.\.(\d+)", results, re.M)
    if not planned or good != int(planned[1]):
        print(done.stdout, results)
        raise AssertionError(f"{good} of {planned[1] if planned else 'no'} cases held")
    return f"{good} cases"
