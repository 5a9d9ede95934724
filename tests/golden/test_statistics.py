"""Stated errors against simulated worlds of known truth: more worlds than the inner loop can wait for."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from rldyno.answers.pairs import chances
from rldyno.stats.bootstrap import Estimate, bootstrap, interquartile_mean, ratio, sample
from rldyno.stats.censored import median_ratio, stack, survival_median
from rldyno.stats.equivalence import DIFFERENT, EQUAL, censored_equivalence

Draw = Callable[[np.random.Generator], np.ndarray]
TRUTH = np.random.default_rng(99)


def covers(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


@pytest.mark.parametrize("n", [10, 20])
@pytest.mark.parametrize("spread", [0.1, 0.4])
def test_interval_of_the_interquartile_mean(n: int, spread: float) -> None:
    """Log-normal runs; the truth is the statistic's expectation at this n, from 400,000 draws."""
    truth = float(interquartile_mean(TRUTH.lognormal(0, spread, (400_000 // n, n))).mean())
    source, worlds = np.random.default_rng(n), 1500
    hits = sum(covers(bootstrap(source.lognormal(0, spread, n), source), truth) for _ in range(worlds))
    assert 0.93 <= hits / worlds <= 0.97


@pytest.mark.parametrize(("n", "most"), [(5, 0.97), (10, 0.98), (20, 0.97)])
def test_interval_of_a_ratio_of_times(n: int, most: float) -> None:
    """Around ten runs, of which the interquartile mean cuts four, it is a little too wide."""
    source, worlds = np.random.default_rng(1), 1500
    hits = sum(
        covers(ratio(2 * source.lognormal(0, 0.2, n), source.lognormal(0, 0.2, n), source), 2.0)
        for _ in range(worlds)
    )
    assert 0.93 <= hits / worlds <= most


def test_intervals_of_the_median_time_to_a_threshold_that_some_runs_miss() -> None:
    """Median 1; a run is watched until 1.5. A bootstrapped median is conservative: never below 93 %."""
    source, worlds = np.random.default_rng(2), 600

    def watched() -> np.ndarray:
        times = source.lognormal(0, 0.4, 10)
        return stack(np.minimum(times, 1.5), times <= 1.5)

    single = sum(covers(bootstrap(watched(), source, survival_median), 1.0) for _ in range(worlds))
    assert single / worlds >= 0.93
    ratios = [
        median_ratio(*(sample(runs, source, survival_median) for runs in (watched(), watched())))
        for _ in range(worlds)
    ]
    known = [estimate for estimate in ratios if estimate is not None]
    assert len(known) > 0.95 * worlds
    assert sum(covers(estimate, 1.0) for estimate in known) / len(known) >= 0.93


@pytest.mark.parametrize("censored", [False, True])
def test_family_wise_error_of_the_ranking(censored: bool) -> None:
    """Six equal contestants, five seeds: some pair is called apart in at most 5 % of the groups."""
    source, worlds = np.random.default_rng(3), 600
    alarms = 0
    for _ in range(worlds):
        runs = {}
        for name in "abcdef":
            times = source.lognormal(0, 0.3, 5)
            runs[name] = stack(np.minimum(times, 1.3), times <= 1.3) if censored else times
        alarms += min(chances(runs).values()) <= 0.05
    assert alarms / worlds <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / worlds)


@pytest.mark.parametrize("end", [math.inf, 1.4])
def test_equivalence_with_censoring_keeps_its_error(end: float) -> None:
    """At the margin neither state is claimed in more than 5 % (+ 2 standard errors, + 1 % for censoring)."""
    source, worlds, margin = np.random.default_rng(4), 800, math.log(1.5)

    def runs(shift: float) -> np.ndarray:
        times = source.lognormal(shift, 0.25, 10)
        return stack(np.minimum(times, end * math.exp(shift)), times <= end * math.exp(shift))

    states = [censored_equivalence(runs(margin), runs(0.0), margin).state() for _ in range(worlds)]
    slack = 2 * math.sqrt(0.05 * 0.95 / worlds) + (0.01 if math.isfinite(end) else 0)
    assert states.count(EQUAL) / worlds <= 0.05 + slack
    assert states.count(DIFFERENT) / worlds <= 0.05 + slack
