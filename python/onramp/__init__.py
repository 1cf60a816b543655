"""On-Ramp in the lab: what holding packets at the sender does to datacenter tail latency."""

from onramp._sim import ScenarioError
from onramp.api import compare, plot, plot_flow, run, sweep, trace, validate
from onramp.comparison import Comparison
from onramp.errors import OnRampError, RunError
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
    "compare",
    "explain",
    "plot",
    "plot_flow",
    "run",
    "sweep",
    "trace",
    "validate",
]
