"""Building a toolchain: a virtual environment and its `pip install` steps, one process at a time.

Virtual environments cannot be moved: one is built where it will stay, and counts once `ready.json` is there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rldyno.errors import Problem
from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.contents import contents
from rldyno.toolchains.installing import (
    Installation,
    OnProgress,
    Place,
    Progress,
    sole_builder,
    write_ready,
)
from rldyno.toolchains.interpreters import Python, inspect
from rldyno.toolchains.packages import Package, packages_of
from rldyno.toolchains.store import (
    Built,
    Recipe,
    discard,
    make_recipe,
    pins,
    processes_in,
    python_in,
    read_finished,
    read_ready,
    size_of,
    stop_leftovers,
)
from rldyno_rig.contestant import RELEASE_SIGN

PIP_INSTALL = ("-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input")


def build(
    toolchain: Toolchain,
    variant: str,
    pip_args: Sequence[str] = (),
    on_progress: OnProgress = lambda progress: None,
    packages: Sequence[Package] | None = None,
) -> Built:
    """The finished toolchain, built now unless it exists. One process builds; others wait for it.

    `packages`: what the user adds; None for what was added before.
    """
    added = packages_of(toolchain.framework) if packages is None else packages
    recipe, python = make_recipe(toolchain, variant, pip_args, added)
    ready = read_ready(recipe.directory)
    if ready:
        return ready
    with sole_builder(place_of(recipe), on_progress):
        ready = read_ready(recipe.directory)
        return ready or _build_locked(toolchain, recipe, python, added, on_progress)


def place_of(recipe: Recipe) -> Place:
    name = recipe.name
    return Place(
        name,
        f"the {name} toolchain",
        f"rldyno setup {name}",
        recipe.directory,
        recipe.log,
        has_packages=bool(recipe.packages),
    )


def _build_locked(
    toolchain: Toolchain,
    recipe: Recipe,
    python: Python,
    packages: Sequence[Package],
    on_progress: OnProgress,
) -> Built:
    directory = recipe.directory
    damaged = read_finished(directory)
    if damaged:
        _check_unused(damaged)
        on_progress(Progress(recipe.name, "", "", 0.0, 0, note=f"{damaged.lost_words}: building it again"))
    stop_leftovers(directory)
    discard(directory)
    recipe.log.unlink(missing_ok=True)
    installation = Installation(place_of(recipe), on_progress)
    try:
        create = [str(python.path), "-I", "-m", "venv", str(directory)]
        installation.run(create, "creating the environment")
        steps = [*recipe.steps, *_package_steps(recipe, packages)]
        for number, step in enumerate(steps, start=1):
            install = [str(python_in(directory)), *PIP_INSTALL, *recipe.pip_args, *step]
            label = "installing" if len(steps) == 1 else f"installing {number}/{len(steps)}"
            installation.run(install, label)
        versions = _checked_versions(toolchain, directory)
        return _finish(recipe, versions, installation.seconds)
    except BaseException:
        discard(directory)
        raise


def _check_unused(damaged: Built) -> None:
    """What runs in a toolchain that was finished are trials of somebody else, not leftovers of a build."""
    if any(processes_in(damaged.directory)):
        raise Problem(
            f"{damaged.lost_words}, and something still runs in it",
            fix="wait for the run to end, then run the same command again: it builds the toolchain again",
            code=1,
        )


def _package_steps(recipe: Recipe, packages: Sequence[Package]) -> list[tuple[str, ...]]:
    """The user's packages, together with the pins: pip refuses a package that would change one."""
    if not packages:
        return []
    return [(*(package.source for package in packages), *map(str, pins(recipe)))]


def _finish(recipe: Recipe, versions: dict[str, str], install_s: float) -> Built:
    directory = recipe.directory
    built = Built(
        directory,
        recipe,
        versions,
        size_of(directory),
        round(install_s, 3),
        time.time(),
        reused=False,
        contents=contents(directory),
    )
    ready = {
        "fingerprint": recipe.fingerprint,
        "recipe": asdict(recipe),
        "python": recipe.python,
        "versions": versions,
        "size_bytes": built.size_bytes,
        "install_s": built.install_s,
        "built_at": built.built_at,
        "contents": built.contents,
    }
    write_ready(directory, ready)
    return built


def _checked_versions(toolchain: Toolchain, directory: Path) -> dict[str, str]:
    """Versions of what was installed, once the framework imports."""
    try:
        found = inspect(
            python_in(directory), [toolchain.import_name], isolated=True, variables=toolchain.variables
        )
        error = found.error
    except ValueError as failure:
        error = str(failure)
    if error is not None:
        raise Problem(
            f"the {toolchain.framework} toolchain was installed, but `import {toolchain.import_name}` fails",
            detail=error,
            fix="it may need another Python or other packages: add a rule to `[versions]` (docs/versions.md)"
            if RELEASE_SIGN in toolchain.framework
            else f"see what it needs with `rldyno doctor`, then `rldyno setup {toolchain.framework}` again",
            code=1,
        )
    return found.versions
