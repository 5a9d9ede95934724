"""Interim checks of a study with adaptive seeds: which comparisons are decided, open, and why it stopped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from rldyno.answers.comparison import ROW_COLUMNS, contestant_row, group_frames, scale_of, varying_axes
from rldyno.answers.groups import Row, group_label, primary_metric, setting_label
from rldyno.answers.pairs import (
    DIFFERENT,
    EQUAL,
    OPEN,
    UNREACHED,
    PairResult,
    compare_pairs,
    deciding_pairs,
    ranking,
    seeded,
)
from rldyno.answers.runs import by_contestant
from rldyno.records.files import Json
from rldyno.records.manifest import AdaptiveSeeds, Manifest
from rldyno.results.load import Results

ENDINGS = {
    "resolved": "every comparison is decided",
    "max": "the maximum number of seeds of the study has run",
    "hours": "the time limit is reached",
    "nothing": "no two contestants can be compared",
}


@dataclass(frozen=True)
class GroupCheck:
    """One group at one interim check."""

    label: str
    order: tuple[str, ...]
    """Contestants from the best to the worst so far."""
    pairs: tuple[PairResult, ...]
    """Those that decide, the better one first."""
    left_out: Mapping[str, str]
    """Contestants that are not compared, and why."""
    trials: Mapping[str, str]
    """Contestant → one of its trials."""

    @property
    def open(self) -> tuple[PairResult, ...]:
        return tuple(pair for pair in self.pairs if pair.state == OPEN)


def interim_checks(results: Results, rule: AdaptiveSeeds) -> list[GroupCheck]:
    """Every group with two contestants or more. The same records give the same checks."""
    varying = varying_axes(results)
    return [
        check_group(group_label(axes, setting_label(axes, varying)), trials, rule)
        for axes, trials in group_frames(results)
        if trials["contestant"].n_unique() > 1
    ]


def ending(checks: Iterable[GroupCheck]) -> str:
    """Why no seed is added."""
    every = [pair for group in checks for pair in group.pairs]
    if not every:
        return "nothing"
    return "max" if any(pair.state == OPEN for pair in every) else "resolved"


def check_group(label: str, trials: pl.DataFrame, rule: AdaptiveSeeds) -> GroupCheck:
    trials_of: dict[str, list[dict[str, Any]]] = {}
    for trial in trials.select(ROW_COLUMNS).iter_rows(named=True):
        trials_of.setdefault(trial["contestant"], []).append(trial)
    done = by_contestant(trials)
    left_out = unfit([contestant_row(trials_of[name], runs, {}) for name, runs in done.items()])
    metric = primary_metric(trials["stop_return"].max())
    scale = scale_of(metric, rule.within)
    runs = {
        name: seeded(found, None if scale.censorable else metric.name)
        for name, found in done.items()
        if name not in left_out
    }
    order = ranking(runs, scale)
    found = compare_pairs(runs, scale, family=len(done))
    pairs = deciding_pairs(order, rule.until) if order else []
    settled = (found[frozenset(pair)].seen_from(pair[0]) for pair in pairs)
    first_of = dict(zip(trials["contestant"].reverse(), trials["trial"].reverse(), strict=True))
    return GroupCheck(label, tuple(order), tuple(settled), left_out, first_of)


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


# --- as the manifest keeps them -----------------------------------------------------------------------------


def check_json(checks: Iterable[GroupCheck], at: str, added: int) -> Json:
    return {
        "at": at,
        "added": added,
        "groups": [
            {
                "label": group.label,
                "order": list(group.order),
                "left_out": dict(group.left_out),
                "duels": [pair_json(pair) for pair in group.pairs],
            }
            for group in checks
        ],
    }


def pair_json(pair: PairResult) -> Json:
    """Numbers that JSON has none for become null: a bound that is not known yet."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(pair).items()
    }


def latest_checks(manifest: Manifest) -> dict[str, Json]:
    """Group → what its last check found."""
    checks = manifest.adaptive.checks if manifest.adaptive else ()
    return {group["label"]: group for check in checks for group in check.groups}


# --- in words -----------------------------------------------------------------------------------------------


def pair_words(pair: Mapping[str, Any], within: float) -> str:
    """`numpy:eager / torch:eager: 1.03× [0.97, 1.10] on 8 seeds, open: …`."""
    names = f"{pair['first']} / {pair['second']}"
    if pair["state"] == UNREACHED:
        return f"{names}: neither reached the threshold on any of {pair['seeds']} seeds; more would not help"
    low = 0.0 if pair["low"] is None else pair["low"]
    high = "∞" if pair["high"] is None else f"{pair['high']:.2f}"
    effect = "" if pair["ratio"] is None else f"{pair['ratio']:.2f}× "
    return f"{names}: {effect}[{low:.2f}, {high}] on {pair['seeds']} seeds, {state_words(pair, within)}"


def state_words(pair: Mapping[str, Any], within: float) -> str:
    if pair["state"] == DIFFERENT:
        return "different"
    if pair["state"] == EQUAL:
        return f"equal within {100 * within:g} %"
    why = f"open: neither clearly different nor within {100 * within:g} %"
    more = pair["more_seeds"]
    return why if more is None else f"{why}; about {more} more seed{'' if more == 1 else 's'} needed"


def counted(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def status_lines(manifest: Manifest) -> list[str]:
    """Where a study with adaptive seeds stands; empty for one with fixed seeds."""
    rule = manifest.adaptive
    if rule is None:
        return []
    last = latest_checks(manifest)
    if not last:
        return [f"adaptive seeds: {rule.min} of each first; no interim check yet"]
    open_ = [
        f"  {label}: {pair_words(pair, rule.within)}"
        for label, group in last.items()
        for pair in group["duels"]
        if pair["state"] == OPEN
    ]
    decided = sum(len(group["duels"]) for group in last.values()) - len(open_)
    made = counted(len(rule.checks), "interim check")
    head = f"adaptive seeds, {rule.min} to {rule.max}: {made}, "
    head += f"{counted(decided, 'comparison')} decided, {len(open_)} open"
    ended = rule.ended
    return [head + (f"; stopped: {ENDINGS[ended]}" if ended else "; seeds are being added"), *open_]
