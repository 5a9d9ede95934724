"""A results directory that one lab works in: held, writable, with room left on its disk."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from rldyno.errors import Problem
from rldyno.records.files import MANIFEST_FILE, RUN_LOCK, STUDY_FILE, LockedError, Results
from rldyno.records.files import locked as held

MIN_FREE_BYTES = 100_000_000
_OURS = {STUDY_FILE, MANIFEST_FILE, RUN_LOCK, "certificates", "trials"}


@contextlib.contextmanager
def working_in(results: Results) -> Iterator[None]:
    """Hold the directory, after making sure that it can be written."""
    check_writable(results.root)
    try:
        with held(results.lock):
            yield
    except LockedError as locked:
        raise Problem(
            f"another rldyno run ({locked}) is working in {results.root}",
            fix="wait for it (`rldyno status` shows how far it is), or choose another directory with --out",
        ) from None


def check_writable(root: Path) -> None:
    check_free(root)
    foreign = sorted(entry.name for entry in root.iterdir() if entry.name not in _OURS)
    if foreign and not (root / MANIFEST_FILE).exists():
        raise Problem(
            f"{root} is not empty and holds no results of rldyno (it has {foreign[0]})",
            fix="choose another directory with --out",
        )


def check_free(root: Path) -> None:
    """Make the directory; a Problem where it cannot be written or its disk is full."""
    probe = root / f".write-test.{time.monotonic_ns()}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as error:
        with contextlib.suppress(OSError):
            probe.unlink()
        raise Problem(
            f"cannot write to {root}: {error.strerror}", fix="choose another directory with --out"
        ) from error
    free = shutil.disk_usage(root).free
    if free < MIN_FREE_BYTES:
        raise Problem(
            f"only {free / 1e6:.0f} MB are free in {root}, a run needs {MIN_FREE_BYTES / 1e6:.0f} MB",
            fix="free some space, or choose another directory with --out",
        )
