"""Where memory goes, stage by stage of a run, and whether it still grows at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rldyno.answers.groups import Group
from rldyno.answers.runs import Runs
from rldyno.report.measures import significant
from rldyno.text.numbers import number
from rldyno.text.tables import Table

Json = dict[str, Any]
# Stage → the column with the resident set at its end; each adds to the one before. The framework's holds the
# interpreter, the learner's the environments, the first calls compile and warm up.
STAGES = {
    "framework": "memory_after_import_bytes",
    "learner": "memory_after_build_bytes",
    "first calls": "memory_after_first_call_bytes",
    "training": "memory_steady_bytes",
    "peak": "peak_rss_bytes",
}


def split_rows(group: Group) -> list[Json]:
    """What each stage adds to the resident set, in MB: medians over runs. A stage that frees adds nothing."""
    rows = []
    ran = [row for row in group.rows if len(group.runs[row.contestant])]
    for order, row in enumerate(ran):
        held = 0.0
        for index, (stage, column) in enumerate(STAGES.items()):
            level = group.runs[row.contestant].middle(column)
            if level is None:
                continue
            added, held = max(0.0, level - held), max(held, level)
            rows.append(
                {
                    "contestant": row.contestant,
                    "order": order,
                    "part": stage,
                    "part_order": index,
                    "mb": significant(added / 1e6),
                    "text": f"{number(added / 1e6)} MB, {number(held / 1e6)} MB in all",
                }
            )
    known = {row["part"] for row in rows}
    # The peak alone splits nothing.
    return rows if len(known) > 1 else []


def growth_table(groups: Sequence[Group]) -> Table | None:
    """Growth of the resident set at the end of training, leaks first; None where it was not measured."""
    rows = [
        (row.contestant, group.label, *growth_cells(group.runs[row.contestant]))
        for group in groups
        for row in group.rows
        if len(group.runs[row.contestant].known("memory_growth_bytes_per_s"))
    ]
    if not rows:
        return None
    rows.sort(key=lambda row: row[-1] in ("none", "–"))
    return Table(
        name="memory-growth",
        title="Growth of memory over the second half of training, and leaks",
        columns=(
            "Contestant",
            "Comparison",
            "Steady, MB",
            "In use at the end, MB",
            "Growth, kB/s",
            "Widest 95 % interval",
            "Leaks in",
        ),
        rows=tuple(rows),
    )


def growth_cells(runs: Runs) -> tuple[str, ...]:
    growth = runs.known("memory_growth_bytes_per_s")
    low, high = (runs.known(f"memory_growth_{end}") for end in ("low", "high"))
    steady, used = runs.middle("memory_steady_bytes"), runs.middle("memory_used_bytes")
    leaks, judged = int((runs["memory_leak"] > 0).sum()), len(runs.known("memory_leak"))
    widest = f"{kilobytes(low.min())} to {kilobytes(high.max())}" if len(low) and len(high) else "–"
    return (
        *("–" if held is None else number(held / 1e6) for held in (steady, used)),
        kilobytes(float(np.median(growth))),
        widest,
        f"{leaks} of {judged} runs" if leaks else "none" if judged else "–",
    )


def kilobytes(value: float) -> str:
    return "–" if math.isnan(value) else f"{value / 1e3:+,.1f}"
