"""The optional parts of built toolchains: where they are kept, and which of them are finished.

A part lives in `parts/<name>-<fingerprint>` below its toolchain's directory and goes with it. Inside it is
what `pip install --prefix` makes (`--target` would lose libraries such as MPI's). It is valid only once its
`ready.json` exists, which is written last.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rldyno.toolchains.catalogue import Part, Toolchain
from rldyno.toolchains.store import READY_FILE, Built
from rldyno_rig.schema import PARTS_VARIABLE

FORMAT = 1
PARTS_DIR = "parts"
PART_PLACE = "{part}"


@dataclass(frozen=True)
class PartRecipe:
    """A part of one built toolchain. What decides its content is in its directory's name; where its packages
    come from is not.
    """

    name: str
    part: Part
    built: Built

    @cached_property
    def fingerprint(self) -> str:
        content = {"format": FORMAT, **self.part.model_dump(mode="json", include={"steps", "source"})}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def directory(self) -> Path:
        return self.built.directory / PARTS_DIR / f"{self.name}-{self.fingerprint}"

    @property
    def variables(self) -> dict[str, str]:
        """With these a worker of the toolchain finds the part."""
        directory = self.directory
        own = {name: value.replace(PART_PLACE, str(directory)) for name, value in self.part.variables.items()}
        return {PARTS_VARIABLE: str(site_packages(directory)), **own}


@dataclass(frozen=True)
class InstalledPart:
    """A part that workers can use."""

    name: str
    versions: dict[str, str]
    """Package → version, of what it added."""
    variables: dict[str, str]
    """Environment variables with which a worker finds it."""
    mpiexec: Path | None = None
    """The launcher of MPI, if the part brings it."""
    size_bytes: int | None = None
    install_s: float | None = None
    """Both None where the user's own interpreter has it."""


def recipe_of(toolchain: Toolchain, name: str, built: Built) -> PartRecipe:
    return PartRecipe(name, toolchain.parts[name], built)


def find_part(recipe: PartRecipe) -> InstalledPart | None:
    """None unless it was finished and is still whole."""
    directory = recipe.directory
    try:
        ready: dict[str, Any] = json.loads((directory / READY_FILE).read_text(encoding="utf-8"))
        whole = set(ready["contents"]) <= set(part_contents(directory))
        found = InstalledPart(
            recipe.name,
            ready["versions"],
            recipe.variables,
            mpiexec_in(directory) if recipe.part.brings_mpi else None,
            ready["size_bytes"],
            ready["install_s"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if whole else None


def part_contents(directory: Path) -> list[str]:
    """Programs, libraries and packages, by name."""
    found = [*directory.glob("bin/*"), *directory.glob("lib/*"), *site_packages(directory).glob("*")]
    return sorted(str(path.relative_to(directory)) for path in found if path.name != "__pycache__")


def site_packages(directory: Path) -> Path:
    """Where pip puts packages: as in the toolchain, whose interpreter it is."""
    toolchain = directory.parents[1]
    inside = next(toolchain.glob("lib/python*/site-packages"), toolchain / "lib" / "site-packages")
    return directory / inside.relative_to(toolchain)


def mpiexec_in(directory: Path) -> Path | None:
    program = directory / "bin" / "mpiexec"
    return program if program.is_file() else None


def superseded_parts(toolchain: Toolchain, built: Built) -> list[Path]:
    """Directories of parts with old pins, and what interrupted builds left."""
    current = {recipe_of(toolchain, name, built).directory for name in toolchain.parts}
    found = (path for path in (built.directory / PARTS_DIR).glob("*") if path.is_dir())
    return sorted(path for path in found if path not in current or not (path / READY_FILE).exists())
