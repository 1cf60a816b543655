"""One run in a process of its own: `python -m onramp.worker`.

Reads one JSON line {"text", "base", "on", "folder", "digest"} and writes one JSON line per step; the last one
holds either "summary" or "error" with "exit_code". SIGTERM stops it, with the results so far.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from onramp.engine import Status, Stop, Watch, execute
from onramp.errors import OnRampError, RunError
from onramp.scenario import Scenario


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    """Run what standard input asks for."""
    job = json.loads(sys.stdin.readline())
    scenario, folder = Scenario(job["text"], Path(job["base"]), job["on"]), Path(job["folder"])

    def report(label: str, status: Status | None) -> None:
        if status is not None:
            _say({"status": dataclasses.asdict(status)})

    parent = os.getppid()

    def orphaned_or(stop: Stop) -> bool:
        if os.getppid() != parent:
            raise BrokenPipeError
        return stop()

    try:
        with Stop() as stop:
            summary = execute(
                scenario, folder, watch=Watch(lambda: orphaned_or(stop), report), digest=job["digest"]
            )
    except BrokenPipeError:  # whoever asked is gone
        return
    except OnRampError as e:
        _say({"error": str(e), "exit_code": e.exit_code})
    except OSError as e:
        _say({"error": f"{folder}: {e.strerror or e}", "exit_code": RunError.exit_code})
    except (ValueError, MemoryError) as e:
        text = " ".join(str(e).split()) or "out of memory"
        _say({"error": f"{scenario.name}: {text}", "exit_code": RunError.exit_code})
    else:
        _say({"summary": summary})


if __name__ == "__main__":
    main()
