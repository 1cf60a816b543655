"""On-Ramp in the lab: what holding packets at the sender does to datacenter tail latency."""

from __future__ import annotations

from collections.abc import Callable

from onramp.api import chart, compare, plot, plot_flow, run, sweep, trace, validate
from onramp.comparison import Comparison
from onramp.errors import OnRampError, RunError, ScenarioError
from onramp.explanation import Explanation, explain
from onramp.result import Result
from onramp.scenario import Scenario

__all__ = [
    "Comparison",
    "Explanation",
    "OnRampError",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "chart",
    "compare",
    "explain",
    "plot",
    "plot_flow",
    "run",
    "sweep",
    "trace",
    "validate",
]


def _html(name: str) -> Callable[[object], str]:
    """Method by which Jupyter shows a result, of `onramp.notebook`, which takes a while to import."""

    def show(result: object) -> str:
        from onramp import notebook

        return str(getattr(notebook, name)(result))

    return show


def _text(found: Comparison) -> str:
    """A comparison as it is printed."""
    from onramp import terminal

    return terminal.comparison_text(found)


setattr(Comparison, "__str__", _text)  # noqa: B010

_METHOD = "_repr_html_"
for _kind in (Result, Comparison, Explanation):
    setattr(_kind, _METHOD, _html(f"of_{_kind.__name__.lower()}"))
