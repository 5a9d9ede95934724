"""Advice in plain sentences. Names of contestants stand in backticks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from rldyno.answers.advice import LOW, MODERATE, Pick
from rldyno.answers.breakeven import RunLengths
from rldyno.answers.groups import Group
from rldyno.columns import Column
from rldyno.stats.bootstrap import ENOUGH_RUNS
from rldyno.stats.equivalence import UNDECIDED
from rldyno.text.numbers import factor, interval, number

DOES = {
    "threshold_s": "learns soonest",
    "steps_per_s": "runs fastest",
    "peak_rss_bytes": "needs the least memory",
    "energy_joules": "needs the least energy",
    "startup_s": "starts up fastest",
}
BY = {"threshold_s": "sooner than", "steps_per_s": "as fast as", "startup_s": "sooner than"}


def does(metric: Column) -> str:
    degree = "highest" if metric.more_is_better else "lowest"
    return DOES.get(metric.name, f"has the {degree} {metric.words}")


def by(metric: Column) -> str:
    return BY.get(metric.name, "as much as" if metric.more_is_better else "less than")


def pick_words(pick: Pick, goal: str) -> str:
    """`Take X: it learns soonest, 1.84 s [1.71, 1.92], 3.2× [2.9, 3.5] sooner than Y.`"""
    figure = pick.best.figures[pick.metric.name].estimate
    scale = pick.metric.scale
    amount = f"{number(figure.point * scale)} {pick.metric.unit}"
    amount += f" {spread}" if (spread := interval(figure, scale)) else ""
    ratio = pick.ratio
    if ratio is None:
        lead = f"while `{pick.runner_up.contestant}` does not get there within the budget"
    else:
        ends = f" {spread}" if (spread := interval(ratio)) else ""
        lead = f"{factor(ratio.point)}{ends} {by(pick.metric)} `{pick.runner_up.contestant}`"
    return f"Take `{pick.contestant}`: it {does(pick.metric)}, {amount}, {lead}."


def confidence_words(pick: Pick, directory: Path) -> str:
    figure = pick.runner_up.figures.get(pick.metric.name)
    seeds = min(pick.best.done, pick.runner_up.done)
    said = f"Confidence: {pick.confidence}. A run of it beats one of `{pick.runner_up.contestant}` in "
    said += f"{100 * pick.wins.point:.0f} % of pairs."
    if pick.confidence == LOW:
        more = figure.more_seeds if figure is not None else None
        if figure is not None and figure.equal_within is not None:
            said += f" They are equal within {100 * figure.equal_within:g} %: take either."
        elif more is None:
            said += (
                " The lead may be chance, and no reasonable number of seeds would tell: treat them as equal."
            )
        else:
            # A rule that allows for looks needs about half as many again as a number fixed beforehand.
            most = seeds + math.ceil(1.5 * more)
            said += f" The lead may be chance; to tell, {seeds_until_resolved(directory, seeds, most)}."
    elif pick.confidence == MODERATE:
        more_words = seeds_until_resolved(directory, ENOUGH_RUNS, 2 * ENOUGH_RUNS)
        said += f" {seeds} seeds are few; for more, {more_words}."
    undecided = [
        row.contestant
        for row in (pick.best, pick.runner_up)
        if row.parity is not None and row.parity.state == UNDECIDED
    ]
    if undecided:
        names = " and ".join(f"`{name}`" for name in undecided)
        said += f" That {names} learns like the others is not shown yet."
    return said


def evidence_words(pick: Pick) -> str:
    rows = (pick.best, pick.runner_up)
    runs = " and ".join(f"{row.done} runs of `{row.contestant}`" for row in rows)
    return f"Evidence: {runs}, {pick.metric.words} in the table of {pick.group.label}."


def length_words(pick: Pick, found: RunLengths) -> str:
    """Who to take by the length of a run, start-up included."""
    return f"By run length, start-up included: {found.words} {runs_here(pick.group)}".rstrip()


def runs_here(group: Group) -> str:
    """How far break-evens can be seen and not only reckoned."""
    taken = np.concatenate([group.runs[row.contestant].known("steps") for row in group.ranked])
    if not len(taken):
        return ""
    return (
        f"Runs here took about {number(float(np.median(taken)), 0)} steps; what lies beyond is extrapolated."
    )


def seeds_until_resolved(directory: Path, fewest: int, most: int) -> str:
    """More seeds after a look, by the rule whose tests allow for it."""
    study = directory / "study.toml"
    seeds = f'{{ min = {fewest}, max = {most}, until = "resolved" }}'
    return f"with seeds = {seeds} in {study}: rldyno run {study} --out {directory} --amend"
