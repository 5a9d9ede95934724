"""The answer of a search: one sentence, a table, or JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rldyno.bisection.question import METRICS
from rldyno.bisection.search import MOVED, UNCHANGED, Comparison, Evidence, Finding
from rldyno.text.numbers import factor, number

if TYPE_CHECKING:
    from rich.console import Console

Json = dict[str, Any]


def sentence(evidence: Evidence, finding: Finding) -> str:
    question, ends, step = evidence.question, finding.ends, finding.step
    name = f"{question.framework}:{question.mode}"
    figure = METRICS[question.metric]
    if ends is None:
        return f"{name}: fewer than two releases could be measured, so nothing can be said."
    span = f"from {ends.old} to {ends.new}"
    if ends.verdict == UNCHANGED:
        within = f"{question.threshold:.0%}"
        return (
            f"{name}: {figure} did not change by more than {within} {span}: {ratio_words(ends)}. "
            "A change that a later release undid is not seen."
        )
    if ends.verdict != MOVED or step is None:
        rounds = f"after {ends.rounds} rounds"
        more = f"The same command with --rounds {2 * ends.rounds} goes on."
        return f"{name}: no change of {figure} is shown {span} {rounds}: {ratio_words(ends)}. {more}"
    if step.verdict != MOVED:
        return (
            f"{name}: {figure} changed {span}, {ratio_words(ends)}, but in no single release by more than "
            f"the noise; {step.old} and {step.new} are where half of the change is passed."
        )
    between = skipped_between(evidence, step)
    unknown = f" ({', '.join(between)} between them could not be measured)" if between else ""
    return f"{name}: {figure} moved from {step.old} to {step.new}{unknown}: {ratio_words(step)}."


def ratio_words(found: Comparison) -> str:
    """`1.21× as long (1.15× to 1.28×, 41 → 50 µs)`."""
    span = f"{bound(found.low)} to {bound(found.high)}"
    return f"{factor(found.ratio)} as long ({span}, {time_words(found)})"


def bound(value: float) -> str:
    return "∞" if not math.isfinite(value) or value > 1e6 else factor(value)


def time_words(found: Comparison) -> str:
    unit, scale = ("s", 1.0) if found.old_s >= 1 else ("ms", 1e3) if found.old_s >= 1e-3 else ("µs", 1e6)
    return f"{number(found.old_s * scale)} → {number(found.new_s * scale)} {unit}"


def skipped_between(evidence: Evidence, step: Comparison) -> list[str]:
    releases = evidence.releases
    inside = releases[releases.index(step.old) + 1 : releases.index(step.new)]
    return [release for release in inside if release in (evidence.skipped or {})]


def progress_line(found: Comparison) -> str:
    known = math.isfinite(found.low) and found.high < 1e6 and found.low > 1e-6
    span = f", {bound(found.low)} to {bound(found.high)}" if known else ""
    return f"{found.old} → {found.new}, round {found.rounds}: {factor(found.ratio)}{span}"


def as_json(evidence: Evidence, finding: Finding) -> Json:
    return {
        "sentence": sentence(evidence, finding),
        "found": finding.found,
        "old": finding.step.old if finding.found and finding.step else None,
        "new": finding.step.new if finding.found and finding.step else None,
        "question": evidence.question.to_json(),
        "error_of_each": evidence.error,
        "releases": list(evidence.releases),
        "skipped": dict(evidence.skipped or {}),
        "comparisons": [_finite(asdict(one)) for one in finding.comparisons],
    }


def _finite(values: Json) -> Json:
    """JSON has no infinity: a bound that is not known is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def show(evidence: Evidence, finding: Finding, console: Console) -> None:
    from rich import box
    from rich.table import Table

    from rldyno.text.terminal import print_fitting

    if finding.comparisons:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in ("Old", "New", "Verdict"):
            table.add_column(title)
        for title in ("New / old", "Interval", "Old → new", "Rounds"):
            table.add_column(title, justify="right")
        for one in finding.comparisons:
            interval = f"{bound(one.low)} to {bound(one.high)}"
            cells = (factor(one.ratio), interval, time_words(one), str(one.rounds))
            table.add_row(one.old, one.new, one.verdict or "used to halve the range", *cells)
        print_fitting(table, console, ("New", "New / old"), "--json")
    for release, reason in (evidence.skipped or {}).items():
        console.print(f"not measured: {release}: {reason}", style="yellow", markup=False, soft_wrap=True)
    console.print(sentence(evidence, finding), style="bold", markup=False, soft_wrap=True)
