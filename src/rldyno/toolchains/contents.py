"""What a toolchain holds in its site-packages: one that lost a package since it was built is noticed.

Only names are compared, of one directory: that takes a millisecond, an import of the framework takes
seconds. Files that vanish from the inside of a package are not noticed here; the trial that needs them fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

_NOT_PACKAGES = {"__pycache__"}
_METADATA = (".dist-info", ".egg-info")


def contents(directory: Path) -> tuple[str, ...]:
    """Names in the site-packages of a virtual environment: packages, modules and their metadata."""
    found = directory.glob("lib/python*/site-packages/*")
    return tuple(sorted({path.name for path in found} - _NOT_PACKAGES))


def lost(directory: Path, recorded: Iterable[str] | None, versions: Mapping[str, str]) -> tuple[str, ...]:
    """Of what was there when it was built, the names that are gone.

    Builds of earlier versions have recorded the versions of their packages only: those have metadata.
    """
    now = contents(directory)
    if recorded is not None:
        return tuple(sorted(set(recorded) - set(now)))
    known = {canonicalize_name(name.partition("-")[0]) for name in now if name.endswith(_METADATA)}
    return tuple(sorted(set(versions) - {name.removesuffix(".egg-info") for name in known}))
