"""Whether two groups of runs differ: tests, and the correction for many of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rldyno.stats.censored import as_times
from rldyno.stats.distributions import ALPHA, NORMAL
from rldyno.stats.estimates import log_values
from rldyno.stats.moments import Floats, Moments, difference

# Up to this many ways to split the runs into two groups, every one of them is counted.
EXACT_SPLITS = 50_000
# Up to this many contestants all of their sets (4,096) are tested.
MOST_CLOSED = 12


def welch(a: Floats, b: Floats) -> float:
    """Two-sided p of Welch's t test; 1 when a group has a single run."""
    if min(len(a), len(b)) < 2:
        return 1.0
    return difference(Moments.of(a), Moments.of(b)).p_nonzero()


def two_groups_p(a: Floats, b: Floats) -> float:
    """Of values or `stack`ed (time, reached) rows: Welch's test on logarithms, or the log-rank test."""
    logs_a, logs_b = log_values(a), log_values(b)
    if logs_a is not None and logs_b is not None:
        return welch(logs_a, logs_b)
    return log_rank(as_times(a), as_times(b))


def permutation_p(scores: Floats, first: int) -> float:
    """How often a random split of the scores gives the `first` ones a sum as extreme as theirs, either way.

    By hand, since SciPy's log-rank test knows the normal approximation only, too rough for five runs. All
    splits are counted while they are few; beyond that the sum is taken as normal with its permutation
    variance.
    """
    n = len(scores)
    if not 0 < first < n:
        return 1.0
    centred = scores - scores.mean()
    observed = abs(float(centred[:first].sum()))
    if math.comb(n, first) <= EXACT_SPLITS:
        sums = centred[_splits(n, first)].sum(axis=1)
        return float((np.abs(sums) >= observed - 1e-9 * float(np.abs(centred).sum())).mean())
    variance = first * (n - first) / (n * (n - 1)) * float((centred**2).sum())
    return 1.0 if variance == 0 else 2 * NORMAL.cdf(-observed / math.sqrt(variance))


def fisher(hits: int, n: int, base_hits: int, base_n: int) -> float:
    """Two-sided p of Fisher's exact test: all outcomes of as many hits that are no likelier than this."""
    every = hits + base_hits
    possible = np.arange(max(0, every - base_n), min(n, every) + 1)
    chances = special.binom(n, possible) * special.binom(base_n, every - possible)
    seen = chances[hits - possible[0]]
    return float(chances[chances <= seen * (1 + 1e-9)].sum() / chances.sum())


@lru_cache(maxsize=8)
def _splits(n: int, first: int) -> NDArray[np.intp]:
    return np.array(list(itertools.combinations(range(n), first)), dtype=np.intp)


def log_rank(a: Floats, b: Floats) -> float:
    """p of the log-rank test on `stack`ed (time, reached) runs: do both see the event at the same pace?

    Runs are scored by the Nelson–Aalen estimate of the pooled sample, Savage's score Λ(t) − reached, high for
    late runs, and the scores are permuted.
    """
    return permutation_p(savage_scores(np.concatenate([a, b])), len(a))


def savage_scores(runs: Floats) -> Floats:
    order = np.argsort(runs[:, 0], kind="stable")
    times, events = runs[order, 0], runs[order, 1] > 0
    at_risk = len(times) - np.searchsorted(times, times, side="left")
    hazard = np.cumsum(events / at_risk)
    scores = np.empty(len(times))
    scores[order] = hazard[np.searchsorted(times, times, side="right") - 1] - events
    return scores


def log_rank_of_several(groups: Sequence[Floats]) -> float:
    """p of the log-rank test that all groups see the event at the same pace.

    χ² = (n−1)/Σs² · Σ n_g (mean score of g)² with scores s around 0: the permutation variance.
    """
    scores = savage_scores(np.concatenate(groups))
    scores -= scores.mean()
    squares = float((scores**2).sum())
    if squares == 0:
        return 1.0
    parts = np.split(scores, np.cumsum([len(group) for group in groups])[:-1])
    chi_squared = (len(scores) - 1) / squares * sum(float(part.sum()) ** 2 / len(part) for part in parts)
    return float(special.chdtrc(len(groups) - 1, chi_squared))


# --- families -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairChance:
    """How easily chance alone makes such a difference between two of several contestants."""

    p: float
    """Corrected for all pairs: calling different what is ≤ 5 % is wrong in at most 5 % of the groups."""
    alpha: float
    """What the pair's own, uncorrected p must not exceed for that, as the other pairs stand."""


Pair = frozenset[str]


def all_pairs(runs: Mapping[str, Floats]) -> dict[Pair, PairChance]:
    """Every pair of contestants with more than one run, of values or `stack`ed (time, reached) rows.

    All pairs form the family, not only those with the best: which one is best was read off the same data.
    Values: Welch's test on logarithms with Holm's correction. Where a run never got there: see `closed`.
    """
    enough = {name: values for name, values in runs.items() if len(values) > 1}
    raw = {
        frozenset((a, b)): two_groups_p(enough[a], enough[b]) for a, b in itertools.combinations(enough, 2)
    }
    if all(log_values(values) is not None for values in enough.values()):
        corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
    else:
        corrected = closed(raw, {name: as_times(values) for name, values in enough.items()})
    return {
        pair: PairChance(p, ALPHA * raw[pair] / p if 0 < p < 1 else ALPHA / len(raw))
        for pair, p in corrected.items()
    }


def closed(raw: Mapping[Pair, float], runs: Mapping[str, Floats]) -> dict[Pair, float]:
    """Corrected p of pairs by closed testing: two differ if every set that holds both is not all alike.

    Ranks of five runs against five give 2/252 at best, which Holm's factor (the number of pairs) makes
    useless from five contestants on. Here a set of s among k contestants is tested as a whole, with the level
    1 − (1−α)^(s/k), or α where at most one is left out (Ryan 1960, Einot and Gabriel 1975, Welsch 1977).
    With more than MOST_CLOSED contestants there are too many sets: then Holm's correction.
    """
    if len(runs) > MOST_CLOSED:
        return dict(zip(raw, holm(list(raw.values())), strict=True))
    corrected = dict(raw)
    for size in range(2, len(runs) + 1):
        power = len(runs) / size if size < len(runs) - 1 else 1.0
        for chosen in itertools.combinations(runs, size):
            pairs = [frozenset(pair) for pair in itertools.combinations(chosen, 2)]
            alike = raw[pairs[0]] if size == 2 else log_rank_of_several([runs[name] for name in chosen])
            needed = 1 - (1 - alike) ** power
            for pair in pairs:
                corrected[pair] = max(corrected[pair], needed)
    return corrected


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: rejecting what is ≤ α keeps the family-wise error at α."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [1.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted
