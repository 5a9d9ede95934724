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
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from crash import Case, in_child
from rldyno.commands.setup import build_toolchains
from rldyno.toolchains import build as building
from rldyno.toolchains import build_part as building_part
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.installing import Installation
from rldyno.toolchains.interpreters import Inspection
from rldyno.toolchains.packages import Package, packages_of, with_packages
from rldyno.toolchains.parts import find_part, recipe_of, site_packages
from rldyno.toolchains.resolve import resolve
from rldyno.toolchains.store import all_built, toolchains_dir

PACKAGES = ("numpy", "gymnasium")
ADDED = Package("six")
PART = "mpi"
PART_PACKAGES = ("mpi4py", "mpich")


def write_environment(command: list[str]) -> None:
    """What venv and pip leave, as few files as show every order."""
    if command[-2] == "venv":
        python = Path(command[-1]) / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        (Path(command[-1]) / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
        return
    prefix = Path(command[0]).parent.parent
    names = PACKAGES if (ADDED.source not in command) else (ADDED.source,)
    if "--prefix" in command:
        prefix, names = Path(command[command.index("--prefix") + 1]), PART_PACKAGES
    site = prefix / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True, exist_ok=True)
    for name in names:
        for folder in (site / name, site / f"{name}-1.0.dist-info"):
            folder.mkdir()
            (folder / "file").write_text("whole")
        (site / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")


def inspected(python: Path, *_: object, **__: object) -> Inspection:
    site = python.parent.parent / "lib" / "python3.11" / "site-packages"
    names = [folder.name.partition("-")[0] for folder in site.glob("*.dist-info")]
    return Inspection("3.11.7", None, None, dict.fromkeys(names, "1.0"))


@contextmanager
def pretended_tools() -> Iterator[None]:
    def run(installation: object, command: list[str], *_: object) -> None:
        write_environment(command)

    with ExitStack() as replaced:
        replaced.enter_context(patch.object(Installation, "run", run))
        for module in (building, building_part):
            replaced.enter_context(patch.object(module, "inspect", inspected))
        yield


def cache_in(home: Path) -> None:
    os.environ["RLDYNO_CACHE_DIR"] = str(home / "cache")


def set_up(home: Path) -> None:
    """`rldyno setup numpy --with six --with mpi`."""
    cache_in(home)
    console = Console(file=io.StringIO())
    with pretended_tools():
        build_toolchains(console, ["numpy"], None, "cpu", lambda known: with_packages(known, [ADDED]), [PART])


def flaws_after_kill(home: Path) -> list[str]:
    """Whatever counts as built is whole."""
    cache_in(home)
    found = []
    for built in all_built():
        found += [f"{built.directory.name} counts, but {flaw}" for flaw in missing(home)]
        recipe = recipe_of(toolchain("numpy"), PART, built)
        if find_part(recipe):
            found += [
                f"{PART} counts, but {flaw}"
                for flaw in absent(site_packages(recipe.directory), PART_PACKAGES)
            ]
    return found


def flaws(home: Path) -> list[str]:
    """Of a cache in which the command has ended."""
    cache_in(home)
    found = missing(home)
    numpy = resolve("numpy", needs=["host"])
    if numpy.parts[PART].versions.keys() != set(PART_PACKAGES):
        found.append("not the packages of the part")
    if numpy.versions.keys() != {*PACKAGES, ADDED.source}:
        found.append("not the packages that were asked for")
    if packages_of("numpy") != (ADDED,):
        found.append("the added package is not remembered")
    left = [*toolchains_dir().rglob("*.partial"), *toolchains_dir().rglob("*.tmp")]
    return found + [f"left over: {path.name}" for path in left]


def missing(home: Path) -> list[str]:
    site = next((home / "cache").glob("toolchains/numpy-*/lib/python3.11/site-packages"), home)
    return absent(site, (*PACKAGES, ADDED.source))


def absent(site: Path, packages: tuple[str, ...]) -> list[str]:
    files = (site / folder / "file" for name in packages for folder in (name, f"{name}-1.0.dist-info"))
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
