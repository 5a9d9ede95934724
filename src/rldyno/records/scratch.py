"""Working directories in the cache. They end with their use, those of a killed process at the next use."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from rldyno.records.files import has_died, owner

_PREFIX = "work."


def scratch_directory(home: Path) -> tempfile.TemporaryDirectory[str]:
    """A new one in `home`, which is made if it is missing."""
    home.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=home, prefix=f"{_PREFIX}{owner()}.")


def remove_abandoned_scratch(home: Path) -> None:
    """Those whose process was killed."""
    for path in home.glob(f"{_PREFIX}*"):
        if has_died(path.name.rpartition(".")[0]):
            shutil.rmtree(path, ignore_errors=True)
