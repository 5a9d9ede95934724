"""Advice: which contestant to use for each task, how sure that is, and where the choice changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rldyno.answers import advice, wording
from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.text.numbers import factor

# Settings of a task whose advice is written out; `rldyno advise` has the others.
SETTINGS_SHOWN = 6
# Tasks, and lines of each kind per task, that are not folded away.
TASKS_OPEN = 2
LINES_OPEN = 2


@dataclass(frozen=True)
class TaskAdvice:
    """Names in its sentences stand in backticks."""

    task: str
    picks: tuple[str, ...]
    changes: tuple[str, ...]
    """Where another choice becomes better."""
    refusals: tuple[str, ...]
    more: int
    """Settings that are left out."""

    @property
    def longest(self) -> int:
        return max(len(self.picks), len(self.changes), len(self.refusals))


def context(material: Material) -> dict[str, Any]:
    return {"advice": task_advice(material), "tasks_open": TASKS_OPEN, "lines_open": LINES_OPEN}


def task_advice(material: Material) -> list[TaskAdvice]:
    # Not through the analysis, which would keep the resampled runs of every comparison in memory.
    results = material.results
    return [
        advised(advice.advise_task(results, task, [place.group for place in places]))
        for task, places in material.tasks.items()
    ]


def advised(found: advice.Advice) -> TaskAdvice:
    alike = same_everywhere(found)
    picks = [
        prefix(pick.group.setting)
        + f"{wording.pick_words(pick)} {wording.confidence_words(pick, doubts=False)}"
        for pick in (() if alike else found.picks[:SETTINGS_SHOWN])
    ]
    lengths = [
        prefix(pick.group.setting) + wording.length_words(pick, by_length)
        for pick, by_length in found.lengths[:SETTINGS_SHOWN]
    ]
    refusals: dict[str, list[str]] = {}
    for item in found.refusals:
        refusals.setdefault(f"No advice. {item.why} {item.instead}", []).append(item.group.setting)
    return TaskAdvice(
        task=found.task,
        picks=(alike,) if alike else tuple(picks),
        changes=(*(choice.words for choice in found.by_axis if choice.changes or not alike), *lengths),
        refusals=tuple(prefix(*settings) + why for why, settings in refusals.items())[:SETTINGS_SHOWN],
        more=0 if alike else max(0, len(found.picks) - SETTINGS_SHOWN),
    )


def same_everywhere(found: advice.Advice) -> str | None:
    """One sentence where all settings, more than two of them, have one answer that is equally sure."""
    picks = found.picks
    if len(picks) < 3 or len({(pick.contestant, pick.confidence) for pick in picks}) > 1:
        return None
    ratios = [pick.ratio.point for pick in picks if pick.ratio is not None]
    if len(ratios) < len(picks):
        return None
    runners_up = " or ".join(f"`{name}`" for name in sorted({pick.runner_up.contestant for pick in picks}))
    ratio = " to ".join(dict.fromkeys(factor(end) for end in (min(ratios), max(ratios))))
    metric = found.metric
    return (
        f"Take `{picks[0].contestant}` in all {len(picks)} settings: it {wording.superlative(metric)}; "
        f"{wording.gap_words(metric, ratio, runners_up)}. "
        f"Confidence: {picks[0].confidence}."
    )


def prefix(*settings: str) -> str:
    return f"{'; '.join(settings)}: " if any(settings) else ""


SECTION = Section(id="advice", order=30, title="Advice", context=context, shown=lambda _: True, open=True)
