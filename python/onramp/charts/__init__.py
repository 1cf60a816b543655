"""Interactive charts by Vega-Altair, of a run or of the sides of a comparison: one file per kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onramp.errors import OnRampError
from onramp.plots import drawn
from onramp.result import Result

try:
    import altair as alt
    import vl_convert

    from onramp.charts import cdf, flows, queue
except ImportError as e:
    raise OnRampError('interactive charts need further packages: pip install "onramp-lab[charts]"') from e

#: By name; each takes results by side and returns None where there is nothing to show.
KINDS: Mapping[str, Callable[[Mapping[str, Result]], alt.TopLevelMixin | None]] = {
    "cdf": cdf.draw,
    "flows": flows.draw,
    "queue": queue.draw,
}

#: Draws every specification of a page, each in the element it stands in. Pages are read in the dark as well.
_EMBED = """
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
for (const holder of document.querySelectorAll("figure.chart")) {
  const spec = JSON.parse(holder.querySelector("script").textContent);
  const actions = { export: true, source: false, compiled: false, editor: false };
  const config = { font: "system-ui, sans-serif", axis: { gridOpacity: 0.4, titleFontWeight: "normal" } };
  const options = { actions, config, renderer: "svg", theme: dark ? "dark" : undefined };
  vegaEmbed(holder.querySelector("div"), { ...spec, background: "transparent" }, options);
}
"""


def draw(kind: str, sides: Mapping[str, Result]) -> alt.TopLevelMixin:
    """A chart of one run, or of one run a side.

    Raises
    ------
    OnRampError
        If there is no such kind, or the runs recorded nothing for it.
    """
    return drawn("chart", kind, KINDS, sides)


def specifications(sides: Mapping[str, Result]) -> list[dict[str, Any]]:
    """Vega-Lite specifications, data included, of all kinds that have something to show."""
    charts = (of(sides) for of in KINDS.values())
    return [chart.to_dict() for chart in charts if chart is not None]


def script() -> str:
    """Vega, Vega-Lite and what draws a page's charts: 0.9 MB, which need no network."""
    # What ends the element in the page's eyes would end it inside a string as well.
    return str(vl_convert.javascript_bundle(_EMBED)).replace("</script", "<\\/script")
