"""What commands left beside trials, or in directories without any: is it whole?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from rldyno.bisection import record as bisection
from rldyno.curves.store import kept_curves
from rldyno.division.record import open_files, read_file
from rldyno.errors import Problem
from rldyno.nets.record import read_record
from rldyno.records.directory import NETS_FILE
from rldyno.records.slurm_jobs import SlurmFolder
from rldyno.usability import store
from rldyno.usability.tables import all_tables


def files_beside(directory: Path) -> list[Path]:
    """Of networks timed alone, open loops, usability and searches for a release."""
    single = [directory / name for name in (NETS_FILE, store.FILE, bisection.BISECT_FILE)]
    return [path for path in single if path.is_symlink() or path.exists()] + open_files(directory)


def flaws_beside(directory: Path) -> Iterator[str]:
    """One sentence for each file that is damaged, altered or no plain file; cluster and curves included."""
    of_name: dict[str, Callable[[Path], object]] = {
        NETS_FILE: lambda path: read_record(path.parent),
        store.FILE: lambda path: _show_usability(path.parent),
        bisection.BISECT_FILE: bisection.read,
    }
    reads = [(of_name.get(path.name, read_file), path) for path in files_beside(directory)]
    for read, path in (*reads, (kept_curves, directory), (_read_jobs, directory)):
        try:
            read(path)
        except Problem as problem:
            yield problem.message


def _read_jobs(directory: Path) -> object:
    return SlurmFolder(directory).read()


def _show_usability(directory: Path) -> None:
    file = store.read_beside(directory)
    if file is not None:
        with store.shown(directory):
            all_tables(file.frameworks)
