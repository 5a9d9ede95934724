"""Packages that a user adds to toolchains, for environments of their own, and where they are remembered.

They are part of a build's identity, and a rebuild with new pins installs them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.records.files import remove_abandoned, write_json
from rldyno.records.locks import locked
from rldyno_rig.contestant import Contestant

_LEFT_BY_TOOLS = re.compile(r"__pycache__|\.git|\.venv|build|dist|\..*_cache|.*\.egg-info")


@dataclass(frozen=True)
class Package:
    source: str
    """What `pip install` gets: a requirement, or the absolute path of a project or a wheel."""
    sha256: str = ""
    """Of the files of a path when it was added: the same path with other code is another package."""

    @property
    def key(self) -> str:
        """Two packages with the same key replace each other."""
        return self.source if self.sha256 else canonicalize_name(Requirement(self.source).name)

    @property
    def identity(self) -> str:
        return f"{self.source} sha256:{self.sha256}" if self.sha256 else self.source


def parse_package(text: str) -> Package:
    """`ale-py`, `ale-py==0.11`, `./my-environment` or a wheel; a Problem for anything else."""
    path = Path(text).expanduser()
    if path.exists() and (os.sep in text or text.startswith((".", "~")) or path.is_file()):
        path = path.resolve()
        return Package(str(path), _digest(path))
    try:
        Requirement(text)
    except InvalidRequirement:
        raise Problem(
            f"--with {text!r} is neither a package nor a path that exists",
            fix="give a name or a pin such as ale-py==0.11, or a path such as ./my-environment",
        ) from None
    return Package(text)


def with_packages(known: Sequence[Package], added: Iterable[Package]) -> tuple[Package, ...]:
    """Those that were known, each replaced by an added one of the same name, and the new ones."""
    merged = {package.key: package for package in known}
    merged.update({package.key: package for package in added})
    return tuple(merged.values())


def without_package(known: Sequence[Package], text: str) -> tuple[Package, ...]:
    names = {text, canonicalize_name(text), str(Path(text).expanduser().resolve())}
    return tuple(package for package in known if package.key not in names)


def packages_of(framework: str) -> tuple[Package, ...]:
    """What was added to this toolchain; to that of a release, if to none of its own, what its family has."""
    known = _read()
    return known.get(framework, known.get(Contestant(framework, "").family, ()))


def remember(framework: str, packages: Sequence[Package]) -> None:
    if tuple(packages) == packages_of(framework):
        return
    _file().parent.mkdir(parents=True, exist_ok=True)
    with locked(_file().with_suffix(".lock"), patience_s=10.0):
        _write(framework, packages)


def _write(framework: str, packages: Sequence[Package]) -> None:
    everything = {**_read(), framework: tuple(packages)}
    content = {
        name: [{"source": package.source, "sha256": package.sha256} for package in of]
        for name, of in sorted(everything.items())
        if of
    }
    remove_abandoned(_file().parent)
    write_json(_file(), content)


def _file() -> Path:
    return cache_dir() / "toolchains" / "packages.json"


def _read() -> dict[str, tuple[Package, ...]]:
    path = _file()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {name: tuple(Package(**entry) for entry in of) for name, of in content.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise Problem(
            f"{path} is damaged: {error}", fix="remove it, then `rldyno setup --with` again", code=1
        ) from None


def _digest(path: Path) -> str:
    """SHA-256 over names and contents, without what tools leave beside the code."""
    sha = hashlib.sha256()
    files = [path] if path.is_file() else sorted(entry for entry in path.rglob("*") if entry.is_file())
    for file in files:
        name = file.relative_to(path) if file != path else Path(file.name)
        if not any(map(_LEFT_BY_TOOLS.fullmatch, name.parts)):
            sha.update(str(name).encode() + b"\0" + file.read_bytes() + b"\0")
    return sha.hexdigest()
