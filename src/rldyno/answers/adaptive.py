"""Interim checks of a study with adaptive seeds: which comparisons are decided, open, and why it stopped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from rldyno.answers.comparison import ROW_COLUMNS, contestant_row, group_frames, scale_of, varying_axes
from rldyno.answers.groups import Row, group_label, primary_metric, setting_label
from rldyno.answers.learning import group_parity
from rldyno.answers.pairs import (
    DIFFERENT,
    EQUAL,
    OPEN,
    UNREACHED,
    Scale,
    Seeded,
    compare_pairs,
    deciding_pairs,
    ranking,
    seeded,
)
from rldyno.answers.ranking import EXPECTED, ranking_values
from rldyno.answers.runs import Runs, by_contestant
from rldyno.answers.trust import Objection, disturbed
from rldyno.columns import Column
from rldyno.records.interim import GroupFinding, PairResult
from rldyno.records.manifest import AdaptiveSeeds, Manifest
from rldyno.results.load import Results
from rldyno.stats.power import POWER
from rldyno.text.numbers import counted

DECIDED = (DIFFERENT, EQUAL)
# Below this chance that all seeds of the study decide a pair, it gets no more of them.
HOPELESS = 0.05
# Fewer gaps leave their spread too open for that.
FORESEEN_FROM = 4
ENDINGS = {
    "resolved": "every comparison is decided",
    "unreached": "more would not help contestants that never reached the threshold; all else is decided",
    "hopeless": "the seeds that the study still allows would hardly decide what is open",
    "max": "the maximum number of seeds of the study has run",
    "hours": "the time limit is reached",
    "nothing": "no two contestants can be compared",
}


@dataclass(frozen=True)
class GroupCheck:
    """One group at one interim check."""

    found: GroupFinding
    trials: Mapping[str, str]
    """Contestant → one of its trials."""
    noise: Objection | None = None
    """Why the answer will not name what these trials have shown so far."""

    @property
    def wanting(self) -> tuple[PairResult, ...]:
        """Open pairs for which another seed is worth its time."""
        return tuple(pair for pair in self.found.pairs if pair.state == OPEN and not hopeless(pair))


def hopeless(pair: PairResult) -> bool:
    if pair.state != OPEN or pair.hope is None or pair.seeds < FORESEEN_FROM:
        return False
    return pair.hope < HOPELESS


def interim_checks(results: Results, rule: AdaptiveSeeds) -> list[GroupCheck]:
    """Every group with two contestants or more. The same records give the same checks."""
    varying = varying_axes(results)
    return [
        check_group(results, group_label(axes, setting_label(axes, varying)), trials, rule)
        for axes, trials in group_frames(results)
        if trials["contestant"].n_unique() > 1
    ]


def ending(checks: Iterable[GroupCheck]) -> str:
    """Why no seed is added."""
    every = [pair for group in checks for pair in group.found.pairs]
    if not every:
        return "nothing"
    open_ = [pair for pair in every if pair.state == OPEN]
    if not open_:
        return "unreached" if any(pair.state == UNREACHED for pair in every) else "resolved"
    return "hopeless" if all(map(hopeless, open_)) else "max"


def check_group(results: Results, label: str, trials: pl.DataFrame, rule: AdaptiveSeeds) -> GroupCheck:
    done = by_contestant(trials)
    left_out = unfit(rows_of(results, trials, done))
    runs, scale = ranked_by(
        {name: found for name, found in done.items() if name not in left_out},
        primary_metric(trials["stop_return"].max()),
        rule,
    )
    order = ranking(runs, scale)
    found = compare_pairs(runs, scale, len(done), rule.max)
    pairs = deciding_pairs(order, rule.until) if order else []
    settled = (found[frozenset(pair)].seen_from(pair[0]) for pair in pairs)
    first_of = dict(zip(trials["contestant"].reverse(), trials["trial"].reverse(), strict=True))
    noise = disturbed(results, [done[name] for name in order]) if order else None
    return GroupCheck(
        GroupFinding(label, tuple(order), tuple(settled), left_out),
        first_of,
        noise if noise is not None and noise.bars else None,
    )


def rows_of(results: Results, trials: pl.DataFrame, done: Mapping[str, Runs]) -> list[Row]:
    """Contestants with their learning parity, as the answer sees them."""
    trials_of: dict[str, list[dict[str, Any]]] = {}
    for trial in trials.select(ROW_COLUMNS).iter_rows(named=True):
        trials_of.setdefault(trial["contestant"], []).append(trial)
    rows = [contestant_row(trials_of[name], runs) for name, runs in done.items()]
    parity = group_parity(results, done, {row.contestant for row in rows if row.unranked is None})
    return [replace(row, parity=parity.get(row.contestant)) for row in rows]


def ranked_by(
    done: Mapping[str, Runs], metric: Column, rule: AdaptiveSeeds
) -> tuple[dict[str, Seeded], Scale]:
    """The values that the answer ranks by: expected times to the threshold where steps can be shared."""
    scale = scale_of(metric, rule.within)
    expected = ranking_values(done) if scale.censorable else None
    if expected is not None:
        known = {name: {seed: (value, True) for seed, value in of.items()} for name, of in expected.items()}
        return dict(known), scale_of(EXPECTED, rule.within)
    return {
        name: seeded(found, None if scale.censorable else metric.name) for name, found in done.items()
    }, scale


def unfit(rows: Iterable[Row]) -> dict[str, str]:
    """Contestants that will not be ranked. Where nothing was proven at all, that alone keeps nobody out."""
    rows = list(rows)
    proving = any(row.certified for row in rows)
    reasons = {
        row.contestant: row.unranked
        for row in rows
        if row.unranked is not None and (proving or row.failed or not row.done)
    }
    return {name: why for name, why in reasons.items() if why is not None}


def latest_checks(manifest: Manifest) -> dict[str, GroupFinding]:
    """Group → what its last check found."""
    checks = manifest.adaptive.checks if manifest.adaptive else ()
    return {group.label: group for check in checks for group in check.groups}


# --- in words -----------------------------------------------------------------------------------------------


def pair_words(pair: PairResult, rule: AdaptiveSeeds) -> str:
    """`numpy:eager / torch:eager: 1.03× [0.97, 1.10] on 8 seeds, open: …`."""
    names = f"{pair.first} / {pair.second}"
    if pair.state == UNREACHED:
        return f"{names}: neither reached the threshold on any of {pair.seeds} seeds; more would not help"
    high = "∞" if math.isinf(pair.high) else f"{pair.high:.2f}"
    effect = "" if math.isnan(pair.ratio) else f"{pair.ratio:.2f}× "
    return f"{names}: {effect}[{pair.low:.2f}, {high}] on {pair.seeds} seeds, {state_words(pair, rule)}"


def check_lines(checks: Sequence[GroupCheck], rule: AdaptiveSeeds) -> list[str]:
    """What an interim check found: open pairs one by one, without figures where noise bars them."""
    every = [(check, pair) for check in checks for pair in check.found.pairs]
    pending = [(check, pair) for check, pair in every if pair.state not in DECIDED]
    open_ = sum(pair.state == OPEN for _, pair in pending)
    lines = [f"interim check: {len(every) - len(pending)} of {len(every)} comparisons decided, {open_} open"]
    lines += [
        f"  {check.found.label}: {pair_words(pair, rule)}" for check, pair in pending if check.noise is None
    ]
    return lines + [
        f"  {check.found.label}: {check.noise.words} So far there is no answer."
        for check in checks
        if check.noise is not None
    ]


def state_words(pair: PairResult, rule: AdaptiveSeeds) -> str:
    if pair.state == UNREACHED:
        return "neither reached the threshold"
    if pair.state == DIFFERENT:
        return "different"
    if pair.state == EQUAL:
        return f"equal within {100 * rule.within:g} %"
    why = f"open: neither clearly different nor within {100 * rule.within:g} %"
    if hopeless(pair):
        return f"{why}, and {rule.max} seeds would hardly decide it ({100 * HOPELESS:g} % chance at most)"
    if pair.more_seeds is None:
        return why
    return f"{why}; about {counted(pair.more_seeds, 'more seed')} needed ({100 * POWER:g} % chance)"


def status_lines(manifest: Manifest) -> list[str]:
    """Where a study with adaptive seeds stands; empty for one with fixed seeds."""
    rule = manifest.adaptive
    if rule is None:
        return []
    last = latest_checks(manifest)
    if not last:
        return [f"adaptive seeds: {rule.min} of each first; no interim check yet"]
    every = [(label, pair) for label, group in last.items() for pair in group.pairs]
    pending = [f"  {label}: {pair_words(pair, rule)}" for label, pair in every if pair.state not in DECIDED]
    open_ = sum(pair.state == OPEN for _, pair in every)
    made = counted(len(rule.checks), "interim check")
    head = f"adaptive seeds, {rule.min} to {rule.max}: {made}, "
    head += f"{counted(len(every) - len(pending), 'comparison')} decided, {open_} open"
    ended = rule.ended
    return [head + (f"; stopped: {ENDINGS[ended]}" if ended else "; seeds are being added"), *pending]
