"""Advice and verdicts on claims as the report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rldyno.answers import advice, advice_words
from rldyno.answers.breakeven import run_lengths
from rldyno.answers.groups import Group
from rldyno.claims.decide import judge
from rldyno.claims.evidence import gather
from rldyno.claims.form import shipped_claims
from rldyno.claims.show import lines
from rldyno.nets.record import read_record
from rldyno.report.measures import tasks
from rldyno.results.load import Results
from rldyno.text.numbers import factor

# Settings of a task whose advice is spelt out; `rldyno advise` has the others.
SETTINGS_SHOWN = 6


@dataclass(frozen=True)
class TaskAdvice:
    """Names in its sentences stand in backticks."""

    task: str
    picks: tuple[str, ...]
    turns: tuple[str, ...]
    """Where the choice flips."""
    refusals: tuple[str, ...]
    more: int
    """Settings that are left out."""


@dataclass(frozen=True)
class JudgedClaim:
    id: str
    source: str
    statement: str
    verdict: str
    reasons: tuple[str, ...]


def task_advice(results: Results, groups: Sequence[Group]) -> list[TaskAdvice]:
    return [
        advised(results.directory, advice.advise_task(results, task, [groups[index] for index in members]))
        for task, members in tasks(groups).items()
    ]


def advised(directory: Path, found: advice.Advice) -> TaskAdvice:
    alike = same_everywhere(found)
    picks = [
        prefix(pick.group)
        + f"{advice_words.pick_words(pick, found.goal)} {advice_words.confidence_words(pick, directory)}"
        for pick in (() if alike else found.picks[:SETTINGS_SHOWN])
    ]
    lengths = [
        prefix(pick.group) + advice_words.length_words(pick, by_length)
        for pick, by_length in found.lengths[:SETTINGS_SHOWN]
    ]
    refusals = dict.fromkeys(f"No advice: {item.why}. Run instead: {item.instead}" for item in found.refusals)
    return TaskAdvice(
        task=found.task,
        picks=(alike,) if alike else tuple(picks),
        turns=(*(flip.words for flip in found.flips if flip.flips or not alike), *lengths),
        refusals=tuple(refusals)[:SETTINGS_SHOWN],
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
    lead = " to ".join(dict.fromkeys(factor(ratio) for ratio in (min(ratios), max(ratios))))
    does, by = advice_words.does(picks[0].metric), advice_words.by(picks[0].metric)
    return (
        f"Take `{picks[0].contestant}` in all {len(picks)} settings: it {does}, {lead} {by} {runners_up}. "
        f"Confidence: {picks[0].confidence}."
    )


def prefix(group: Group) -> str:
    return f"{group.setting}: " if group.setting else ""


def overtakings_words(group: Group) -> str | None:
    """Who is done first by the length of the run; None when fewer than two are ranked."""
    if len(group.ranked) < 2:
        return None
    found = run_lengths(advice.group_courses(group))
    if found is None:
        return "No break-even: fewer than two of the ranked contestants have a run that made an update."
    return f"{found.words} {advice_words.runs_here(group)}"


def judged_claims(results: Results) -> list[JudgedClaim]:
    """The shipped claims that these results can say something about, then the others."""
    record = read_record(results.directory)
    timed = [] if record is None else [record]
    found = [
        JudgedClaim(
            id=item.claim.id,
            source=item.claim.id.partition("-")[0],
            statement=item.claim.statement,
            verdict=item.verdict,
            reasons=tuple(lines(item)),
        )
        for item in judge(shipped_claims(), gather([results], timed))
    ]
    return sorted(found, key=lambda claim: claim.verdict == "undecided")
