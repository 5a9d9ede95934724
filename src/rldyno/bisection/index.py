"""The releases of a framework in a range of versions, from the package index that pip uses."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from rldyno.errors import Problem
from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.interpreters import find_python
from rldyno.toolchains.releases import canonical_release, pinned_package
from rldyno.usability.index import IndexFile, host_of, pip_indexes, project_files, python_tags

RANGE_SIGN = ".."
OFFLINE_FIX = "check the network or the proxy, or name the releases: --releases 0.6.0,0.6.1,0.7.0"


def parse_range(text: str) -> tuple[Version, Version]:
    """`0.5..0.8`, both ends included."""
    first, sign, last = text.partition(RANGE_SIGN)
    try:
        if not sign:
            raise InvalidVersion
        bounds = Version(first), Version(last)
    except InvalidVersion:
        raise Problem(f"`{text}` is not a range of versions", fix="for example 0.5..0.8") from None
    if bounds[0] >= bounds[1]:
        raise Problem(f"the range {text} is empty", fix="give the older version first: OLD..NEW")
    return bounds


def given_releases(texts: Iterable[str]) -> list[str]:
    """Releases that a person names, wheels included, in their order."""
    try:
        found = [canonical_release(text.strip()) for text in texts if text.strip()]
    except ValueError as error:
        raise Problem(
            str(error), fix="for example --releases 0.6.0,0.6.1,./jax-0.7-py3-none-any.whl"
        ) from None
    if len(set(found)) < 2:
        raise Problem("a search needs two releases at least", fix="give more --releases")
    return list(dict.fromkeys(found))


def releases_between(
    chain: Toolchain, variant: str, text: str, pip_args: Sequence[str], pre: bool = False
) -> list[str]:
    """Those with a file for the toolchain's Python, the oldest first; withdrawn ones are left out."""
    bounds = parse_range(text)
    python = find_python(chain.python)
    package = pinned_package(chain.framework, chain.steps(variant), chain.versions)
    files = _files(package, pip_args)
    tags = python_tags(python.version)
    found = sorted(
        {
            file.version
            for file in files
            if bounds[0] <= file.version <= bounds[1]
            and not file.yanked
            and (pre or not file.version.is_prerelease)
            and (file.pythons is None or file.pythons & tags)
        }
    )
    if len(found) < 2:
        known = ", ".join(map(str, found)) or "none"
        raise Problem(
            f"fewer than two releases of {package} in {text} have files for Python {python.version}: {known}",
            fix="give a wider range, or --pre for pre-releases",
            code=1,
        )
    return [str(version) for version in found]


def _files(package: str, pip_args: Sequence[str]) -> list[IndexFile]:
    indexes = pip_indexes(Path(sys.executable), pip_args)
    if not indexes.addresses:
        raise Problem(
            f"pip uses no index here (--no-index), so the releases of {package} are not known",
            fix="name them: --releases 0.6.0,0.6.1,0.7.0",
        )
    found: list[IndexFile] = []
    silent: list[str] = []
    for address in indexes.addresses:
        try:
            found += project_files(indexes, address, package)
        except (OSError, ValueError) as error:
            silent.append(
                f"{host_of(address)} did not answer for {package}: {getattr(error, 'reason', error)}"
            )
    if not found:
        message = "; ".join(silent) or f"no index of pip knows {package}"
        raise Problem(f"the releases of {package} are not known: {message}", fix=OFFLINE_FIX, code=1)
    return found
