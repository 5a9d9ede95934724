"""Stated errors against simulated worlds of known truth: more worlds than the inner loop can wait for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rldyno.stats.censored import stack
from rldyno.stats.estimates import INTERVAL, Estimate, ratio_estimate
from rldyno.stats.significance import all_pairs


def covers(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


@pytest.mark.parametrize("n", [6, 10, 30])
@pytest.mark.parametrize(
    ("shapes", "failures"), [((1, -1), (0.2, 0.2)), ((0, 0), (0.3, 0.0)), ((1, 1), (0.2, 0.1))]
)
def test_ratios_of_medians_hold_for_unlike_shapes(
    shapes: tuple[int, int], failures: tuple[float, float], n: int
) -> None:
    """Times skewed to either side (1, −1) or not (0), and more failures in one group than in the other."""
    source, worlds, spread = np.random.default_rng(n), 1500, 0.4

    def logs(shape: int, size: int) -> np.ndarray:
        return shape * source.standard_exponential(size) if shape else source.standard_normal(size)

    def watched(shape: int, share: float) -> np.ndarray:
        times, reached = np.exp(spread * logs(shape, n)), source.random(n) >= share
        return stack(np.where(reached, times, 20.0), reached)

    def median(shape: int, share: float) -> float:
        return math.exp(spread * float(np.quantile(logs(shape, 400_000), 0.5 / (1 - share))))

    truth = median(shapes[0], failures[0]) / median(shapes[1], failures[1])
    found = [
        ratio_estimate(watched(shapes[0], failures[0]), watched(shapes[1], failures[1]))
        for _ in range(worlds)
    ]
    hits = [covers(ratio, truth) for ratio in found if ratio is not None and ratio.kind == INTERVAL]
    assert np.mean(hits) >= 0.93 - 2 * math.sqrt(0.93 * 0.07 / len(hits))


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
        alarms += min(found.p for found in all_pairs(runs).values()) <= 0.05
    assert alarms / worlds <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / worlds)
