"""`rldyno setup`: build toolchains, list them, remove old ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.toolchains.catalogue import Toolchain
    from rldyno.toolchains.packages import Package
    from rldyno.toolchains.parts import InstalledPart
    from rldyno.toolchains.store import Built

    PackageChanges = Callable[[tuple[Package, ...]], tuple[Package, ...]]


def setup(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Toolchains to build, or releases such as jax@0.7.0. Default: those of all contestants.",
        ),
    ] = None,
    pip_args: Annotated[
        str | None, typer.Option(help='Arguments passed to pip, e.g. "--no-index --find-links DIR".')
    ] = None,
    added: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="PART|PACKAGE",
            help="Also install this: an optional part (mpi, horovod, atari; see --list), or a package for "
            "environments of your own, as a name, a pin or a path; repeatable.",
        ),
    ] = None,
    dropped: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="PACKAGE", help="No longer install this; repeatable."),
    ] = None,
    variant: Annotated[str | None, typer.Option(help="cpu or cuda. Default: what fits this machine.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the state of every toolchain.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove builds that are no longer used.")] = False,
    releases: Annotated[
        bool, typer.Option("--releases", help="With --prune: also builds of releases such as jax@0.7.0.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
) -> None:
    """Build the isolated environments that the frameworks run in."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    if list_:
        list_toolchains(console)
    elif prune:
        prune_toolchains(console, yes, releases)
    else:
        parts, packages = _parts_and_packages(added or [], names or [])
        changes = _package_changes(packages, dropped or [])
        build_toolchains(console, names or [], pip_args, variant, changes, parts)


def build_toolchains(
    console: Console,
    names: list[str],
    pip_args: str | None,
    variant: str | None,
    changes: PackageChanges,
    parts: Collection[str] = (),
) -> None:
    """Build each, with these parts where it has them; one that fails does not stop the others."""
    from rldyno.errors import Problem, print_problem
    from rldyno.toolchains.build import build
    from rldyno.toolchains.build_part import build_part
    from rldyno.toolchains.catalogue import catalogue, toolchain
    from rldyno.toolchains.packages import packages_of, remember
    from rldyno.toolchains.progress import shown_progress
    from rldyno.toolchains.resolve import chosen_variant, given_interpreters

    if variant not in (None, "cpu", "cuda"):
        raise Problem(f"unknown variant `{variant}`", fix="choose from: cpu, cuda")
    arguments = _split(pip_args)
    given = given_interpreters()
    failed = []
    for chain in [toolchain(name) for name in names] or list(catalogue().values()):
        if chain.framework in given and not names:
            console.print(f"{chain.framework}: uses {given[chain.framework]} (config file)", markup=False)
            continue
        try:
            fitting = chosen_variant(chain)
            with shown_progress(console) as on_progress:
                packages = changes(packages_of(chain.framework))
                built = build(chain, variant or fitting, arguments, on_progress, packages)
                remember(chain.framework, packages)
                names_here = [name for name in chain.parts if name in parts]
                added = [build_part(chain, name, built, arguments, on_progress) for name in names_here]
        except Problem as problem:
            print_problem(problem)
            failed.append(chain.framework)
            continue
        _print_built(console, chain, built)
        for part in added:
            console.print(f"  {_part_line(part)}", markup=False)
        if variant not in (None, fitting):
            console.print(f'  used if the config file has: variant = "{variant}"', markup=False)
    if failed:
        raise Problem(f"not built: {', '.join(failed)}", code=1)


def list_toolchains(console: Console) -> None:
    from rldyno.toolchains.catalogue import read_catalogue
    from rldyno.toolchains.packages import packages_of
    from rldyno.toolchains.progress import megabytes
    from rldyno.toolchains.resolve import part_states, state
    from rldyno.toolchains.store import built_releases

    chains = [*read_catalogue().values(), *(chain for chain, _ in built_releases())]
    for chain in sorted(chains, key=lambda one: (one.kind, one.framework)):
        name, found = chain.framework, state(chain)
        size = megabytes(found.built.size_bytes) if found.built else ""
        place = found.given or (found.built.directory if found.built else "")
        line = f"{name:12}{found.status:10}{found.variant:6}{size:>8}  {chain.summary}"
        added = ", ".join(package.source for package in packages_of(name))
        line += f"\n  with {added}" if added else ""
        line += f"\n  {place}" if place else ""
        for part in part_states(chain, found):
            line += f"\n  part {part.name:8}{part.status:10}{', '.join(part.serves)}: {part.summary}"
        console.print(line, markup=False)


