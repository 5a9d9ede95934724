"""The built toolchains in the user's cache: their names, what makes one valid, and removing old ones.

A toolchain lives in `<name>-<variant>-<fingerprint>`. It is valid only once its `ready.json` exists, which is
written last and atomically; a directory without it is what an interrupted build left behind. A toolchain that
has lost a package since is no longer valid.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.records.locks import LockedError, locked
from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.catalogue import toolchain as toolchain_named
from rldyno.toolchains.contents import lost
from rldyno.toolchains.interpreters import Python, find_python
from rldyno.toolchains.packages import Package, packages_of
from rldyno_rig.contestant import RELEASE_SIGN, safe_name

FORMAT = 1
READY_FILE = "ready.json"


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a build contains. Its hash is part of the directory's name."""

    name: str
    variant: str
    steps: tuple[tuple[str, ...], ...]
    python: str
    pip_args: tuple[str, ...]
    format: int = FORMAT
    packages: tuple[str, ...] = ()
    """What the user added, as `Package.identity`."""

    @property
    def fingerprint(self) -> str:
        content = asdict(self)
        if not self.packages:
            del content["packages"]  # builds from before there were any keep their names
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def directory(self) -> Path:
        return toolchains_dir() / f"{safe_name(self.name)}-{self.variant}-{self.fingerprint}"

    @property
    def log(self) -> Path:
        return toolchains_dir() / "logs" / f"{self.directory.name}.log"

    def same_but_pip_args(self, other: Recipe) -> bool:
        return replace(self, pip_args=()) == replace(other, pip_args=())


@dataclass(frozen=True)
class Built:
    """A finished toolchain."""

    directory: Path
    recipe: Recipe
    versions: dict[str, str]
    size_bytes: int
    install_s: float
    built_at: float
    """Seconds since the epoch."""
    reused: bool = True
    """False for the call that built it."""
    contents: tuple[str, ...] | None = None
    """What was in its site-packages; None of a build of an earlier version."""

    @property
    def python(self) -> Path:
        return python_in(self.directory)

    @property
    def lost(self) -> tuple[str, ...]:
        """What is gone since it was built: such a toolchain has to be built again."""
        if not self.python.exists():
            return ("its interpreter",)
        return lost(self.directory, self.contents, self.versions)

    @property
    def lost_words(self) -> str:
        """`the torch toolchain has lost numpy and 3 more`."""
        first, *others = self.lost
        more = f" and {len(others)} more" if others else ""
        return f"the {self.recipe.name} toolchain has lost {first}{more}"


def toolchains_dir() -> Path:
    return cache_dir() / "toolchains"


def python_in(directory: Path) -> Path:
    return directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_recipe(
    toolchain: Toolchain,
    variant: str,
    pip_args: Sequence[str] = (),
    packages: Sequence[Package] | None = None,
) -> tuple[Recipe, Python]:
    """The recipe, and the interpreter its environment will be made with.

    `packages`: what the user adds; None for what was added before.
    """
    steps = toolchain.steps(variant)
    python = find_python(toolchain.python)
    added = packages_of(toolchain.framework) if packages is None else packages
    identities = tuple(sorted(package.identity for package in added))
    recipe = Recipe(toolchain.framework, variant, steps, python.version, tuple(pip_args), packages=identities)
    return recipe, python


def all_built() -> list[Built]:
    """Every finished toolchain in the cache, the newest first."""
    found = (read_ready(path.parent) for path in toolchains_dir().glob(f"*/{READY_FILE}"))
    return sorted((built for built in found if built), key=lambda built: built.built_at, reverse=True)


def built_releases() -> list[tuple[Toolchain, Built]]:
    """Finished toolchains of releases such as `jax@0.7.0` that the pins of today would build the same way."""
    found = []
    for built in all_built():
        if RELEASE_SIGN in built.recipe.name:
            with contextlib.suppress(Problem):  # its family or its wheel is gone
                chain = toolchain_named(built.recipe.name)
                wanted, _ = make_recipe(chain, built.recipe.variant)
                if built.recipe.same_but_pip_args(wanted):
                    found.append((chain, built))
    return found


def read_ready(directory: Path) -> Built | None:
    """None unless the directory holds a finished build that is still whole."""
    built = read_finished(directory)
    return built if built is not None and not built.lost else None


