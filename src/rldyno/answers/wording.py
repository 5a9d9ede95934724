"""Answers and advice in plain sentences. Names of contestants stand in backticks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rldyno.answers.advice import LOW, MODERATE, Pick
from rldyno.answers.break_even import RunLengths
from rldyno.answers.comparison import clearly_different
from rldyno.answers.groups import THRESHOLD, Group, Row
from rldyno.columns import Column
from rldyno.stats.bootstrap import ENOUGH_RUNS
from rldyno.stats.equivalence import UNDECIDED
from rldyno.text.numbers import factor, interval, number


def headline(groups: Sequence[Group]) -> str:
    """One sentence over all groups."""
    if len(groups) == 1:
        return sentence(groups[0])
    winners = Counter(row.contestant for group in groups if (row := winner(group)) is not None)
    if not winners:
        return f"None of the {len(groups)} comparisons has an answer yet."
    (first, wins), *others = winners.most_common()
    kinds = {group.primary.name for group in groups}
    verb = (
        "learned fastest"
        if kinds == {THRESHOLD.name}
        else "ran fastest"
        if THRESHOLD.name not in kinds
        else "came first"
    )
    everywhere = "both" if len(groups) == 2 else f"all {len(groups)}"
    share = f"in {everywhere if wins == len(groups) else f'{wins} of {len(groups)}'} comparisons"
    rest = "".join(f", `{name}` in {count}" for name, count in others)
    clear = sum(resolved(group) for group in groups)
    where = {0: "not clear in any of them", len(groups): "clear in all of them"}.get(
        clear, f"clear in {clear} of them"
    )
    return f"`{first}` {verb} {share}{rest}; the difference is {where}."


def sentence(group: Group) -> str:
    """The answer for one group: who won, by how much, how sure; then who is not ranked and why."""
    return " ".join(filter(None, [verdict(group), laggards(group), unranked(group), unproven(group)]))


def verdict(group: Group) -> str:
    task = f"{group.environment} with {group.algorithm}" + (f" ({group.setting})" if group.setting else "")
    if not group.ranked:
        return f"No contestant can be ranked on {task}."
    best = winner(group)
    if best is None:
        return f"No contestant reached a mean return of {group.stop_return:g} on {task} within the budget."
    figure = best.figures[group.primary.name].estimate
    amount = f"{number(figure.point)} {group.primary.unit}" + spaced(interval(figure))
    did = f"learned {task}" if group.primary is THRESHOLD else f"ran {task}"
    if len(group.ranked) == 1:
        how = "in" if group.primary is THRESHOLD else "at"
        alone = "no other contestant can be compared with it"
        return f"`{best.contestant}` {did} {how} {amount}; {alone}{doubts(group)}."
    return f"`{best.contestant}` {did} fastest: {amount}; {distance(group)}{doubts(group)}."


def distance(group: Group) -> str:
    """By how much the runner-up is behind the winner."""
    second = group.ranked[1]
    ratio = second.figures[group.primary.name].ratio if group.primary.name in second.figures else None
    if ratio is None:
        return "no other contestant reached the threshold within the budget"
    return gap_words(group.primary, factor(ratio.point), f"`{second.contestant}`")


def doubts(group: Group) -> str:
    best = winner(group)
    if best is None:
        return ""
    doubt = []
    figure = best.figures[group.primary.name]
    if figure.note:
        doubt.append(f"but the threshold was {figure.note} runs")
    second = group.ranked[1] if len(group.ranked) > 1 else None
    seeds = min(row.done for row in group.ranked[:2])
    if second is not None and seeds > 1 and not separated(group):
        doubt.append(doubt_words(second, group))
    if seeds == 1:
        doubt.append("with one seed the spread is unknown")
    elif figure.estimate.too_few or (second is not None and seeds < best.done):
        doubt.append(f"{seeds} seeds are too few to be sure")
    return "".join(f"; {item}" for item in doubt)


def doubt_words(second: Row, group: Group) -> str:
    figure = second.figures.get(group.primary.name)
    if figure is not None and figure.equal_within is not None:
        return f"`{second.contestant}` is equal to it within {100 * figure.equal_within:g} %"
    return f"the difference from `{second.contestant}` may be chance{seeds_words(second, group)}"


def laggards(group: Group) -> str | None:
    """Ranked contestants whose median run never got there, when another's did."""
    if winner(group) is None:
        return None
    late = [
        f"`{row.contestant}` ({figure.note})"
        for row in group.ranked
        if (figure := row.figures.get(group.primary.name)) and math.isinf(figure.estimate.point)
    ]
    return f"Did not reach the threshold within the budget: {', '.join(late)}." if late else None


def unranked(group: Group) -> str | None:
    outside = [row for row in group.rows if row.unranked is not None and row.absent is None]
    if not outside:
        return None
    named = "; ".join(f"`{row.contestant}` ({row.unranked})" for row in outside)
    return f"Not ranked: {named}."


