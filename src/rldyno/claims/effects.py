"""Effects with their intervals, and the verdict that an interval gives against a claim's bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rldyno.claims.evidence import RunGroup, setting_words
from rldyno.claims.form import Check
from rldyno.claims.missing import few_levels, few_seeds, unmeasured
from rldyno.stats.distributions import t_quantile
from rldyno.stats.estimates import LEVEL, Estimate, draws_interval
from rldyno.stats.moments import Floats
from rldyno.stats.power import POWER, runs_to_clear

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
    barred: bool = False
    """Its runs are there, but may not decide anything."""

    @property
    def within_reach(self) -> bool:
        """Whether the same trials with more seeds, or on a quiet machine, could decide it."""
        return self.verdict != UNDECIDED or self.effect is not None or self.barred


@dataclass(frozen=True)
class Effect:
    """An effect with its resamples: `low_draws` and `high_draws` differ where a resample bounds nothing."""

    label: str
    point: float
    low_draws: Floats
    high_draws: Floats
    cells: tuple[RunGroup, ...]
    choices: tuple[int, int] = (1, 1)
    """Modes among which the data chose, for the lower and for the upper end."""


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


@dataclass(frozen=True)
class Side:
    """What stands for a framework: one of its modes, and those that might be its best as well."""

    cell: RunGroup
    modes: tuple[RunGroup, ...]

    def best(self, more_is_better: bool) -> Floats:
        """The draws of whichever mode is the best in each."""
        draws = np.stack([mode.draws for mode in self.modes])
        return np.asarray(draws.max(axis=0) if more_is_better else draws.min(axis=0))

    def choices(self, more_is_better: bool) -> int:
        """Modes that are the best in some draw. The others were no choice."""
        best = self.best(more_is_better)
        return sum(bool((mode.draws == best).any()) for mode in self.modes)


def best_ratio_of(a: Side, b: Side, label: str, more_is_better: bool) -> Effect:
    """best of A / best of B, with the bounds that allow for the choice of both by the same data.

    Let more be better. max aᵢ / max bⱼ is at least aᵢ / max bⱼ for the chosen i, whose choice among k takes k
    times the error; max bⱼ is drawn as such, which cannot make the bound too high. The upper end is the same
    with A and B exchanged, as are both ends where less is better.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        lows, highs = a.cell.draws / b.best(more_is_better), a.best(more_is_better) / b.cell.draws
    choices = a.choices(more_is_better), b.choices(more_is_better)
    if not more_is_better:
        lows, highs, choices = highs, lows, (choices[1], choices[0])
    return replace(
        ratio_of(a.cell, b.cell, label),
        low_draws=np.nan_to_num(lows, nan=0, posinf=np.inf),
        high_draws=np.nan_to_num(highs, nan=np.inf, posinf=np.inf),
        choices=choices,
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
    cells = [cell.keys for item in comparisons for cell in item.cells]
    if few := tuple(few_levels(check.levels, cells, "compared")):
        return CheckVerdict(check, UNDECIDED, parts=parts, missing=few)
    fewest = min(cell.n for item in comparisons for cell in item.cells)
    overall = estimated(comparisons, LEVEL, geometric)
    if fewest < check.seeds:
        return CheckVerdict(check, UNDECIDED, overall, parts, (few_seeds(check.seeds, fewest),))
    if not check.everywhere:
        verdict = verdict_of(overall, check.bounds)
        return CheckVerdict(check, verdict, overall, parts, more_seeds(verdict, overall, check.bounds))
    return everywhere(check, parts)


def everywhere(check: Check, parts: Sequence[Part]) -> CheckVerdict:
    """Refuted by one part; holds when all do."""
    verdicts = [verdict_of(part.effect, check.bounds) for part in parts]
    verdict = REFUTED if REFUTED in verdicts else UNDECIDED if UNDECIDED in verdicts else HOLDS
    decisive = next(part for part, each in zip(parts, verdicts, strict=True) if each == verdict)
    missing = more_seeds(verdict, decisive.effect, check.bounds)
    return CheckVerdict(check, verdict, decisive.effect, tuple(parts), missing, decisive.label)


def more_seeds(verdict: str, effect: Estimate, bounds: tuple[float | None, float | None]) -> tuple[str, ...]:
    if verdict != UNDECIDED:
        return ()
    across = "the interval includes the bound"
    more = seeds_to_decide(effect, bounds)
    if more is None:
        return (f"needs many more seeds, perhaps too many: {across}",)
    plural = "" if more == 1 else "s"
    return (f"needs about {more} more seed{plural} ({100 * POWER:g} % chance): {across}",)


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

    def drawn(columns: Sequence[Floats], choices: Sequence[int]) -> Floats:
        return beyond_choice(mean(columns), point, math.prod(choices), sum(sizes) - len(sizes), level)

    low_draws = drawn([item.low_draws for item in comparisons], [item.choices[0] for item in comparisons])
    high_draws = drawn([item.high_draws for item in comparisons], [item.choices[1] for item in comparisons])
    low, high = draws_interval(low_draws, level)[0], draws_interval(high_draws, level)[1]
    return Estimate(point, low, high, min(sizes))


def beyond_choice(draws: Floats, point: float, choices: int, degrees: int, level: float) -> Floats:
    """Draws of a ratio moved away from it as far as an error that is shared by so many choices asks for."""
    if choices == 1 or not 0 < point < math.inf or degrees < 1:
        return draws
    tail = (1 - level) / 2
    by = t_quantile(1 - tail / choices, degrees) / t_quantile(1 - tail, degrees)
    with np.errstate(over="ignore"):
        return np.asarray(point * (draws / point) ** by)


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
