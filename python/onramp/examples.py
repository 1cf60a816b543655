"""Scenarios that come with the package: the demo, those of the paper's figures, of studies, and others."""

from __future__ import annotations

import shutil
from pathlib import Path

from onramp.errors import OnRampError, of_os

FOLDER = Path(__file__).parent / "scenarios"


def write(folder: Path) -> int:
    """Copy all to a folder, which must not exist, or be empty; how many there are.

    Raises
    ------
    OnRampError
        If something is there, or it cannot be written.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise OnRampError(f"{folder}: is not empty; choose another FOLDER")
        shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
        return sum(1 for _ in folder.rglob("*.toml"))
    except OSError as e:
        raise OnRampError(of_os(folder, e)) from e
