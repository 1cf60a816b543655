"""A congestion controller of one's own as a Rust crate: `onramp new controller`."""

from __future__ import annotations

import re
from pathlib import Path

from onramp import _sim
from onramp.errors import OnRampError, of_os
from onramp.folders import must_be_empty

#: Files of a new crate, with @name@, @lib@ and @version@ to be filled in.
TEMPLATE = Path(__file__).parent / "controller_crate"


def write(folder: Path) -> None:
    """Write a crate with a controller, its test, and a scenario that loads it.

    Parameters
    ----------
    folder : Path
        It must not exist, or be empty. Its name is the crate's.

    Raises
    ------
    OnRampError
        If the name is none for a crate, something is there, or it cannot be written.
    """
    name = folder.resolve().name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise OnRampError(f"{folder}: is no name for a crate: a letter, then letters, digits, - and _")
    values = {"@name@": name, "@lib@": name.replace("-", "_"), "@version@": _sim.version()}

    def of_template(file: str) -> str:
        text = (TEMPLATE / file).read_text(encoding="utf-8")
        for key, value in values.items():
            text = text.replace(key, value)
        return text

    files = {
        "Cargo.toml": of_template("Cargo.toml"),
        "src/lib.rs": of_template("lib.rs"),
        "scenario.toml": of_template("scenario.toml"),
        ".gitignore": "/target\n/results\n",
        "onramp-controller/Cargo.toml": of_template("interface.toml"),
        **{f"onramp-controller/{file}": text for file, text in _sim.controller_crate()},
    }
    must_be_empty(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as e:
        raise OnRampError(of_os(folder, e)) from e
