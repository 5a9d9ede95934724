"""A directory of our own on the disk of what is being made: it is filled, then renamed or removed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rldyno.records.scratch import remove_abandoned_scratch, scratch_directory


@contextlib.contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """An empty folder beside a path that need not exist. It is gone at the end, unless it was renamed; what
    a killed process left there is removed by the next one.
    """
    home = next(parent for parent in path.absolute().parents if parent.is_dir())
    remove_abandoned_scratch(home)
    with scratch_directory(home) as scratch:
        folder = Path(scratch) / path.name
        folder.mkdir()
        yield folder
