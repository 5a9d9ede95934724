"""Answers and advice in plain sentences. Names of contestants stand in backticks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from rldyno.answers.advice import LOW, Advice, Pick
from rldyno.answers.algorithms import AlgorithmAdvice
from rldyno.answers.break_even import RunLengths
from rldyno.answers.groups import THRESHOLD, Group, Row
from rldyno.answers.ranking import EXPECTED
from rldyno.answers.trust import EQUAL, KINDS, UNLEARNED, UNSURE, UNTUNED, Objection, compared, names
from rldyno.columns import Column
from rldyno.text.numbers import count, factor, first_and_more, interval, number


def headline(groups: Sequence[Group]) -> str:
    """One sentence over all groups: who won how many contests, and what has no answer."""
    if len(groups) == 1:
        return sentence(groups[0])
    contests = [group for group in groups if len(group.ranked) > 1]
    answered = [group for group in contests if not group.trust.barred]
    won = [group for group in answered if not group.trust.tied]
    parts = [wins_words(won, len(contests))] if won else []
    ties = sum(group.trust.about(EQUAL) is not None for group in answered)
    unclear = len(answered) - len(won) - ties
    if unclear:
        parts.append(f"{unclear} {verb(unclear, 'has', 'have')} no clear winner")
    if ties:
        parts.append(f"in {ties} the first two are equal")
    if won:
        parts += doubt_counts(won)
    barred = [group for group in groups if group.trust.barred]
    why = kind_counts(group.trust.reasons[:1] for group in barred)
    if not answered:
        none = "Neither comparison" if len(groups) == 2 else f"None of the {len(groups)} comparisons"
        parts.append(f"{none} has an answer: {why}")
    elif barred:
        parts.append(f"{len(barred)} {verb(len(barred), 'has', 'have')} no answer: {why}")
    outdone = sum(bool(group.outdoing(group.primary)) for group in groups)
    if outdone:
        parts.append(f"in {outdone} somebody who cannot be ranked has the better value")
    return f"{'; '.join(parts)}."


def wins_words(won: Sequence[Group], contests: int) -> str:
    winners = Counter(compared(group, group.primary)[0].contestant for group in won)
    (first, wins), *others = winners.most_common()
    timed = {group.primary.unit == "s" for group in won}
    did = "came first" if len(timed) > 1 else "learned fastest" if timed == {True} else "ran fastest"
    everywhere = {1: "the only comparison", 2: "both comparisons"}.get(
        contests, f"all {contests} comparisons"
    )
    share = everywhere if wins == contests else f"{wins} of {contests} comparisons"
    return f"`{first}` {did} in {share}" + "".join(f", `{name}` in {count}" for name, count in others)


def doubt_counts(won: Sequence[Group]) -> list[str]:
    unsure = [group for group in won if group.trust.level == UNSURE]
    if not unsure:
        return ["the difference is clear in all of them" if len(won) > 1 else "the difference is clear"]
    return [f"doubts remain in {len(unsure)}: {kind_counts(group.trust.objections for group in unsure)}"]


def kind_counts(objections: Iterable[Sequence[Objection]]) -> str:
    kinds = Counter(objection.kind for found in objections for objection in found)
    return ", ".join(f"{KINDS[kind]} ({count})" for kind, count in kinds.most_common())


def verb(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


def sentence(group: Group) -> str:
    """The answer for one group: who won, by how much, how sure; then who is not ranked and why."""
    said = [verdict(group), laggards(group), unranked(group)]
    return " ".join(filter(None, said))


def short_sentence(group: Group) -> str:
    """Who won and by how much: for a page that shows doubts, and who is not ranked, beside it."""
    return " ".join([verdict(group, doubts=False), *better_unranked(group)])


def won_words(group: Group) -> str:
    """Who won and by how much, below a table that has the other values."""
    if group.trust.barred and len(group.ranked) > 1:
        return " ".join([f"No winner on {task_words(group)}.", *better_unranked(group)])
    return " ".join(filter(None, [short_sentence(group), laggards(group)]))


def task_words(group: Group) -> str:
    return f"{group.environment} with {group.algorithm}" + (f" ({group.setting})" if group.setting else "")


def outsiders(groups: Sequence[Group]) -> list[str]:
    """Who else is not ranked, once for each reason; `won_words` has those with a better value."""
    found: dict[str, dict[str, list[str]]] = {}
    for group in groups:
        better = group.outdoing(group.primary)
        for row in group.rows:
            if (
                row.unranked is not None
                and row.absent is None
                and row not in better
                and not ran_as_guest(row)
            ):
                where = found.setdefault(row.unranked, {}).setdefault(row.contestant, [])
                where.append(group.label)
    lines = []
    for why, who in found.items():
        labels = list(dict.fromkeys(label for there in who.values() for label in there))
        place = "" if len(groups) == 1 or len(labels) == len(groups) else f" in {first_and_more(labels)}"
        lines.append(f"Not ranked{place}: {', '.join(f'`{name}`' for name in who)} ({why}).")
    return lines


def ran_as_guest(row: Row) -> bool:
    """Guests have lines of their own, unless they failed."""
    return row.guest and row.done > 0 and not row.failed


def verdict(group: Group, doubts: bool = True) -> str:
    task, trust, metric = task_words(group), group.trust, group.primary
    rows = compared(group, metric)
    if trust.barred:
        why = f" {trust.words}" if doubts else ""
        asides = (trust.about(UNLEARNED), trust.about(UNTUNED)) if doubts else ()
        return " ".join(filter(None, [no_winner(group, rows, task, why), *map(words_of, asides)]))
    missed = rows[0].figures[THRESHOLD.name].note if THRESHOLD.name in rows[0].figures else None
    reached = f"The threshold was {missed} of its runs." if missed else ""
    return " ".join(filter(None, [lead(group, rows, task), reached, trust.words if doubts else ""]))


def no_winner(group: Group, rows: Sequence[Row], task: str, why: str) -> str:
    values = ", ".join(value_words(row, group.primary) for row in rows)
    if not group.ranked:
        return f"No contestant can be ranked on {task}."
    if len(group.ranked) == 1:
        return f"Only {values} can be ranked on {task}: nobody to compare it with."
    measured = f" {group.primary.heading}: {values}." if values else ""
    return f"No winner on {task}.{why}{measured}"


def lead(group: Group, rows: Sequence[Row], task: str) -> str:
    """Who is first and by how much; nobody, where the difference may be chance."""
    metric = group.primary
    if group.trust.tied:
        none = "No clear winner" if group.trust.about(EQUAL) is None else "No single winner"
        return f"{none} on {task}: {value_words(rows[0], metric)}, {value_words(rows[1], metric)}."
    did = f"learned {task}" if metric.unit == "s" else f"ran {task}"
    among = " of those that can be ranked" if group.outdoing(metric) else ""
    size = f"{amount(rows[0], metric)}{steps_words(group)}; {distance(rows, metric)}"
    return f"`{rows[0].contestant}` {did} fastest{among}: {size}."


def words_of(objection: Objection | None) -> str:
    return "" if objection is None else objection.words


def steps_words(group: Group) -> str:
    """For how many steps a time is expected."""
    steps = group.shared_steps
    return "" if steps is None else f" for {count(steps)} steps, the median of all runs"


def value_words(row: Row, metric: Column) -> str:
    """`torch:eager` (4.98 s [3.39, 6.29])."""
    if metric.name not in row.figures:
        return f"`{row.contestant}`"
    return f"`{row.contestant}` ({amount(row, metric)})"


def amount(row: Row, metric: Column) -> str:
    figure = row.figures[metric.name]
    if math.isinf(figure.estimate.point):
        return figure.note or "not reached"
    size = f"{number(figure.estimate.point * metric.scale)} {metric.unit}".rstrip()
    return size + spaced(interval(figure.estimate, metric.scale))


def distance(rows: Sequence[Row], metric: Column) -> str:
    """By how much the runner-up is behind the winner."""
    ratio = rows[1].figures[metric.name].ratio
    if ratio is None:
        return "no other contestant reached the threshold within the budget"
    return gap_words(metric, factor(ratio.point) + spaced(interval(ratio)), f"`{rows[1].contestant}`")


def laggards(group: Group) -> str | None:
    """Ranked contestants whose median run never got there, when another's did."""
    if group.trust.barred:
        return None
    late = [
        f"`{row.contestant}` ({figure.note})"
        for row in group.ranked
        if (figure := row.figures.get(group.primary.name)) and math.isinf(figure.estimate.point)
    ]
    return f"Did not reach the threshold within the budget: {', '.join(late)}." if late else None


