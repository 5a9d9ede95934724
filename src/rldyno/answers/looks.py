"""Looks at a study with adaptive seeds: which comparisons are settled, which are open, and why it stopped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from rldyno.answers.duels import (
    DIFFERENT,
    EQUAL,
    OPEN,
    UNREACHED,
    Duel,
    Rule,
    deciding,
    duels,
    rule_of,
    seeded,
    standing,
)
from rldyno.answers.groups import Row, group_label, primary_metric, setting_label
from rldyno.answers.ratios import scale_of
from rldyno.answers.runs import by_contestant
from rldyno.answers.table import TOLD, contestant_row, group_frames, varying_axes
from rldyno.records.files import Json
from rldyno.results.load import Results

ENDINGS = {
    "resolved": "every comparison is decided",
    "max": "the most seeds that the study allows are spent",
    "hours": "the hours given are spent",
    "nothing": "no two contestants can be compared",
}


@dataclass(frozen=True)
class Standing:
    """One group at one look."""

    label: str
    order: tuple[str, ...]
    """Contestants from the best to the worst so far."""
    duels: tuple[Duel, ...]
    """Those that decide, the better one first."""
    left_out: Mapping[str, str]
    """Contestants that are not compared, and why."""
    trials: Mapping[str, str]
    """Contestant → one of its trials."""

    @property
    def open(self) -> tuple[Duel, ...]:
        return tuple(duel for duel in self.duels if duel.state == OPEN)


def look(results: Results, rule: Rule) -> list[Standing]:
    """Every group with two contestants or more, from the records alone: the same records, the same look."""
    varying = varying_axes(results)
    return [
        stand(group_label(axes, setting_label(axes, varying)), trials, rule)
        for axes, trials in group_frames(results)
        if trials["contestant"].n_unique() > 1
    ]


def ending(standings: Iterable[Standing]) -> str:
    """Why no seed is added."""
    every = [duel for group in standings for duel in group.duels]
    if not every:
        return "nothing"
    return "max" if any(duel.state == OPEN for duel in every) else "resolved"


def stand(label: str, trials: pl.DataFrame, rule: Rule) -> Standing:
    told: dict[str, list[dict[str, Any]]] = {}
    for trial in trials.select(TOLD).iter_rows(named=True):
        told.setdefault(trial["contestant"], []).append(trial)
    done = by_contestant(trials)
    left_out = unfit([contestant_row(told[name], runs, {}) for name, runs in done.items()])
    metric = primary_metric(trials["stop_return"].max())
    scale = scale_of(metric, rule.within)
    runs = {
        name: seeded(found, None if scale.censorable else metric.name)
        for name, found in done.items()
        if name not in left_out
    }
    order = standing(runs, scale)
    found = duels(runs, scale, family=len(done))
    pairs = deciding(order, rule.until) if order else []
    settled = (found[frozenset(pair)].seen_from(pair[0]) for pair in pairs)
    first_of = dict(zip(trials["contestant"].reverse(), trials["trial"].reverse(), strict=True))
    return Standing(label, tuple(order), tuple(settled), left_out, first_of)


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


def look_json(standings: Iterable[Standing], at: str, added: int) -> Json:
    return {
        "at": at,
        "added": added,
        "groups": [
            {
                "label": group.label,
                "order": list(group.order),
                "left_out": dict(group.left_out),
                "duels": [duel_json(duel) for duel in group.duels],
            }
            for group in standings
        ],
    }


def duel_json(duel: Duel) -> Json:
    """Numbers that JSON has none for become null: a bound that is not known yet."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(duel).items()
    }


def latest(manifest: Json) -> dict[str, Json]:
    """Group → what the last look at it saw."""
    looks = (manifest.get("adaptive") or {}).get("looks", [])
    return {group["label"]: group for found in looks for group in found["groups"]}


# --- in words -----------------------------------------------------------------------------------------------


def duel_words(duel: Mapping[str, Any], within: float) -> str:
    """`numpy:eager / torch:eager: 1.03× [0.97, 1.10] on 8 seeds, open: …`."""
    names = f"{duel['first']} / {duel['second']}"
    if duel["state"] == UNREACHED:
        return f"{names}: neither reached the threshold on any of {duel['seeds']} seeds; more would not help"
    low = 0.0 if duel["low"] is None else duel["low"]
    high = "∞" if duel["high"] is None else f"{duel['high']:.2f}"
    effect = "" if duel["ratio"] is None else f"{duel['ratio']:.2f}× "
    return f"{names}: {effect}[{low:.2f}, {high}] on {duel['seeds']} seeds, {state_words(duel, within)}"


def state_words(duel: Mapping[str, Any], within: float) -> str:
    if duel["state"] == DIFFERENT:
        return "different"
    if duel["state"] == EQUAL:
        return f"equal within {100 * within:g} %"
    why = f"open: neither told apart nor within {100 * within:g} %"
    more = duel["more_seeds"]
    return why if more is None else f"{why}; about {more} more seed{'' if more == 1 else 's'} would settle it"


def counted(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def status_lines(manifest: Json) -> list[str]:
    """Where a study with adaptive seeds stands; empty for one with fixed seeds."""
    rule = rule_of(manifest)
    if rule is None:
        return []
    asked = manifest["adaptive"]
    last = latest(manifest)
    if not last:
        return [f"adaptive seeds: {rule.min} of each first; no look has been taken yet"]
    open_ = [
        f"  {label}: {duel_words(duel, rule.within)}"
        for label, group in last.items()
        for duel in group["duels"]
        if duel["state"] == OPEN
    ]
    decided = sum(len(group["duels"]) for group in last.values()) - len(open_)
    looks = counted(len(asked["looks"]), "look")
    head = f"adaptive seeds, {rule.min} to {rule.max}: {looks}, "
    head += f"{counted(decided, 'comparison')} decided, {len(open_)} open"
    ended = asked.get("ended")
    return [head + (f"; stopped: {ENDINGS[ended]}" if ended else "; seeds are being added"), *open_]
