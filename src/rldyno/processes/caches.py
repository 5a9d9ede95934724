"""Where workers of trials keep compiled code and temporary files: places of their own, and when those end.

A cold trial has a place that is new and empty and ends with it. Warm trials of one contestant in one results
directory share a place. All are in the system's temporary space: records stay small, paths stay short, and on
a cluster compilers write to the node's own disk. A trial's process imports this module.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from rldyno.errors import Problem
from rldyno_rig.schema import CACHES_PLACE

COLD, WARM = "cold", "warm"


def cold_place(trial_dir: Path) -> Path:
    """Follows from the trial's directory, so that what a killed process left is found and removed."""
    return _home() / _digest(str(trial_dir.resolve()))


def warm_place(results: Path, contestant: str) -> Path:
    """Of a contestant in a results directory."""
    return _home() / _digest(f"{results.resolve()}\n{contestant}")


def make(place: Path, variables: Mapping[str, str]) -> None:
    """With the directories that the variables name: a temporary directory that is missing is not used."""
    for value in variables.values():
        if value.startswith(f"{CACHES_PLACE}/"):
            Path(value.replace(CACHES_PLACE, str(place))).mkdir(parents=True, exist_ok=True)


def remove(places: Iterable[Path]) -> None:
    for place in places:
        shutil.rmtree(place, ignore_errors=True)


def size_bytes(place: Path) -> int:
    """Of all its files; those that vanish meanwhile do not count."""
    total = 0
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                total += (Path(folder) / name).lstat().st_size
            except OSError:
                continue
    return total


def _home() -> Path:
    home = Path(tempfile.gettempdir()) / f"rldyno-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.is_symlink() or home.stat().st_uid != os.getuid():
        raise Problem(
            f"{home}, where caches of trials would be, belongs to another user",
            fix="set TMPDIR to a directory of your own",
            code=1,
        )
    return home


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
