"""On-Ramp in the lab: what holding packets at the sender does to datacenter tail latency."""

from onramp._sim import ScenarioError
from onramp.api import compare, plot, plot_flow, run, trace, validate
from onramp.comparison import Comparison
from onramp.errors import OnRampError, RunError
from onramp.result import Result
from onramp.scenario import Scenario

__all__ = [
    "Comparison",
    "OnRampError",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "compare",
    "plot",
    "plot_flow",
    "run",
    "trace",
    "validate",
]
