"""Comparisons of trials that ran on machines of several kinds: one for each kind, and what to say of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rldyno.records.status import DONE
from rldyno.results.load import PROCESSOR, Results

if TYPE_CHECKING:
    from rldyno.answers.groups import Group


def several_kinds(results: Results, group: Group) -> str | None:
    """None where all trials of the comparison ran on one kind, or where older records do not say."""
    here = group.axes.get(PROCESSOR)
    if here is None:
        return None
    others = [name for name in results.axes if name != PROCESSOR]
    alike = [pl.col(name).eq_missing(pl.lit(group.axes[name])) for name in others]
    done = results.trials.filter(*alike, pl.col("status") == DONE)
    kinds = sorted(done[PROCESSOR].drop_nulls().unique())
    if len(kinds) < 2:
        return None
    said = (
        f"Trials ran on {len(kinds)} kinds of machines ({', '.join(kinds)}): each kind is compared by itself"
    )
    ran_here = set(done.filter(pl.col(PROCESSOR) == here)["contestant"])
    elsewhere = [f"`{name}`" for name in dict.fromkeys(done["contestant"]) if name not in ran_here]
    if elsewhere:
        said += f", and {', '.join(elsewhere)} ran on another kind only"
    return f"{said}."