def unproven(group: Group) -> str | None:
    """Ranked contestants that have too few seeds to show that they learn like the reference."""
    open_still = [row for row in group.ranked if row.parity is not None and row.parity.state == UNDECIDED]
    if not open_still:
        return None
    names = ", ".join(f"`{row.contestant}`" for row in open_still)
    reference = next(row.parity.reference for row in open_still if row.parity is not None)
    verb = "learns" if len(open_still) == 1 else "learn"
    known = [row.parity.more_seeds for row in open_still if row.parity is not None]
    more = [seeds for seeds in known if seeds is not None]
    needed = f" (about {max(more)} more are needed, 80 % chance)" if more and len(more) == len(known) else ""
    return f"Too few seeds to tell whether {names} {verb} like `{reference}`{needed}."


def seeds_words(second: Row, group: Group) -> str:
    figure = second.figures.get(group.primary.name)
    if figure is None or figure.more_seeds is None:
        return ""
    return f" (about {more_words(figure.more_seeds)} needed to decide)"


def more_words(seeds: int) -> str:
    return f"{seeds} more seed{'' if seeds == 1 else 's'}"


def winner(group: Group) -> Row | None:
    for row in group.ranked[:1]:
        figure = row.figures.get(group.primary.name)
        if figure is not None and math.isfinite(figure.estimate.point):
            return row
    return None


def separated(group: Group) -> bool:
    """Whether the runner-up is clearly different from the first."""
    figure = group.ranked[1].figures.get(group.primary.name)
    return figure is None or clearly_different(figure)


def resolved(group: Group) -> bool:
    """Clear at 95 %: a winner, separated from the runner-up, on enough seeds."""
    best = winner(group)
    if best is None or len(group.ranked) < 2:
        return False
    enough = not any(row.figures[group.primary.name].estimate.too_few for row in group.ranked[:2])
    return enough and separated(group)


def spaced(text: str | None) -> str:
    return f" {text}" if text else ""


SUPERLATIVES = {
    "threshold_s": "learns fastest",
    "steps_per_s": "runs fastest",
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
    figure = pick.best.figures[pick.metric.name].estimate
    scale = pick.metric.scale
    amount = f"{number(figure.point * scale)} {pick.metric.unit}" + spaced(interval(figure, scale))
    other, ratio = f"`{pick.runner_up.contestant}`", pick.ratio
    if ratio is None:
        gap = f"{other} does not reach the threshold within the budget"
    else:
        gap = gap_words(pick.metric, factor(ratio.point) + spaced(interval(ratio)), other)
    return f"Take `{pick.contestant}`: it {superlative(pick.metric)}, {amount}; {gap}."


def confidence_words(pick: Pick, directory: Path) -> str:
    figure = pick.runner_up.figures.get(pick.metric.name)
    seeds = min(pick.best.done, pick.runner_up.done)
    said = [
        f"Confidence: {pick.confidence}.",
        f"In {100 * pick.wins.point:.0f} % of all pairs of runs, its run is better than that of "
        f"`{pick.runner_up.contestant}`.",
    ]
    if pick.confidence == LOW:
        more = figure.more_seeds if figure is not None else None
        if figure is not None and figure.equal_within is not None:
            said.append(f"They are equal within {100 * figure.equal_within:g} %: take either.")
        elif more is None:
            said.append("The difference may be chance, and no reasonable number of seeds would decide it.")
            said.append("Treat them as equal.")
        else:
            # A rule that allows for interim checks needs about half as many again as a fixed number.
            most = seeds + math.ceil(1.5 * more)
            said.append(
                f"The difference may be chance. To decide it, {seeds_until_resolved(directory, seeds, most)}."
            )
    elif pick.confidence == MODERATE:
        more_words = seeds_until_resolved(directory, ENOUGH_RUNS, 2 * ENOUGH_RUNS)
        said.append(f"{seeds} seeds are few. For more, {more_words}.")
    undecided = [
        row.contestant
        for row in (pick.best, pick.runner_up)
        if row.parity is not None and row.parity.state == UNDECIDED
    ]
    if undecided:
        names = " and ".join(f"`{name}`" for name in undecided)
        verb = "learns" if len(undecided) == 1 else "learn"
        said.append(f"There are too few seeds to tell whether {names} {verb} like the others.")
    return " ".join(said)


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


def seeds_until_resolved(directory: Path, fewest: int, most: int) -> str:
    """More seeds after results were seen, by the rule whose tests allow for that."""
    study = directory / "study.toml"
    seeds = f'{{ min = {fewest}, max = {most}, until = "resolved" }}'
    return f"set seeds = {seeds} in {study}, then: rldyno run {study} --out {directory} --amend"
