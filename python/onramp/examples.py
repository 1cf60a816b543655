"""Scenarios that come with the package: the demo, those of the paper's figures, of studies, and others."""

from __future__ import annotations

import shutil
from pathlib import Path

from onramp import folders
from onramp.errors import OnRampError

FOLDER = Path(__file__).parent / "scenarios"


def write(folder: Path) -> int:
    """Copy all to a folder, which must not exist, or be empty; how many there are.

    Raises
    ------
    OnRampError
        If something is there, or it cannot be written.
    """
    folders.must_be_empty(folder)
    try:
        shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    except OSError as e:
        shutil.rmtree(folder, ignore_errors=True)
        # An error for each file; the first says it.
        reason = e.args[0][0][2] if isinstance(e, shutil.Error) else e.strerror or e
        raise OnRampError(f"{folder}: {reason}") from e
    return sum(1 for _ in folder.rglob("*.toml"))
