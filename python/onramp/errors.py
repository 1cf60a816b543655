"""Errors on the user's side, one line each."""

from __future__ import annotations

import os


class OnRampError(Exception):
    """A mistake in what was asked for; its text is one line that says what would be right.

    Attributes
    ----------
    exit_code : int
        What the command exits with.
    """

    exit_code = 2


class ScenarioError(OnRampError, ValueError):
    """Mistakes in a scenario, one line each: file, line, key, what is wrong, what would be right."""


class RunError(OnRampError):
    """Something failed while running: a full disk, a worker that died."""

    exit_code = 1


def of_os(place: object, error: OSError) -> str:
    """One line for an error of the operating system at `place`."""
    # PyArrow's own words have those of the system at their end.
    return f"{place}: {os.strerror(error.errno) if error.errno else error}"
