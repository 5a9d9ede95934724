"""Which leads are real: every pair of contestants tested, corrected for all pairs of the group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np

from rldyno.stats.bootstrap import Floats
from rldyno.stats.power import runs_to_tell_apart
from rldyno.stats.significance import Moments, difference, holm, log_rank

Pair = frozenset[str]


def chances(runs: Mapping[str, Floats]) -> dict[Pair, float]:
    """Holm-corrected p for every pair: how easily chance alone makes such a difference.

    `runs` holds values, or `stack`ed (time, reached) rows. All pairs form the family, not only those with the
    best: which one is best was read off the same data. Contestants with a single run are left out.
    """
    enough = {name: values for name, values in runs.items() if len(values) > 1}
    moments = {
        name: Moments.of(logs) for name, values in enough.items() if (logs := log_values(values)) is not None
    }
    pairs = list(itertools.combinations(enough, 2))
    p_values = [
        difference(moments[a], moments[b]).p_nonzero()
        if a in moments and b in moments
        else log_rank(as_times(enough[a]), as_times(enough[b]))
        for a, b in pairs
    ]
    return {frozenset(pair): p for pair, p in zip(pairs, holm(p_values), strict=True)}


def seeds_missing(a: Floats, b: Floats) -> int | None:
    """Seeds beyond those there are that would probably tell the two apart; None where that is hopeless."""
    logs_a, logs_b = log_values(a), log_values(b)
    if logs_a is None or logs_b is None or min(len(a), len(b)) < 2:
        return None
    mine, theirs = Moments.of(logs_a), Moments.of(logs_b)
    needed = runs_to_tell_apart(mine.mean - theirs.mean, math.sqrt(mine.variance), math.sqrt(theirs.variance))
    return None if needed is None else max(1, needed - min(mine.n, theirs.n))


def log_values(values: Floats) -> Floats | None:
    """None where a run was censored or a value has no logarithm."""
    if values.ndim == 2:
        if not values[:, 1].all():
            return None
        values = values[:, 0]
    return np.log(values) if (values > 0).all() else None


def as_times(values: Floats) -> Floats:
    return values if values.ndim == 2 else np.stack([values, np.ones(len(values))], axis=-1)
