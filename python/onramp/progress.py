"""Progress of runs with the remaining time, on a terminal or in a log."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from types import TracebackType

from rich import progress as bars
from rich.console import Console
from rich.text import Text

from onramp.engine import Status

#: Seconds between two lines where there is no terminal.
QUIET_S = 5.0


def span(seconds: float) -> str:
    """Seconds as people say them: "8 s", "3 min 20 s", "2 h 5 min"."""
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min {s % 60} s"
    return f"{s // 3600} h {s % 3600 // 60} min"


@dataclass
class _Task:
    total: int
    began: float = field(default_factory=time.monotonic)
    done: int = 0
    running: dict[str, Status] = field(default_factory=dict)

    @property
    def share(self) -> float:
        return (self.done + sum(s.share for s in self.running.values())) / max(self.total, 1)

    def text(self) -> str:
        left = (time.monotonic() - self.began) * (1 - self.share) / max(self.share, 1e-9)
        parts = [f"about {span(left)} left"] if self.share > 0.01 else ["starting"]
        if self.total > 1:
            parts.insert(0, f"{self.done}/{self.total} runs")
        hops = sum(s.packet_hops for s in self.running.values())
        parts.append(f"{hops / 1e6:,.1f} M packet-hops")
        return " · ".join(parts)


class Progress:
    """Shows how far a number of runs are, on standard error.

    Parameters
    ----------
    title : str
        What is running.
    total : int
        How many runs.
    """

    def __init__(self, title: str, total: int, *, quiet: bool = False) -> None:
        self._title = title
        self._task = _Task(total)
        self._quiet = quiet
        self._spoke = time.monotonic()
        self._bar: bars.Progress | None = None
        if sys.stderr.isatty() and not quiet:
            self._bar = bars.Progress(
                bars.TextColumn("{task.description}"),
                bars.BarColumn(),
                bars.TaskProgressColumn(),
                bars.TextColumn("{task.fields[text]}", style="dim"),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.add_task(title, total=1.0, text="")

    def __enter__(self) -> Progress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, label: str, status: Status | None) -> None:
        """The run `label` is this far; None: it has ended."""
        if status is None:
            self._task.running.pop(label, None)
            self._task.done += 1
        else:
            self._task.running[label] = status
        if self._bar:
            self._bar.update(bars.TaskID(0), completed=self._task.share, text=self._task.text())
        elif not self._quiet and time.monotonic() - self._spoke > QUIET_S:
            self._spoke = time.monotonic()
            line = Text(f"{self._title}: {self._task.share:4.0%} · {self._task.text()}")
            print(line.plain, file=sys.stderr, flush=True)
