"""Community and languages, as far as package metadata and pip's index say; the rest is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from importlib.metadata import Distribution
from typing import Any

from packaging.version import Version

from rldyno.usability.index import Indexes, IndexFile, all_files
from rldyno.usability.releases import date as first_day

Json = dict[str, Any]
MONTHS = 24
_DAYS_OF_MONTH = 365.25 / 12
_STATUS = "Development Status :: "
_LANGUAGE = "Programming Language :: "


def measure(distribution: Distribution, indexes: Indexes, today: date) -> Json:
    """`today`: the day on which all of it was read."""
    metadata = distribution.metadata
    classifiers = metadata.get_all("Classifier") or []
    files, reason = all_files(indexes, metadata["Name"])
    found = activity(files, today)
    if files and found["first"] is None:
        reason = "the index does not give upload times"
    return {
        "read_on": today.isoformat(),
        "status": next((text.rpartition(" - ")[2] for text in classifiers if text.startswith(_STATUS)), None),
        "languages": languages(classifiers),
        "licence": licence(
            field(distribution, "License-Expression"), field(distribution, "License"), classifiers
        ),
        "urls": urls(metadata.get_all("Project-URL") or [], field(distribution, "Home-page")),
        **found,
        "reason": reason,
        **({"passing": True} if not files else {}),
    }


def field(distribution: Distribution, name: str) -> str | None:
    metadata = distribution.metadata
    return metadata[name] if name in metadata else None  # noqa: SIM401 (its type has no `get`)


def activity(files: Sequence[IndexFile], today: date) -> Json:
    """Final releases that were not withdrawn: how many, how many of them lately, the first and last day."""
    by_version: dict[Version, list[IndexFile]] = {}
    for file in files:
        if not file.yanked and not file.version.is_prerelease:
            by_version.setdefault(file.version, []).append(file)
    days = sorted(day for group in by_version.values() if (day := first_day(group)))
    since = (today - timedelta(days=round(MONTHS * _DAYS_OF_MONTH))).isoformat()
    return {
        "releases": len(by_version) or None,
        "recent": sum(day >= since for day in days) if days else None,
        "first": days[0] if days else None,
        "last": days[-1] if days else None,
    }


def languages(classifiers: Iterable[str]) -> list[str] | None:
    """Names of languages without their versions; None where the metadata name none."""
    named = [
        text.removeprefix(_LANGUAGE).split(" :: ")[0] for text in classifiers if text.startswith(_LANGUAGE)
    ]
    return sorted(set(named)) or None


def licence(expression: str | None, text: str | None, classifiers: Iterable[str]) -> str | None:
    """The expression, else the classifiers, else the field, of which some packages fill in the whole text."""
    named = [text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License :: ")]
    lines = (text or "").strip().splitlines()
    return expression or ", ".join(named) or (lines[0].strip() if lines else None)


def urls(labelled: Iterable[str], home: str | None) -> dict[str, str]:
    """Label → address."""
    found = {
        label.strip(): address.strip() for label, _, address in (text.partition(",") for text in labelled)
    }
    return {"Homepage": home, **found} if home and home != "UNKNOWN" else found
