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
    part = folder.with_name(f".{folder.name}.part")
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise OnRampError(f"{folder}: is not empty; choose another FOLDER")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(FOLDER, part)
        part.replace(folder)
        return sum(1 for _ in folder.rglob("*.toml"))
    except shutil.Error as e:
        # One line for each file; the first says it.
        raise OnRampError(f"{folder}: {e.args[0][0][2]}") from e
    except OSError as e:
        raise OnRampError(of_os(folder, e)) from e
    finally:
        shutil.rmtree(part, ignore_errors=True)
