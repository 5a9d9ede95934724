"""Whether two groups of runs are equal within a margin, different, or undecided."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from rldyno.stats.bootstrap import Floats
from rldyno.stats.distributions import t_quantile
from rldyno.stats.significance import Difference, log_rank

ALPHA = 0.05
EQUAL, DIFFERENT, UNDECIDED = "equal", "different", "undecided"


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests (Schuirmann 1987) of a difference against ±margin.

    `low` and `high` bound it at 1 − 2α = 90 %: they lie within the margin when both tests reject. Without an
    estimate (too few runs saw the event) they are infinite.
    """

    difference: float
    low: float
    high: float
    margin: float
    p_equal: float
    """Small: the difference lies within the margin."""
    p_different: float
    """Small: it lies outside."""
    spread: float
    """Standard deviation of one run's (or one pair's) difference."""
    n: int

    def state(self, p_different: float | None = None) -> str:
        """`p_different` may be corrected for a family of tests."""
        if self.p_equal <= ALPHA:
            return EQUAL
        return DIFFERENT if (self.p_different if p_different is None else p_different) <= ALPHA else UNDECIDED


def tost(found: Difference, margin: float, n: int) -> Equivalence:
    """`n`: pairs, or runs of the smaller group."""
    reach = t_quantile(1 - ALPHA, found.degrees) * found.error
    return Equivalence(
        difference=found.mean,
        low=found.mean - reach,
        high=found.mean + reach,
        margin=margin,
        p_equal=max(found.p_above(-margin), found.p_below(margin)),
        # Either side may be the one that is left: hence twice the smaller.
        p_different=min(1.0, 2 * min(found.p_above(margin), found.p_below(-margin))),
        spread=found.error * math.sqrt(n),
        n=n,
    )


def censored_equivalence(a: Floats, b: Floats, margin: float) -> Equivalence:
    """On the logarithm of times to an event, of `stack`ed (time, reached) runs of which some never saw it.

    Where both groups saw two events, log-normal times with censoring; else no ratio can be estimated, and
    only a log-rank test, with one group's times moved by the margin, can show that they differ.
    """
    n = min(len(a), len(b))
    if min((a[:, 1] > 0).sum(), (b[:, 1] > 0).sum()) >= 2:
        mean_a, error_a, degrees_a = censored_log_mean(a)
        mean_b, error_b, degrees_b = censored_log_mean(b)
        squared = error_a**2 + error_b**2
        degrees = (
            squared**2 / (error_a**4 / degrees_a + error_b**4 / degrees_b)
            if squared
            else degrees_a + degrees_b
        )
        return tost(Difference(mean_a - mean_b, math.sqrt(squared), degrees), margin, n)
    later = log_rank(scaled(a, math.exp(-margin)), b, side=1)
    earlier = log_rank(scaled(b, math.exp(-margin)), a, side=1)
    return Equivalence(
        math.nan, -math.inf, math.inf, margin, 1.0, min(1.0, 2 * min(later, earlier)), math.nan, n
    )


def scaled(runs: Floats, factor: float) -> Floats:
    return np.asarray(runs * np.array([factor, 1.0]))


def censored_log_mean(runs: Floats) -> tuple[float, float, float]:
    """Mean of log time where some runs are censored, its standard error, degrees of freedom (events − 1).

    Maximum likelihood of a normal distribution by expectation–maximisation: a censored run counts with the
    mean and variance of the part of the distribution beyond its end. The error comes from the observed
    information, with events − 1 in place of events. Without censoring: the plain mean and s/√n.
    """
    logs, events = np.log(runs[:, 0]), runs[:, 1] > 0
    ends, hits = logs[~events], int(events.sum())
    mean, deviation = float(logs.mean()), float(logs.std())
    for _ in range(500):
        z = (ends - mean) / max(deviation, 1e-12)
        mills = inverse_mills(z)
        filled = np.concatenate([logs[events], mean + deviation * mills])
        beyond = deviation**2 * (1 - mills * (mills - z))
        new_mean = float(filled.mean())
        new_deviation = math.sqrt((float(((filled - new_mean) ** 2).sum()) + float(beyond.sum())) / len(logs))
        moved = abs(new_mean - mean) + abs(new_deviation - deviation)
        mean, deviation = new_mean, new_deviation
        if moved < 1e-9:
            break
    if deviation < 1e-12:
        return mean, 0.0, hits - 1
    relative = relative_error((logs[events] - mean) / deviation, (ends - mean) / deviation)
    return mean, deviation * relative * math.sqrt(hits / (hits - 1)), hits - 1


def relative_error(events: Floats, ends: Floats) -> float:
    """Standard error of the mean in standard deviations: √(I⁻¹)₀₀, I the observed information of (μ, σ).

    Arguments are standardised logs of the runs that saw the event, and of the others' ends. With the inverse
    Mills ratio λ, a censored run contributes λ(λ−z), λ + zλ(λ−z) and 2zλ + z²λ(λ−z) to I₀₀, I₀₁ and I₁₁.
    """
    mills = inverse_mills(ends)
    kept = mills * (mills - ends)
    mean_mean = len(events) + kept.sum()
    mean_sigma = (2 * events).sum() + (mills + ends * kept).sum()
    sigma_sigma = (3 * events**2 - 1).sum() + (2 * ends * mills + ends**2 * kept).sum()
    return math.sqrt(sigma_sigma / (mean_mean * sigma_sigma - mean_sigma**2))


def inverse_mills(z: Floats) -> Floats:
    """φ(z) / (1 − Φ(z)), with the scaled complementary error function so that no tail underflows."""
    return np.asarray(math.sqrt(2 / math.pi) / special.erfcx(z / math.sqrt(2)))
