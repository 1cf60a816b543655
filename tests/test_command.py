"""The command itself: progress and completions."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from conftest import SMALL, Command


@pytest.mark.parametrize(("options", "lines"), [((), True), (("--quiet",), False)])
def test_progress_can_be_left_out(
    write: Callable[..., Path],
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    options: Sequence[str],
    lines: bool,
) -> None:
    monkeypatch.setattr("onramp.progress.QUIET_S", 0.0)
    done = command("run", write(SMALL), *options)
    assert done.returncode == 0
    assert ("packet-hops" in done.stderr) == lines
    assert "Incast RCT" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(command: Command, shell: str) -> None:
    assert "_ONRAMP_COMPLETE" in command("completion", shell).stdout


@pytest.mark.parametrize(("typed", "expected"), [("compa", "compare"), ("study carou", "carousel")])
def test_bash_completes_commands_and_names(typed: str, expected: str) -> None:
    words = ["onramp", *typed.split()]
    script = f"""
        eval "$(onramp completion bash)"
        COMP_WORDS=({" ".join(words)}) COMP_CWORD={len(words) - 1}
        _onramp_completion onramp
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{expected}\n", done.stderr
