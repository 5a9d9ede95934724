"""Which Pythons a package supports and when it was released: from its metadata and from pip's index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution
from typing import Any

from packaging.version import Version

from rldyno.usability.index import Indexes, IndexFile, host_of, project_files

Json = dict[str, Any]
_CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)$")


def measure(distribution: Distribution, indexes: Indexes) -> Json:
    """Dates are unknown, with the reason, where no index that pip uses here gives them."""
    name, version = distribution.metadata["Name"], Version(Version(distribution.version).public)
    found: Json = {
        "requires_python": distribution.metadata["Requires-Python"],
        "classifiers": classified(distribution.metadata.get_all("Classifier") or []),
        "wheel_tags": wheel_tags(distribution.read_text("WHEEL") or ""),
        "wheels_for": None,
        "released": None,
        "latest": None,
        "latest_released": None,
        "reason": None,
    }
    if not indexes.addresses:
        return {**found, "reason": "pip uses no index here (--no-index)"}
    reasons: list[str] = []
    silent = False
    for address in indexes.addresses:
        host = host_of(address)
        try:
            files = project_files(indexes, address, name)
        except (OSError, ValueError) as error:
            silent = True
            reasons.append(f"{host} did not answer for {name}: {getattr(error, 'reason', None) or error}")
            continue
        found |= latest(files)
        own = [file for file in files if file.version == version]
        if own and (released := date(own)):
            return {**found, "wheels_for": pythons(own), "released": released}
        reasons.append(
            f"{host} does not give upload times" if own else f"{host} has no file of {name} {version}"
        )
    return {**found, "reason": "; ".join(reasons), **({"passing": True} if silent else {})}


def latest(files: Sequence[IndexFile]) -> Json:
    """The newest final version, and its day."""
    versions = {file.version for file in files if not file.yanked and not file.version.is_prerelease}
    if not versions:
        return {}
    newest = max(versions)
    return {
        "latest": str(newest),
        "latest_released": date(file for file in files if file.version == newest),
    }


def date(files: Iterable[IndexFile]) -> str | None:
    """The day on which the first file of a release was uploaded."""
    return min((file.uploaded for file in files if file.uploaded), default=None)


def pythons(files: Iterable[IndexFile]) -> list[str]:
    """`["3.11", "3.12"]` or `["py3"]`: the Pythons that have a wheel of their own; [] for source alone."""
    tags = {tag for file in files for tag in file.pythons or ()}
    versions = {f"3.{tag[3:]}" for tag in tags if re.fullmatch(r"cp3\d+", tag)}
    return sorted(versions, key=Version) or sorted(tag for tag in tags if tag.startswith("py"))


def classified(classifiers: Iterable[str]) -> list[str]:
    found = [match[1] for text in classifiers if (match := _CLASSIFIER.match(text))]
    return sorted(set(found), key=Version)


def wheel_tags(text: str) -> list[str]:
    return [line.removeprefix("Tag:").strip() for line in text.splitlines() if line.startswith("Tag:")]