def unranked(group: Group) -> str | None:
    """Who is shown without a rank, and why; whoever has a better value comes first, with that value."""
    outside = [row for row in group.rows if row.unranked is not None and row.absent is None]
    better = group.outdoing(group.primary)
    rest = [row for row in outside if row not in better]
    said = better_unranked(group)
    if rest:
        reasons = dict.fromkeys(row.unranked for row in rest)
        alike = (([row for row in rest if row.unranked == why], why) for why in reasons)
        named = "; ".join(f"{names(rows)} ({why})" for rows, why in alike)
        said.append(f"Not ranked: {named}.")
    return " ".join(said) or None


def better_unranked(group: Group) -> list[str]:
    measured = group.primary if group.shared_steps is None else THRESHOLD
    return [
        f"{value_words(row, measured)} has the better value but does not count: {row.unranked}."
        for row in group.outdoing(group.primary)
    ]


def spaced(text: str | None) -> str:
    return f" {text}" if text else ""


SUPERLATIVES = {
    "expected_threshold_s": "learns fastest",
    "threshold_s": "learns fastest",
    "steps_per_s": "runs fastest",
    "framework_step_s": "spends the least time in its framework",
    "peak_rss_bytes": "needs the least memory",
    "energy_joules": "needs the least energy",
    "startup_s": "starts up fastest",
}
GAPS = {
    **dict.fromkeys(("s", "µs"), "{other} takes {ratio} as long"),
    **dict.fromkeys(("MB", "J"), "{other} needs {ratio} as much"),
    "steps/s": "it is {ratio} as fast as {other}",
}
"""By unit."""


