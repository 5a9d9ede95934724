"""Shipped studies that time networks alone: what `rldyno nets` is asked to do for them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldyno.studies.shipped import networks_studies
from rldyno.study.quick import quick_table


@dataclass(frozen=True)
class NetworksStudy:
    title: str
    question: str
    frameworks: tuple[str, ...]
    nets: tuple[str, ...]
    rounds: int

    @staticmethod
    def from_table(table: dict[str, Any]) -> NetworksStudy:
        return NetworksStudy(
            table["title"],
            table["question"],
            tuple(table["frameworks"]),
            tuple(table["nets"]),
            table["rounds"],
        )


def networks_study(given: Path | str, quick: bool = False) -> NetworksStudy | None:
    """The study of this name; None for any other name, and where a file has it."""
    path = networks_studies().get(str(given))
    if path is None or Path(given).exists():
        return None
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return NetworksStudy.from_table(quick_table(table, path.stem) if quick else table)
