"""What failed, what is absent, what could not be read."""

from __future__ import annotations

from typing import Any

import polars as pl

from rldyno.records.status import FAILED
from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.results.load import Results


def failures(results: Results) -> list[dict[str, Any]]:
    """Failed trials but for absences and interruptions; those with the same message are one entry."""
    failed = results.trials.filter(
        pl.col("status") == FAILED, ~pl.col("reason").is_in(["absent", "interrupted"])
    )
    merged = failed.group_by("contestant", "reason", "message", maintain_order=True).agg(
        pl.col("trial"), pl.col("log_tail").drop_nulls().first()
    )
    return merged.to_dicts()


def context(material: Material) -> dict[str, Any]:
    return {
        "failures": failures(material.results),
        "absences": material.absences,
        "unreadable": [*material.results.flaws, *material.damaged],
    }


SECTION = Section(
    id="failures",
    order=180,
    title="Failures and absences",
    about="what failed or is absent, with the end of its log",
    short="Failures",
    context=context,
    shown=lambda material: any(context(material).values()),
)
