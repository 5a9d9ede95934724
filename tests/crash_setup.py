"""A build of a toolchain that is killed at changes of a file: nothing half built is ever taken as built.

venv and pip are replaced by code that writes the same files in the lab's own process, so that the kills fall
between those, too. The end-to-end tests kill a lab while a real pip runs.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from crash import Case, in_child
from rldyno.commands.setup import build_toolchains
from rldyno.toolchains import build as building
from rldyno.toolchains.interpreters import Inspection
from rldyno.toolchains.packages import Package, packages_of, with_packages
from rldyno.toolchains.resolve import resolve
from rldyno.toolchains.store import all_built, toolchains_dir

PACKAGES = ("numpy", "gymnasium")
ADDED = Package("six")


def write_environment(command: list[str]) -> None:
    """What venv and pip leave, as few files as show every order."""
    if command[-2] == "venv":
        python = Path(command[-1]) / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        (Path(command[-1]) / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
        return
    site = Path(command[0]).parent.parent / "lib" / "python3.11" / "site-packages"
    for name in PACKAGES if (ADDED.source not in command) else (ADDED.source,):
        for folder in (site / name, site / f"{name}-1.0.dist-info"):
            folder.mkdir()
            (folder / "file").write_text("whole")


def inspected(python: Path, *_: object, **__: object) -> Inspection:
    site = python.parent.parent / "lib" / "python3.11" / "site-packages"
    names = [folder.name.partition("-")[0] for folder in site.glob("*.dist-info")]
    return Inspection("3.11.7", None, None, dict.fromkeys(names, "1.0"))


@contextmanager
def pretended_tools() -> Iterator[None]:
    def run(toolchain: object, recipe: object, command: list[str], *_: object) -> None:
        write_environment(command)

    with patch.object(building, "_run", run), patch.object(building, "inspect", inspected):
        yield


def cache_in(home: Path) -> None:
    os.environ["RLDYNO_CACHE_DIR"] = str(home / "cache")


def set_up(home: Path) -> None:
    """`rldyno setup numpy --with six`."""
    cache_in(home)
    with pretended_tools():
        build_toolchains(
            Console(file=io.StringIO()), ["numpy"], None, "cpu", lambda known: with_packages(known, [ADDED])
        )


def flaws_after_kill(home: Path) -> list[str]:
    """Whatever counts as built is whole."""
    cache_in(home)
    return [f"{built.directory.name} counts, but {flaw}" for built in all_built() for flaw in parts(home)]


def flaws(home: Path) -> list[str]:
    """Of a cache in which the command has ended."""
    cache_in(home)
    found = parts(home)
    if resolve("numpy").versions.keys() != {*PACKAGES, ADDED.source}:
        found.append("not the packages that were asked for")
    if packages_of("numpy") != (ADDED,):
        found.append("the added package is not remembered")
    left = [*toolchains_dir().rglob("*.partial"), *toolchains_dir().rglob("*.tmp")]
    return found + [f"left over: {path.name}" for path in left]


def parts(home: Path) -> list[str]:
    site = next((home / "cache").glob("toolchains/numpy-*/lib/python3.11/site-packages"), home)
    files = (
        site / folder / "file"
        for name in (*PACKAGES, ADDED.source)
        for folder in (name, f"{name}-1.0.dist-info")
    )
    return [f"{file.parent.name} is missing" for file in files if not file.exists()]


def setup(folder: Path) -> Case:
    return Case(set_up, flaws, after_kill=flaws_after_kill)


def again(folder: Path, damage: Callable[[Path], None]) -> Case:
    """Of a toolchain that was built, and damaged since."""
    built = folder / "built"
    built.mkdir()
    assert in_child(lambda: set_up(built), built, None, folder / "points") == 0
    damage(built)
    return Case(set_up, flaws, lambda home: shutil.copytree(built, home, symlinks=True), flaws_after_kill)


def lose_package(home: Path) -> None:
    (site,) = (home / "cache").glob("toolchains/numpy-*/lib/python3.11/site-packages")
    shutil.rmtree(site / "numpy")