def superlative(metric: Column) -> str:
    degree = "highest" if metric.more_is_better else "lowest"
    return SUPERLATIVES.get(metric.name, f"has the {degree} {metric.words}")


def gap_words(metric: Column, ratio: str, other: str) -> str:
    """`torch:eager takes 3.2× as long`, from a ratio as text."""
    higher = "its value is {ratio} that of {other}"
    lower = "the value of {other} is {ratio} as high"
    return GAPS.get(metric.unit, higher if metric.more_is_better else lower).format(ratio=ratio, other=other)


def pick_words(pick: Pick) -> str:
    """`Take X: it learns fastest, 1.84 s [1.71, 1.92]; Y takes 3.2× [2.9, 3.5] as long.`"""
    metric = pick.metric
    if pick.trust.tied:
        either = f"{value_words(pick.best, metric)} or {value_words(pick.runner_up, metric)}"
        why = "neither is clearly better" if pick.confidence == LOW else "they are equal"
        return f"Take {either}: {why}."
    other, ratio = f"`{pick.runner_up.contestant}`", pick.ratio
    if metric.name == "final_return":
        # Returns may be below zero: their ratio says nothing.
        gap = f"{other} has {amount(pick.runner_up, metric)}"
    elif ratio is None:
        gap = f"{other} does not reach the threshold within the budget"
    else:
        gap = gap_words(metric, factor(ratio.point) + spaced(interval(ratio)), other)
    steps = steps_words(pick.group) if metric is EXPECTED else ""
    return f"Take `{pick.contestant}`: it {superlative(metric)}, {amount(pick.best, metric)}{steps}; {gap}."


def confidence_words(pick: Pick, doubts: bool = True) -> str:
    """How sure, the doubts, and what would remove them."""
    wins = (
        f"In {100 * pick.wins.point:.0f} % of all pairs of runs, `{pick.contestant}` is better than "
        f"`{pick.runner_up.contestant}`."
    )
    why = [pick.trust.words, *pick.trust.fixes] if doubts else []
    return " ".join(filter(None, [f"Confidence: {pick.confidence}.", wins, *why]))


def algorithm_words(contestant: str, pick: Pick) -> str:
    """`With torch:eager, take PPO: …`, from a pick among algorithms."""
    return f"With `{contestant}`, t{pick_words(pick)[1:]}"


def together_words(found: AlgorithmAdvice, frameworks: Sequence[Advice]) -> str | None:
    """An algorithm that all contestants agree on, and the contestant to take with it."""
    algorithm, here = found.agreed, found.matches[0]
    if algorithm is None:
        return None
    place = (algorithm, here.environment, here.setting)
    best = [
        pick
        for advice in frameworks
        for pick in advice.picks
        if (pick.group.algorithm, pick.group.environment, pick.group.setting) == place and not pick.trust.tied
    ]
    everybody = "" if len(found.picks) == 1 else ", whichever contestant"
    framework = f" With it, take `{best[0].contestant}`." if best else ""
    return f"The algorithm to take is `{algorithm}`{everybody}.{framework}"


def evidence_words(pick: Pick) -> str:
    runs = " and ".join(f"{row.done} runs of `{row.contestant}`" for row in (pick.best, pick.runner_up))
    return f"Evidence: {pick.metric.words} of {runs} ({pick.group.label})."


def length_words(pick: Pick, found: RunLengths) -> str:
    """Who to take by the length of a run, start-up included."""
    return f"By run length, start-up included: {found.words} {runs_here(pick.group)}".rstrip()


def runs_here(group: Group) -> str:
    """Up to which length break-evens were measured."""
    taken = np.concatenate([group.runs[row.contestant].known("steps") for row in group.ranked])
    if not len(taken):
        return ""
    return f"Runs here took about {number(float(np.median(taken)), 0)} steps; longer runs are extrapolated."
