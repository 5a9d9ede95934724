"""Who is ahead of whom where seeds are added until that is known: every pair of contestants, seed by seed.

All tests here hold at any number of seeds and at all of them together (`stats/anytime.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rldyno.answers.runs import Runs, first_known
from rldyno.records.files import Json
from rldyno.stats import anytime
from rldyno.stats.anytime import Gaps
from rldyno.stats.bootstrap import Floats
from rldyno.stats.censored import survival_median
from rldyno.stats.equivalence import ALPHA
from rldyno.stats.significance import holm

DIFFERENT, EQUAL, OPEN, UNREACHED = "different", "equal", "open", "unreached"
RESOLVED, WINNER = "resolved", "winner"


@dataclass(frozen=True)
class Rule:
    """When comparisons of a study with adaptive seeds are settled."""

    min: int
    max: int
    until: str
    within: float


def rule_of(manifest: Json) -> Rule | None:
    """None for a study with fixed seeds."""
    asked = manifest.get("adaptive")
    return Rule(**{name: asked[name] for name in ("min", "max", "until", "within")}) if asked else None


Seeded = Mapping[int, tuple[float, bool]]
"""Seed → (value, whether it was reached): the runs of one contestant, in the order of the seeds."""


@dataclass(frozen=True)
class Duel:
    """Two contestants on the seeds that both have run."""

    first: str
    second: str
    seeds: int
    ratio: float
    """How many times worse the second is, typically; NaN where too few runs got there to say."""
    low: float
    high: float
    """Bound the ratio at 95 %, at any number of seeds."""
    chance: float
    """Corrected (Holm) for all pairs of the group, and for looking as often as one likes."""
    state: str
    """different; equal within the margin; open; unreached: neither got there on any seed."""
    more_seeds: int | None
    """Seeds that would settle an open duel if they went on as before; None where that is hopeless."""

    def seen_from(self, better: str) -> Duel:
        """The same with `better` as the first."""
        if better == self.first:
            return self
        turned = (1 / bound if bound else math.inf for bound in (self.ratio, self.high, self.low))
        ratio, low, high = turned
        return Duel(
            self.second, self.first, self.seeds, ratio, low, high, self.chance, self.state, self.more_seeds
        )


@dataclass(frozen=True)
class Scale:
    """How values compare."""

    more_is_better: bool
    censorable: bool
    """Times to a threshold, which a run may fail to reach."""
    within: float
    """Ratios up to 1 + this count as equal."""


def duels(runs: Mapping[str, Seeded], scale: Scale, family: int | None = None) -> dict[frozenset[str], Duel]:
    """Every pair. `family`: contestants of the group, where some of them cannot be compared."""
    pairs = list(itertools.combinations(runs, 2))
    contestants = len(runs) if family is None else family
    size = max(1, contestants * (contestants - 1) // 2)
    gaps = {pair: gaps_of(runs[pair[0]], runs[pair[1]], scale) for pair in pairs}
    raw = [anytime.chance(gaps[pair], censorable=scale.censorable) for pair in pairs]
    # Pairs that cannot be compared yet belong to the family all the same.
    corrected = holm([*raw, *[1.0] * (size - len(pairs))])
    return {
        frozenset(pair): duel(pair, gaps[pair], chance, size, scale)
        for pair, chance in zip(pairs, corrected, strict=False)
    }


def seeded(done: Runs, column: str | None) -> Seeded:
    """One metric of some runs by seed; without a column, the time to the threshold."""
    if column is None:
        reached = done["threshold_reached"]
        values = first_known(done["threshold_s"], first_known(done["watched_s"], done["wall_s"]))
    else:
        reached, values = np.ones(len(done)), done[column]
    known = ~np.isnan(reached) & ~np.isnan(values)
    rows = zip(done["seed"][known], values[known], reached[known], strict=True)
    return {int(seed): (float(value), bool(got_there)) for seed, value, got_there in rows}


def gaps_of(first: Seeded, second: Seeded, scale: Scale) -> Gaps:
    """How many times worse the second is, as logarithms."""
    seeds = [seed for seed in first if seed in second and first[seed][0] > 0 and second[seed][0] > 0]
    mine, theirs = (
        np.array([runs[seed] for seed in seeds], dtype=np.float64).reshape(-1, 2) for runs in (first, second)
    )
    if scale.censorable:
        return Gaps.of_times(theirs, mine)
    worse, better = (mine, theirs) if scale.more_is_better else (theirs, mine)
    return Gaps.of_values(worse[:, 0], better[:, 0])


def duel(pair: tuple[str, str], gaps: Gaps, chance: float, size: int, scale: Scale) -> Duel:
    low, high = anytime.interval(gaps, ALPHA, censorable=scale.censorable)
    # All equalities claimed are true together with 95 %: hence the error is shared among the pairs.
    surely_low, surely_high = anytime.interval(gaps, ALPHA / size, censorable=scale.censorable)
    margin = math.log1p(scale.within)
    if chance <= ALPHA:
        state = DIFFERENT
    elif -margin <= surely_low and surely_high <= margin:
        state = EQUAL
    elif len(gaps) and np.isinf(gaps.low).all() and np.isinf(gaps.high).all():
        state = UNREACHED
    else:
        state = OPEN
    return Duel(
        *pair,
        seeds=len(gaps),
        ratio=math.exp(middle(gaps)),
        low=math.exp(low),
        high=math.inf if math.isinf(high) else math.exp(high),
        chance=chance,
        state=state,
        more_seeds=anytime.runs_missing(gaps, ALPHA / size, margin) if state == OPEN else None,
    )


def middle(gaps: Gaps) -> float:
    """Mean gap; with runs that never got there the median one, if it is known."""
    if not len(gaps):
        return math.nan
    if gaps.exact:
        return float(gaps.low.mean())
    low, high = (float(np.median(bounds)) for bounds in (np.sort(gaps.low), np.sort(gaps.high)))
    return low if low == high else math.nan


def standing(runs: Mapping[str, Seeded], scale: Scale) -> list[str]:
    """Contestants from the best to the worst by what their runs show so far."""
    return sorted(runs, key=lambda name: (badness(runs[name], scale), name))


def badness(runs: Seeded, scale: Scale) -> float:
    values = np.array(list(runs.values()), dtype=np.float64).reshape(-1, 2)
    if not len(values):
        return math.inf
    if scale.censorable:
        return float(survival_median(values))
    logs: Floats = np.log(np.maximum(values[:, 0], 1e-300))
    return float(-logs.mean() if scale.more_is_better else logs.mean())


def deciding(order: Sequence[str], until: str) -> list[tuple[str, str]]:
    """Pairs that must be settled: neighbours in the ranking, or everybody against the leader."""
    return list(itertools.pairwise(order)) if until == RESOLVED else [(order[0], name) for name in order[1:]]
