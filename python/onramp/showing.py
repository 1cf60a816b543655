"""How Jupyter and `print` show results."""

from __future__ import annotations

from collections.abc import Callable

from onramp.comparison import Comparison
from onramp.explanation import Explanation
from onramp.result import Result


def install() -> None:
    """Give each kind of result its methods; what they need takes a while to import, and waits for its use."""
    setattr(Comparison, "__str__", _text)  # noqa: B010
    for kind in (Result, Comparison, Explanation):
        setattr(kind, "_repr_html_", _html(f"of_{kind.__name__.lower()}"))  # noqa: B010


def _html(name: str) -> Callable[[object], str]:
    """A method that shows a result by this function of `onramp.notebook`."""

    def show(result: object) -> str:
        from onramp import notebook

        return str(getattr(notebook, name)(result))

    return show


def _text(found: Comparison) -> str:
    """A comparison as it is printed."""
    from onramp import terminal

    return terminal.comparison_text(found)
