"""Result folders appear complete, and none is overwritten by accident."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onramp.errors import OnRampError, RunError, of_os

#: A folder with one of these was written by us.
MARKS = ("summary.json", "comparison.json", "trace.json", "sweep.csv")


def unused(path: Path) -> Path:
    """`path`, or the first of `path`-2, `path`-3, … that does not exist.

    It is made at once, empty, so that a run beside this one takes another.
    """
    candidate, n = path, 1
    while True:
        try:
            candidate.mkdir(parents=True)
            return candidate
        except FileExistsError:
            n += 1
            candidate = path.with_name(f"{path.name}-{n}")
        except OSError as e:
            raise OnRampError(of_os(candidate, e)) from e


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` that becomes `path` at the end: never half of it is seen."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield part
        part.replace(path)
    except OSError as e:
        raise RunError(of_os(path, e)) from e
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def staged(target: Path, *, force: bool = False) -> Iterator[Path]:
    """A folder beside `target` that becomes `target` at the end, or vanishes on an error.

    Raises
    ------
    OnRampError
        If `target` exists (with `force`: and holds no results), or cannot be written.
    """
    if target.exists() and not _is_empty(target):
        if not force:
            raise OnRampError(f"{target}: exists; choose another --out, or --force to replace it")
        if not target.is_dir() or not any((target / m).exists() for m in MARKS):
            raise OnRampError(f"{target}: holds no results, so --force does not replace it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except (FileExistsError, NotADirectoryError) as e:
        raise OnRampError(f"{target}: cannot be made; {target.parent} is not a folder") from e
    except OSError as e:
        raise OnRampError(of_os(target, e)) from e
    try:
        yield stage
        umask = os.umask(0)
        os.umask(umask)
        stage.chmod(0o777 & ~umask)
        if force and target.exists():
            shutil.rmtree(target)
        stage.rename(target)
    except OSError as e:
        raise RunError(of_os(target, e)) from e
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if _is_empty(target):
            target.rmdir()


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())
