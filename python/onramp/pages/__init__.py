"""Pages that stand alone: style, script and data are within, and nothing comes from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

FOLDER = Path(__file__).parent

#: A colour of a heat map: where on the scale from 0 to 1, red, green and blue.
Stop = tuple[float, int, int, int]


def page(name: str, data: str = "null") -> str:
    """A page as HTML.

    Parameters
    ----------
    name : str
        `NAME.html` and `NAME.js` of this folder.
    data : str
        JSON for its script.
    """
    style = _read("page.css")
    script = f"const HEAT = {_read('heat.json')};\n" + _read("common.js") + _read(f"{name}.js")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "img-src data:; connect-src 'self'"
    )
    # Within an element of data only its end tag means something; "<" is the same in JSON's strings.
    held = data.replace("<", "\\u003c")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<title>On-Ramp</title>\n<link rel="icon" href="data:,">',
            f"<style>{style}</style>\n</head>\n<body>",
            _read(f"{name}.html"),
            f'<script type="application/json" id="data">{held}</script>',
            f"<script>{script}</script>\n</body>\n</html>\n",
        ]
    )


def heat() -> list[Stop]:
    """Colours of heat maps on a light page."""
    light: list[Stop] = json.loads(_read("heat.json"))["light"]
    return light


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Source of a Content-Security-Policy that allows this text alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
