"""Building an optional part beside its toolchain, which stays as it is whatever happens here.

pip installs into a prefix of the part's own, without dependencies: every package of a part is pinned, and the
toolchain's are used as they are.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from rldyno.errors import Problem
from rldyno.toolchains.build import PIP_INSTALL
from rldyno.toolchains.catalogue import Edit, Source, Toolchain
from rldyno.toolchains.installing import Installation, OnProgress, Place, sole_builder, write_ready
from rldyno.toolchains.interpreters import inspect
from rldyno.toolchains.parts import (
    InstalledPart,
    PartRecipe,
    find_part,
    part_contents,
    recipe_of,
    site_packages,
)
from rldyno.toolchains.store import READY_FILE, Built, discard, processes_in, size_of, stop, toolchains_dir

_WORK = "work"
_BESIDE = ("--no-deps", "--ignore-installed", "--no-warn-script-location")


def build_part(
    toolchain: Toolchain,
    name: str,
    built: Built,
    pip_args: Sequence[str] = (),
    on_progress: OnProgress = lambda progress: None,
) -> InstalledPart:
    """The finished part of this built toolchain, built now unless it exists. One process builds it."""
    recipe = recipe_of(toolchain, name, built)
    ready = find_part(recipe)
    if ready:
        return ready
    place = place_of(recipe)
    with sole_builder(place, on_progress):
        return find_part(recipe) or _build_locked(toolchain, recipe, place, pip_args, on_progress)


def place_of(recipe: PartRecipe) -> Place:
    framework = recipe.built.recipe.name
    return Place(
        framework,
        f"part {recipe.name} of the {framework} toolchain",
        f"rldyno setup {framework} --with {recipe.name}",
        recipe.directory,
        toolchains_dir() / "logs" / f"{recipe.built.directory.name}-{recipe.directory.name}.log",
    )


def _build_locked(
    toolchain: Toolchain, recipe: PartRecipe, place: Place, pip_args: Sequence[str], on_progress: OnProgress
) -> InstalledPart:
    _check_needs(recipe, place)
    directory = recipe.directory
    _stop_leftovers(recipe, place.title)
    discard(directory)
    place.log.unlink(missing_ok=True)
    installation = Installation(place, on_progress)
    pip = [str(recipe.built.python), *PIP_INSTALL, *pip_args, *_BESIDE]
    try:
        (directory / _WORK).mkdir(parents=True)
        for step in recipe.part.steps:
            installation.run([*pip, "--prefix", str(directory), *step], f"installing {recipe.name}")
        if recipe.part.source:
            _compile(recipe, recipe.part.source, pip, installation)
        shutil.rmtree(directory / _WORK)
        _check_import(toolchain, recipe, place)
        return _finish(recipe, installation.seconds)
    except BaseException:
        discard(directory)
        raise


def _stop_leftovers(recipe: PartRecipe, title: str) -> None:
    """A killed build may have left pip running. What runs beside a finished part is a trial."""
    running = list(processes_in(recipe.built.directory))
    if running and (recipe.directory / READY_FILE).exists():
        raise Problem(
            f"{title} has lost something, and its toolchain is in use",
            fix="wait for the run to end, then run the same command again: it builds the part again",
            code=1,
        )
    for process in running:
        if any(str(recipe.directory) in word for word in process.info["cmdline"]):
            stop(process.pid)


def _check_needs(recipe: PartRecipe, place: Place) -> None:
    lacking = [need for need in recipe.part.needs if not need.met(recipe.built.python)]
    if lacking:
        raise Problem(
            f"{place.title} needs " + " and ".join(need.what for need in lacking),
            detail="\n".join(need.why for need in lacking),
            fix="; ".join(dict.fromkeys(need.fix for need in lacking)) + f"; then {place.setup}",
            code=1,
        )


def _compile(recipe: PartRecipe, source: Source, pip: list[str], installation: Installation) -> None:
    """Temporary files are kept below the part's directory: a build that was killed leaves none elsewhere, and
    its processes can be known by their arguments.
    """
    work = recipe.directory / _WORK
    tools, temporary, archives = work / "tools", work / "tmp", work / "archives"
    temporary.mkdir()
    if source.tools:
        installation.run([*pip, "--prefix", str(tools), *source.tools], f"tools for {recipe.name}")
    packages = tools / site_packages(recipe.directory).relative_to(recipe.directory)
    variables = {
        "MAKEFLAGS": f"-j{len(os.sched_getaffinity(0))}",
        "TMPDIR": str(temporary),
        # pip's own process is isolated and ignores it; the build that pip starts does not.
        "PYTHONPATH": str(packages),
        "PATH": os.pathsep.join([str(tools / "bin"), os.environ.get("PATH", os.defpath)]),
        **source.variables,
    }
    fetch = ["download", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--dest", str(archives)]
    download = [*pip[: pip.index("install")], *fetch, *pip[pip.index("install") + 1 : -len(_BESIDE)]]
    installation.run([*download, source.package], f"fetching {source.package}", variables)
    code = _unpacked(next(archives.iterdir()), work / "source")
    for edit in source.edits:
        _apply(edit, code, source.package)
    install = [*pip, "--no-build-isolation", "--prefix", str(recipe.directory), str(code)]
    installation.run(install, f"compiling {source.package}", variables)


def _unpacked(archive: Path, into: Path) -> Path:
    """The one directory that a source archive holds."""
    with tarfile.open(archive) as tar:
        # Python 3.11.4 has it; what comes from the index is run anyway.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        tar.extractall(into)  # noqa: S202 (filtered)
    return next(path for path in into.iterdir() if path.is_dir())


def _apply(edit: Edit, code: Path, package: str) -> None:
    path = code / edit.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if edit.old not in text:
        raise Problem(
            f"{package}: {edit.file} has no line `{edit.old}`", fix="correct `edits` of the toolchain file"
        )
    path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")


def _check_import(toolchain: Toolchain, recipe: PartRecipe, place: Place) -> None:
    module = recipe.part.import_name
    variables = toolchain.variables | recipe.variables
    try:
        error = inspect(recipe.built.python, [module], isolated=True, variables=variables).error
    except ValueError as failure:
        error = str(failure)
    if error is not None:
        fix = f"read the log, then `{place.setup}` again: {place.log}"
        raise Problem(f"{place.title} was built, but `import {module}` fails", detail=error, fix=fix, code=1)


def _finish(recipe: PartRecipe, install_s: float) -> InstalledPart:
    directory = recipe.directory
    installed = importlib.metadata.distributions(path=[str(site_packages(directory))])
    ready = {
        "part": recipe.name,
        "recipe": recipe.part.model_dump(mode="json", include={"steps", "source"}),
        "versions": {canonicalize_name(package.metadata["Name"]): package.version for package in installed},
        "size_bytes": size_of(directory),
        "install_s": round(install_s, 3),
        "built_at": time.time(),
        "contents": part_contents(directory),
    }
    write_ready(directory, ready)
    found = find_part(recipe)
    assert found is not None
    return found
