"""Effects with their intervals, and the verdict that an interval gives against a claim's bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rldyno.claims.evidence import RunGroup, setting_words
from rldyno.claims.form import Check
from rldyno.claims.missing import few_seeds, unmeasured
from rldyno.stats.estimates import LEVEL, Estimate, draws_interval
from rldyno.stats.moments import Floats
from rldyno.stats.power import runs_to_clear

HOLDS, REFUTED, UNDECIDED = "holds", "refuted", "undecided"


@dataclass(frozen=True)
class Part:
    """One comparison that went into a verdict."""

    label: str
    effect: Estimate
    trials: tuple[str, ...]


@dataclass(frozen=True)
class CheckVerdict:
    check: Check
    verdict: str
    effect: Estimate | None = None
    """Over all parts: their mean; where it is to hold everywhere, that of the part that gave the verdict."""
    parts: tuple[Part, ...] = ()
    missing: tuple[str, ...] = ()
    decisive: str = ""
    """Label of that part."""


@dataclass(frozen=True)
class Effect:
    """An effect with its resamples: `low_draws` and `high_draws` differ where a resample bounds nothing."""

    label: str
    point: float
    low_draws: Floats
    high_draws: Floats
    cells: tuple[RunGroup, ...]


def ratio_of(a: RunGroup, b: RunGroup, label: str) -> Effect:
    with np.errstate(invalid="ignore", divide="ignore"):
        draws = a.draws / b.draws
        point = float(np.divide(a.point, b.point))
    # ∞ / ∞ bounds nothing: such a resample counts for both ends.
    return Effect(
        label,
        point,
        np.nan_to_num(draws, nan=0, posinf=np.inf),
        np.nan_to_num(draws, nan=np.inf, posinf=np.inf),
        (a, b),
    )


def trend_of(group: Sequence[RunGroup], axis: str, shown: Sequence[str]) -> Effect:
    ordered = sorted(group, key=lambda cell: float(cell.keys[axis]))
    x = np.log([float(cell.keys[axis]) for cell in ordered])
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum() * (x[-1] - x[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        draws = np.exp(weights @ np.log(np.stack([cell.draws for cell in ordered])))
        point = float(np.exp(weights @ np.log([cell.point for cell in ordered])))
    ends = f"{axis} {ordered[0].keys[axis]} → {ordered[-1].keys[axis]}"
    label = ", ".join(filter(None, [ordered[0].contestant, setting_words(ordered[0].keys, shown), ends]))
    lows, highs = np.nan_to_num(draws, nan=0, posinf=np.inf), np.nan_to_num(draws, nan=np.inf, posinf=np.inf)
    return Effect(label, point, lows, highs, tuple(ordered))


def concluded(check: Check, comparisons: Sequence[Effect], geometric: bool = True) -> CheckVerdict:
    """The verdict over all comparisons: on their mean, or on each with the error shared among them."""
    if not comparisons:
        return CheckVerdict(check, UNDECIDED, missing=(unmeasured(check.metric),))
    level = 1 - (1 - LEVEL) / len(comparisons) if check.everywhere else LEVEL
    parts = tuple(
        Part(item.label, estimated([item], level, geometric), tuple(t for c in item.cells for t in c.trials))
        for item in comparisons
    )
    fewest = min(cell.n for item in comparisons for cell in item.cells)
    overall = estimated(comparisons, LEVEL, geometric)
    if fewest < check.seeds:
        return CheckVerdict(check, UNDECIDED, overall, parts, (few_seeds(check.seeds, fewest),))
    if not check.everywhere:
        verdict = verdict_of(overall, check.bounds)
        return CheckVerdict(check, verdict, overall, parts, more_seeds(verdict, overall, check.bounds))
    verdicts = [verdict_of(part.effect, check.bounds) for part in parts]
    verdict = REFUTED if REFUTED in verdicts else UNDECIDED if UNDECIDED in verdicts else HOLDS
    decisive = next(part for part, each in zip(parts, verdicts, strict=True) if each == verdict)
    missing = more_seeds(verdict, decisive.effect, check.bounds)
    return CheckVerdict(check, verdict, decisive.effect, parts, missing, decisive.label)


def more_seeds(verdict: str, effect: Estimate, bounds: tuple[float | None, float | None]) -> tuple[str, ...]:
    if verdict != UNDECIDED:
        return ()
    across = "the interval includes the bound"
    more = seeds_to_decide(effect, bounds)
    if more is None:
        return (f"needs many more seeds, perhaps too many: {across}",)
    return (f"needs about {more} more seed{'' if more == 1 else 's'}: {across}",)


def seeds_to_decide(effect: Estimate, bounds: tuple[float | None, float | None]) -> int | None:
    """Seeds with which the interval, should its middle stay, would no longer reach across any bound."""
    if effect.low is None or effect.high is None:
        return None
    wanted = []
    for bound in bounds:
        if bound is not None and effect.low < bound < effect.high:
            end = effect.low if bound < effect.point else effect.high
            wanted.append(runs_to_clear(abs(end - effect.point), abs(bound - effect.point), effect.n))
    known = [more for more in wanted if more is not None]
    return max(known) if known and len(known) == len(wanted) else None


def estimated(comparisons: Sequence[Effect], level: float, geometric: bool) -> Estimate:
    """Mean of the comparisons' effects, geometric for factors, with the interval of its resamples."""

    def mean(columns: Sequence[Floats]) -> Floats:
        stacked = np.stack(columns)
        if not geometric:
            return np.asarray(stacked.mean(axis=0))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.exp(np.log(stacked).mean(axis=0)))

    sizes = [min(cell.n for cell in item.cells) for item in comparisons]
    point = float(mean([np.array([item.point]) for item in comparisons])[0])
    if min(sizes) < 2:
        return Estimate(point, None, None, min(sizes))
    low, _ = draws_interval(mean([item.low_draws for item in comparisons]), level)
    _, high = draws_interval(mean([item.high_draws for item in comparisons]), level)
    return Estimate(point, low, high, min(sizes))


def verdict_of(effect: Estimate, bounds: tuple[float | None, float | None]) -> str:
    """Holds when the interval lies within the bounds, refuted when it lies outside."""
    if effect.low is None or effect.high is None or math.isnan(effect.point):
        return UNDECIDED
    low, high = (
        (-math.inf if bounds[0] is None else bounds[0]),
        (math.inf if bounds[1] is None else bounds[1]),
    )
    if low <= effect.low and effect.high <= high:
        return HOLDS
    return REFUTED if effect.high < low or effect.low > high else UNDECIDED
