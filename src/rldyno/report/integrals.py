"""liu2022's integrals and figures per step as a table: a study need not vary an axis to have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl

from rldyno.answers.groups import Group
from rldyno.results.integrals import NAMES, missing
from rldyno.text.numbers import number
from rldyno.text.tables import Table

TITLES = {
    "return_integral": "Return",
    "cpu_integral": "CPU, % · s",
    "memory_integral": "Memory, % · s",
    "cpu_per_step": "CPU, % · s / step",
    "memory_per_step": "Memory, % · s / step",
}


def integrals_of_runs(groups: Sequence[Group], uses: Sequence[pl.DataFrame]) -> Table | None:
    """Medians over seeds, by contestant and comparison; `uses` has the rows of series.USE_SCHEMA by group."""
    rows: list[tuple[str, ...]] = []
    for group, use in zip(groups, uses, strict=True):
        done = group.trials.join(use.select("trial", *NAMES), on="trial", how="inner")
        for row in group.rows:
            runs = done.filter(pl.col("contestant") == row.contestant)
            if len(runs):
                cells = [median(runs[name]) for name in NAMES]
                steps = median(runs["steps"], places=0)
                rows.append((row.contestant, group.label, steps, *cells, why_missing(runs)))
    if not rows:
        return None
    columns = ("Contestant", "Comparison", "Steps", *(TITLES[name] for name in NAMES))
    if any(why for *_, why in rows):
        columns = (*columns, "Why a figure is missing")
    else:
        rows = [row[:-1] for row in rows]
    return Table("integrals-of-runs", "Integrals over runs and figures per step", columns, tuple(rows))


def median(values: pl.Series, places: int | None = None) -> str:
    middle = values.cast(pl.Float64).median()
    return number(middle, places) if isinstance(middle, float) else "–"


def why_missing(runs: pl.DataFrame) -> str:
    """What most runs say, and of how many of them figures are missing."""
    found = (missing(row, row["wall_s"], row["steps"]).values() for row in runs.iter_rows(named=True))
    said = ["; ".join(dict.fromkeys(reasons)) for reasons in found if reasons]
    if not said:
        return ""
    share = f" ({len(said)} of {len(runs)} runs)" if len(said) < len(runs) else ""
    return Counter(said).most_common(1)[0][0] + share
