"""On-Ramp in the lab: what holding packets at the sender does to datacenter tail latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


def __getattr__(name: str) -> object:
    """A public name (PEP 562): the first loads all, which takes a second; the command begins before that."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from onramp import api, comparison, errors, explanation, result, scenario, showing

    showing.install()
    modules = (api, comparison, errors, explanation, result, scenario)
    globals().update(
        {public: getattr(m, public) for m in modules for public in __all__ if hasattr(m, public)}
    )
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
