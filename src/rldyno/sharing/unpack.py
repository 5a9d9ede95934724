"""A pack as a results directory again: all of it, or nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rldyno.errors import Problem
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import naming
from rldyno.results.check import check_directory
from rldyno.sharing.archive import extract, refused
from rldyno.sharing.beside import folder_beside
from rldyno.sharing.index import PackIndex
from rldyno.sharing.pack import SUFFIX
from rldyno.text.numbers import counted

_FLAWS_SHOWN = 5


@dataclass(frozen=True)
class Unpacked:
    directory: Path
    index: PackIndex
    trials: int
    flaws: tuple[str, ...]
    """What `rldyno check` finds in the directory."""


def unpacked_name(pack: Path) -> Path:
    """In the current directory: x/quickstart.rldyno.tar.gz → quickstart."""
    name = pack.name.removesuffix(SUFFIX)
    return Path(name if name != pack.name else f"{pack.name.partition('.')[0] or 'pack'}-unpacked")


def unpack_file(pack: Path, directory: Path, *, with_flaws: bool = False) -> Unpacked:
    """A Problem for a pack that cannot be trusted; then nothing of it is left on the disk."""
    if os.path.lexists(directory) and not (directory.is_dir() and not any(directory.iterdir())):
        raise Problem(f"{directory} exists already", fix="choose another directory with --out DIR")
    with folder_beside(directory) as folder:
        unpacked = open_pack(pack, folder)
        if unpacked.flaws and not with_flaws:
            problem = refused(pack, f"`rldyno check` finds {counted(len(unpacked.flaws), 'flaw')} in it")
            known = "its index says so, too" if unpacked.index.flaws else "its index says there is none"
            said = (*unpacked.flaws[:_FLAWS_SHOWN], known)
            fix = f"{problem.fix}. To look at it all the same: --with-flaws"
            raise Problem(problem.message, detail="\n".join(said), fix=fix, code=1)
        with naming(directory):
            directory.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(directory)
    return Unpacked(directory, unpacked.index, unpacked.trials, unpacked.flaws)


def open_pack(pack: Path, folder: Path) -> Unpacked:
    """Into an empty folder of our own, which the caller removes or renames."""
    index = extract(pack, folder)
    flaws = tuple(flaw.replace(f"{folder}/", "") for flaw in check_directory(folder))
    try:
        trials = len(ResultsDirectory(folder).read_manifest().trials)
    except Problem as problem:
        raise refused(pack, problem.message.replace(f"{folder}/", "")) from problem
    return Unpacked(folder, index, trials, flaws)