def prune_toolchains(console: Console, yes: bool, releases: bool) -> None:
    """Offer everything that no toolchain of this catalogue uses; remove it once confirmed.

    Releases that can still be named are kept, unless they are to go.
    """
    from rldyno.toolchains.catalogue import read_catalogue
    from rldyno.toolchains.parts import superseded_parts
    from rldyno.toolchains.progress import megabytes
    from rldyno.toolchains.releases import wheels_dir
    from rldyno.toolchains.store import built_releases, find_built, remove, size_of, superseded

    current = [
        (chain, built)
        for chain in read_catalogue().values()
        for variant in chain.variants
        if (built := find_built(chain, variant))
    ]
    current += [] if releases else built_releases()
    old_parts = {part: built.directory for chain, built in current for part in superseded_parts(chain, built)}
    old = [*superseded([built for _, built in current]), *old_parts]
    old += [wheels_dir()] if releases and wheels_dir().is_dir() else []
    if not old:
        console.print("nothing to remove: every build in the cache is in use")
        return
    sizes = [size_of(directory) for directory in old]
    for directory, size in zip(old, sizes, strict=True):
        console.print(f"{_describe(directory)}, {megabytes(size)}", markup=False)
    if not (yes or _confirmed(f"remove these ({megabytes(sum(sizes))})?")):
        console.print("nothing removed; --yes removes them without asking")
        return
    for directory in old:
        remove(directory, used_from=old_parts.get(directory))
    console.print(f"removed {megabytes(sum(sizes))}")


def _parts_and_packages(added: list[str], names: list[str]) -> tuple[list[str], list[str]]:
    """What --with names: parts that some toolchain has, and packages of the user's."""
    from rldyno.errors import Problem
    from rldyno.toolchains.catalogue import read_catalogue, toolchain

    owners = {
        text: [name for name, chain in read_catalogue().items() if text in chain.parts] for text in added
    }
    parts = [text for text in added if owners[text]]
    for name in names:
        for part in parts:
            if part not in toolchain(name).parts:
                raise Problem(
                    f"the {name} toolchain has no part `{part}`",
                    fix=f"these have it: {', '.join(sorted(owners[part]))}",
                )
    return parts, [text for text in added if not owners[text]]


def _package_changes(added: list[str], dropped: list[str]) -> PackageChanges:
    """From the packages that a toolchain has to those it shall have."""
    from rldyno.toolchains.packages import parse_package, with_packages, without_package

    new = [parse_package(text) for text in added]

    def changed(known: tuple[Package, ...]) -> tuple[Package, ...]:
        for text in dropped:
            known = without_package(known, text)
        return with_packages(known, new)

    return changed


def _split(pip_args: str | None) -> tuple[str, ...]:
    import shlex

    from rldyno.config import load_config
    from rldyno.errors import Problem

    if pip_args is None:
        return load_config().pip_args
    try:
        return tuple(shlex.split(pip_args))
    except ValueError as error:
        raise Problem(f"--pip-args {pip_args!r}: {error}", fix="close the quotation") from error


def _print_built(console: Console, chain: Toolchain, built: Built) -> None:
    from rldyno.toolchains.progress import megabytes
    from rldyno.toolchains.store import pinned_versions

    when = "ready" if built.reused else "built"
    versions = ", ".join(f"{name} {version}" for name, version in pinned_versions(built).items())
    console.print(
        f"{chain.framework} ({built.recipe.variant}): {when}, {megabytes(built.size_bytes)}, "
        f"{built.install_s:.0f} s to install\n"
        f"  {versions}, Python {built.recipe.python}\n"
        f"{_added_line(built)}"
        f"  {built.directory}",
        markup=False,
    )


def _part_line(part: InstalledPart) -> str:
    from rldyno.toolchains.progress import megabytes

    versions = ", ".join(f"{name} {version}" for name, version in part.versions.items())
    size = megabytes(part.size_bytes)
    return f"part {part.name}: ready, {size}, {part.install_s:.0f} s to install: {versions}"


def _added_line(built: Built) -> str:
    added = [identity.partition(" sha256:")[0] for identity in built.recipe.packages]
    return f"  with {', '.join(added)}\n" if added else ""


def _describe(directory: Path) -> str:
    from rldyno.toolchains.store import pinned_versions, read_finished

    built = read_finished(directory)
    if built is None:
        return f"{directory.name}: unfinished"
    if built.lost:
        return f"{directory.name}: {built.lost_words}"
    versions = ", ".join(f"{name} {version}" for name, version in pinned_versions(built).items())
    return f"{directory.name}: {versions}, Python {built.recipe.python}"


def _confirmed(question: str) -> bool:
    return sys.stdin.isatty() and typer.confirm(question)
