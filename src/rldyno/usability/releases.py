"""Which Pythons a package supports and when it was released, from its metadata and from PyPI."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterable
from importlib.metadata import Distribution
from typing import Any

from packaging.version import Version

Json = dict[str, Any]
INDEX = "https://pypi.org/pypi"
TIMEOUT_S = 15.0
_CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)$")


def measure(distribution: Distribution) -> Json:
    name, version = distribution.metadata["Name"], Version(distribution.version).public
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
    try:
        project = fetch(f"{INDEX}/{name}/json")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return {**found, "reason": f"PyPI did not answer for {name}: {reason}", "passing": True}
    own = project.get("releases", {}).get(version, [])
    return {
        **found,
        "wheels_for": pythons(own) if own else None,
        "released": date(own),
        "latest": project.get("info", {}).get("version"),
        "latest_released": date(project.get("urls", [])),
        "reason": None if own else f"PyPI has no file of {name} {version}",
    }


def fetch(address: str) -> Json:
    """Raises OSError without an answer and ValueError when the answer is not JSON."""
    with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:  # noqa: S310 (always https)
        found: Json = json.loads(answer.read())
        return found


def date(files: Iterable[Json]) -> str | None:
    """The day on which the first file of a release was uploaded."""
    return min((file["upload_time"][:10] for file in files if file.get("upload_time")), default=None)


def pythons(files: Iterable[Json]) -> list[str]:
    """`["3.11", "3.12"]` or `["py3"]`: the Pythons that have a wheel of their own; [] for source alone."""
    tags = {file.get("python_version", "") for file in files if file.get("packagetype") == "bdist_wheel"}
    versions = {f"3.{tag[3:]}" for tag in tags if re.fullmatch(r"cp3\d+", tag)}
    return sorted(versions, key=Version) or sorted(tag for tag in tags if tag.startswith("py"))


def classified(classifiers: Iterable[str]) -> list[str]:
    found = [match[1] for text in classifiers if (match := _CLASSIFIER.match(text))]
    return sorted(set(found), key=Version)


def wheel_tags(text: str) -> list[str]:
    return [line.removeprefix("Tag:").strip() for line in text.splitlines() if line.startswith("Tag:")]
