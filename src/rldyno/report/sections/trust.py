"""How far the answer can be trusted: every objection in words, with what removes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl

from rldyno.answers.doubts import doubts
from rldyno.answers.groups import Group
from rldyno.answers.trust import ALONE, BARRED, CLEAR, TOO_NOISY, UNSURE
from rldyno.records.status import DONE
from rldyno.report.heading import seeds_words
from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.report.sections import pitfalls
from rldyno.text.tables import Table

LEVEL_WORDS = {CLEAR: "clear", UNSURE: "doubts", BARRED: "no winner"}
# Lines of an objection that are not folded away.
LINES_OPEN = 2


def levels(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """(level, words) of each level that a comparison has."""
    counts = Counter(group.trust.level for group in groups)
    share = f" of {len(groups)} comparisons" if len(groups) > 1 else ""
    return [
        (level, f"{words}: {counts[level]}{share}" if share else words)
        for level, words in LEVEL_WORDS.items()
        if counts[level]
    ]


def checks(material: Material) -> list[tuple[str, str, str]]:
    """(name, finding, section that has more)."""
    results = material.results
    looked_for = pitfalls.pitfalls_of(material)
    crimes = [item.name for item in looked_for if item.verdict == pitfalls.FOUND]
    return [
        ("Seeds", seeds_words(material.groups) or "none", "comparison"),
        ("Noise", noise_words(results.trials), "machine"),
        ("Certificates", certificate_words(material.groups), "proof"),
        (
            "Pitfalls",
            f"{len(crimes)} of {len(looked_for)} found" + (f": {'; '.join(crimes)}" if crimes else ""),
            "pitfalls",
        ),
    ]


def noise_words(trials: pl.DataFrame) -> str:
    scores = trials.filter(pl.col("status") == DONE)["noise_score"].drop_nulls()
    if scores.is_empty():
        return "not measured"
    ordered = sorted(scores)
    middle, worst = ordered[len(ordered) // 2], ordered[-1]
    return f"median score {middle:.2f}, worst {worst:.2f} (above {TOO_NOISY:g}: disturbed)"


def certificate_words(groups: Sequence[Group]) -> str:
    ran = {row.contestant for group in groups for row in group.rows if row.done and not row.guest}
    unproven = {
        row.contestant
        for group in groups
        for row in group.rows
        if row.done and not (row.certified or row.guest)
    }
    if not unproven:
        return {1: "the contestant has one", 2: "both contestants"}.get(
            len(ran), f"all {len(ran)} contestants"
        )
    return f"{len(ran) - len(unproven)} of {len(ran)} contestants; not {', '.join(sorted(unproven))}"


def badge(group: Group) -> tuple[str, str]:
    """(level, words) beside a comparison; one that nobody else could win is a walkover."""
    if group.trust.about(ALONE) is not None and group.ranked:
        return BARRED, "walkover: nobody else is ranked"
    return group.trust.level, LEVEL_WORDS[group.trust.level]


def context(material: Material) -> dict[str, Any]:
    return {
        "levels": levels(material.groups),
        "doubts": doubts(material.groups),
        "checks": checks(material),
        "comparisons": len(material.groups),
        "lines_open": LINES_OPEN,
    }


def tables(material: Material) -> list[Table]:
    rows = tuple(
        (group.label, LEVEL_WORDS[group.trust.level], objection.words, objection.fix or "–")
        for group in material.groups
        for objection in group.trust.objections
    )
    columns = ("Comparison", "Level", "Objection", "Fix")
    return [Table("trust", "What speaks against the answers", columns, rows)] if rows else []


SECTION = Section(
    id="trust",
    order=15,
    title="Can it be trusted?",
    short="Trust",
    tables=tables,
    context=context,
    shown=lambda _: True,
    open=True,
)
