"""Result folders appear complete, and none is overwritten by accident."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from onramp.errors import OnRampError, RunError, of_os

#: A folder with one of these was written by us.
MARKS = ("summary.json", "comparison.json", "forecast.json", "trace.json", "sweep.csv")


#: Folder within that of a run under way: its rows so far.
PARTS = "parts"

#: Where results go that are given no place.
RESULTS = Path("results")

#: Test of a folder: does it hold the beginning of what is to be made?
Resumes = Callable[[Path], bool]


def nothing(_: Path) -> bool:
    """Of `Resumes`: what is made anew each time."""
    return False


def unused(path: Path, resumes: Resumes = nothing) -> Path:
    """`path`, or the first of `path`-2, `path`-3, … that does not exist, or that can be resumed.

    It is made at once, empty, so that a run beside this one takes another.
    """
    candidate, n = path, 1
    while True:
        try:
            candidate.mkdir(parents=True)
            return candidate
        except FileExistsError:
            if (begun(candidate, resumes) or _is_abandoned(candidate)) and is_free(candidate):
                return candidate
            n += 1
            candidate = path.with_name(f"{path.name}-{n}")
        except OSError as e:
            raise OnRampError(of_os(candidate, e)) from e


def must_be_empty(folder: Path) -> None:
    """Refuse a folder that has something in it."""
    if folder.is_dir() and any(folder.iterdir()):
        raise OnRampError(f"{folder}: is not empty; choose another FOLDER")


def begun(target: Path, resumes: Resumes) -> Path | None:
    """The folder with the beginning of `target`, if there is one: itself, or what a killed run has left."""
    return next((folder for folder in (target, _stage(target)) if resumes(folder)), None)


def _stage(target: Path) -> Path:
    # "." and ".." have no name of their own.
    named = target if target.name.strip(".") else target.resolve()
    return named.parent / f".{named.name}.part"


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
def staged(target: Path, *, force: bool = False, resumes: Resumes = nothing) -> Iterator[Path]:
    """A folder beside `target` that becomes `target` at the end, or vanishes on an error.

    Parameters
    ----------
    force : bool
        Replace `target` if it holds results.
    resumes : callable
        Tells folders to go on with: `target` itself, what a killed run has left, what an error leaves.

    Raises
    ------
    OnRampError
        If `target` exists, another run is writing it, or it cannot be written.
    RunError
        If something has appeared at `target` meanwhile: then the results are beside it.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _claimed(target):
            stage = _opened(target, force, nothing if force else resumes)
            try:
                yield stage
                _publish(stage, target, force)
            except OSError as e:
                raise RunError(of_os(target, e)) from e
            finally:
                if not resumes(stage):
                    shutil.rmtree(stage, ignore_errors=True)
                if _is_empty(target):
                    target.rmdir()
    except (FileExistsError, NotADirectoryError) as e:
        raise OnRampError(f"{target}: cannot be made; {target.parent} is not a folder") from e
    except OSError as e:
        raise OnRampError(of_os(target, e)) from e
    finally:
        if target.parent == RESULTS and _is_empty(RESULTS):
            RESULTS.rmdir()


def _opened(target: Path, force: bool, resumes: Resumes) -> Path:
    """The stage of `target`: with what can be resumed, or empty."""
    stage, before = _stage(target), begun(target, resumes)
    if before != target and target.exists() and not _is_empty(target):
        if not force:
            raise OnRampError(f"{target}: exists; choose another --out, or --force to replace it")
        if not _holds_results(target):
            raise OnRampError(f"{target}: holds no results, so --force does not replace it")
    if before != stage:
        shutil.rmtree(stage, ignore_errors=True)
    if before == target:
        target.rename(stage)
    stage.mkdir(exist_ok=True)
    return stage


def _publish(stage: Path, target: Path, force: bool) -> None:
    if force and _holds_results(target):
        shutil.rmtree(target)
    if not target.exists() or _is_empty(target):
        stage.rename(target)
        return
    kept = unused(target)
    stage.rename(kept)
    raise RunError(f"{target}: appeared during the run; the results are in {kept}")


@contextmanager
def _claimed(target: Path) -> Iterator[None]:
    """Nobody else writes `target` meanwhile. The claim of a process ends with it, however that ends."""
    path = target.with_name(f".{target.name}.lock")
    try:
        lock = _locked(path)
    except BlockingIOError as e:
        raise OnRampError(f"{target}: another run is writing it; choose another --out") from e
    with lock:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _locked(path: Path) -> IO[str]:
    while True:
        file = path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise
        except OSError:
            return file  # This file system has no locks: only the end finds what has appeared meanwhile.
        # Whoever had it may have removed the file after it was opened here.
        if _is_at(file, path):
            return file
        file.close()


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def is_free(target: Path) -> bool:
    """No run writes it now."""
    try:
        with _claimed(target):
            return True
    except OnRampError:
        return False


def _is_abandoned(target: Path) -> bool:
    """A killed run was to fill it, and has left nothing that could be of use."""
    stage = _stage(target)
    kept = (any(stage.rglob(name)) for name in ("summary.json", PARTS))
    return _is_empty(target) and stage.is_dir() and not any(kept)


def _holds_results(folder: Path) -> bool:
    return folder.is_dir() and any((folder / mark).exists() for mark in MARKS)


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())