def read_finished(directory: Path) -> Built | None:
    """None unless the directory holds a build that was finished. It may have lost something since."""
    try:
        ready: dict[str, Any] = json.loads((directory / READY_FILE).read_text(encoding="utf-8"))
        recipe = ready["recipe"]
        built = Built(
            directory=directory,
            recipe=Recipe(
                name=recipe["name"],
                variant=recipe["variant"],
                steps=tuple(tuple(step) for step in recipe["steps"]),
                python=recipe["python"],
                pip_args=tuple(recipe["pip_args"]),
                format=recipe["format"],
                packages=tuple(recipe.get("packages", ())),
            ),
            versions=ready["versions"],
            size_bytes=ready["size_bytes"],
            install_s=ready["install_s"],
            built_at=ready["built_at"],
            contents=tuple(ready["contents"]) if "contents" in ready else None,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return built


def find_built(toolchain: Toolchain, variant: str, pip_args: Sequence[str] = ()) -> Built | None:
    """The finished build of these pins: with these pip arguments, else with any others, newest first.

    pip arguments say where packages come from, so a build made once with `setup --pip-args` serves every
    later command.
    """
    wanted, _ = make_recipe(toolchain, variant, pip_args)
    exact = read_ready(wanted.directory)
    return exact or next((built for built in all_built() if built.recipe.same_but_pip_args(wanted)), None)


def find_damaged(toolchain: Toolchain, variant: str, pip_args: Sequence[str] = ()) -> Built | None:
    """The build that `find_built` would find if it were whole."""
    wanted, _ = make_recipe(toolchain, variant, pip_args)
    finished = (read_finished(path.parent) for path in toolchains_dir().glob(f"*/{READY_FILE}"))
    fitting = [built for built in finished if built and built.recipe.same_but_pip_args(wanted) and built.lost]
    return max(fitting, key=lambda built: (built.recipe == wanted, built.built_at), default=None)


def pinned_versions(built: Built) -> dict[str, str]:
    """Package → installed version, of the packages the recipe names."""
    named = [canonicalize_name(pin.name) for pin in pins(built.recipe)]
    named += [canonicalize_name(pin.name) for pin in _requirements(built.recipe.packages)]
    return {name: built.versions[name] for name in named if name in built.versions}


def pins(recipe: Recipe) -> list[Requirement]:
    """The packages that the steps of the toolchain file name."""
    return _requirements(argument for step in recipe.steps for argument in step)


def _requirements(arguments: Iterable[str]) -> list[Requirement]:
    found = []
    for argument in arguments:
        with contextlib.suppress(InvalidRequirement):
            found.append(Requirement(argument))
    return found


def superseded(current: Sequence[Built]) -> list[Path]:
    """Directories in the cache that no current toolchain uses: old pins and what interrupted builds left."""
    kept = {built.directory for built in current}
    if not toolchains_dir().is_dir():
        return []
    return sorted(
        path
        for path in toolchains_dir().iterdir()
        if path.is_dir() and path.name != "logs" and path not in kept
    )


def remove(directory: Path, used_from: Path | None = None) -> None:
    """Remove one toolchain, or a part of the one in `used_from`, unless something runs in it or builds it."""
    try:
        with locked(lock_file(directory), patience_s=0):
            if list(processes_in(used_from or directory)):
                raise Problem(f"{directory.name} is in use", fix="wait for the run to end", code=1)
            discard(directory)
    except LockedError as busy:
        raise Problem(
            f"another process ({busy}) builds {directory.name}", fix="wait for it to end", code=1
        ) from None


def size_of(directory: Path) -> int:
    """Bytes of all files below the directory; files that are removed during the count are left out."""
    total = 0
    pending = [directory]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                else:
                    with contextlib.suppress(OSError):
                        total += entry.stat(follow_symlinks=False).st_size
    return total


def lock_file(directory: Path) -> Path:
    return directory.with_name(directory.name + ".lock")


def discard(directory: Path) -> None:
    """Remove a directory so that a crash in the middle never leaves a directory that seems finished."""
    (directory / READY_FILE).unlink(missing_ok=True)
    if directory.exists():
        shutil.rmtree(directory)


def stop_leftovers(directory: Path) -> None:
    """A killed build may have left pip running: it would write into the directory that is built next."""
    for process in list(processes_in(directory)):
        stop(process.pid)


def processes_in(directory: Path) -> Iterator[psutil.Process]:
    """Processes whose program is the directory's interpreter, or that create its environment."""
    inside = str(directory) + os.sep
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or [""]
        if command[0].startswith(inside) or command[-2:] == ["venv", str(directory)]:
            yield process


def stop(pid: int) -> None:
    """End a process and its children; a no-op for one that has ended."""
    try:
        process = psutil.Process(pid)
        family = [*process.children(recursive=True), process]
    except psutil.NoSuchProcess:
        return
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(family, timeout=10)
