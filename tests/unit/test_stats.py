from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldyno.stats import censored as cs
from rldyno.stats import estimates as es
from rldyno.stats.distributions import NORMAL, t_quantile
from rldyno.stats.moments import Moments, difference
from rldyno.stats.trend import BLOCKS, FEWEST_BLOCKS, T_POINTS


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def bounds(estimate: es.Estimate | None) -> tuple[float, float]:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def covers(estimate: es.Estimate | None, truth: float) -> bool:
    low, high = bounds(estimate)
    return low <= truth <= high


# --- values -------------------------------------------------------------------------------------------------


def test_values_above_zero_have_their_geometric_mean_with_students_t_on_logarithms() -> None:
    estimate = es.estimate_of(np.array([1.0, 10, 100]))
    # log₁₀: mean 1, s = 1, t(0.975, 2) = 4.3027: 1 ± 4.3027 / √3.
    assert estimate.point == pytest.approx(10)
    assert bounds(estimate) == pytest.approx((10 ** (1 - 2.48416), 10 ** (1 + 2.48416)), rel=1e-4)
    assert estimate.kind == es.INTERVAL


def test_values_that_have_no_logarithm_have_their_mean() -> None:
    estimate = es.estimate_of(np.array([-1.0, 0, 4]))
    # s = √7, t(0.975, 2) = 4.3027: 1 ± 4.3027 · √(7/3).
    assert estimate.point == 1
    assert bounds(estimate) == pytest.approx((1 - 6.5724, 1 + 6.5724), rel=1e-4)
    # What cannot be negative has no negative bound.
    assert es.estimate_of(np.array([0.0, 1, 5])).low == 0


def test_single_run_has_no_interval_and_few_runs_say_so() -> None:
    one = es.estimate_of(np.array([3.0]))
    assert (one.point, one.low, one.high, one.too_few) == (3.0, None, None, True)
    assert es.estimate_of(np.array([1.0, 2, 3, 4])).too_few
    assert not es.estimate_of(np.array([1.0, 2, 3, 4, 5])).too_few


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=12), st.floats(0.01, 100))
def test_another_unit_changes_nothing(values: list[float], factor: float) -> None:
    here, there = es.estimate_of(np.array(values)), es.estimate_of(np.array(values) * factor)
    assert (there.point, *bounds(there)) == pytest.approx(
        (here.scaled(factor).point, *bounds(here.scaled(factor))), rel=1e-6
    )


def test_ratio_of_a_group_to_half_of_itself() -> None:
    values = np.array([8.0, 9, 10, 11, 12, 13])
    estimate = es.ratio_estimate(values, values / 2)
    assert estimate is not None
    assert estimate.point == pytest.approx(2.0)
    low, high = bounds(estimate)
    assert low * high == pytest.approx(4.0)


@given(
    st.lists(st.floats(0.5, 2), min_size=3, max_size=8), st.lists(st.floats(0.5, 2), min_size=3, max_size=8)
)
def test_the_interval_of_a_ratio_agrees_with_the_test(a: list[float], b: list[float]) -> None:
    found = difference(Moments.of(np.log(a)), Moments.of(np.log(b)))
    excluded = not covers(es.ratio_estimate(np.array(a), np.array(b)), 1.0)
    if not math.isclose(found.p_nonzero(), 0.05, rel_tol=1e-6):
        assert excluded == (found.p_nonzero() < 0.05)


def test_a_ratio_needs_positive_figures() -> None:
    positive = np.array([1.0, 2, 3])
    assert es.ratio_estimate(-positive, positive) is None
    # A value without a logarithm: a ratio of means, without bounds.
    ratio = es.ratio_estimate(np.array([0.0, 2, 4]), positive)
    assert ratio is not None
    assert (ratio.low, ratio.high) == (None, None)


# --- the promise of 95 % ------------------------------------------------------------------------------------

FAILURES, SPREAD, WATCHED = 0.2, 0.4, 6.0
"""Some seeds fail: a fifth never gets there, the others take log-normal times."""


def normal_logs(source: np.random.Generator, n: int) -> np.ndarray:
    return source.lognormal(0, SPREAD, n)


def heavy_tails(source: np.random.Generator, n: int) -> np.ndarray:
    """Logarithms with Student's t of 3 degrees."""
    return np.exp(0.2 * source.standard_t(3, n))


def contaminated(source: np.random.Generator, n: int) -> np.ndarray:
    """One run in ten spreads ten times as much."""
    return np.exp(0.1 * source.standard_normal(n) * np.where(source.random(n) < 0.1, 10, 1))


def some_fail(source: np.random.Generator, n: int) -> np.ndarray:
    times, lucky = normal_logs(source, n), source.random(n) >= FAILURES
    reached = lucky & (times < WATCHED)
    return cs.stack(np.where(reached, times, WATCHED), reached)


WORLDS = 1500


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 5, 10, 30])
@pytest.mark.parametrize("draw", [normal_logs, heavy_tails, contaminated])
def test_95_percent_of_values_and_ratios(
    draw: Callable[[np.random.Generator, int], np.ndarray], n: int
) -> None:
    source = rng(n)
    values = ratios = 0
    for _ in range(WORLDS):
        a, b = draw(source, n), draw(source, n)
        values += covers(es.estimate_of(a), 1.0)
        ratios += covers(es.ratio_estimate(2 * a, b), 2.0)
    # Standard error of such a share: 0.6 %. Nor are they so wide that they say nothing.
    assert 0.935 <= values / WORLDS <= 0.985
    assert 0.935 <= ratios / WORLDS <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5, 10, 30])
def test_95_percent_where_some_seeds_fail(n: int) -> None:
    """What is called an interval covers; what does not is called a range.

    The truth is the median of all runs, or, where no run of the sample failed, that of those that get there.
    """
    source = rng(n)
    median = math.exp(SPREAD * NORMAL.inv_cdf(0.5 / (1 - FAILURES)))
    values, ratios = [], []
    for _ in range(WORLDS):
        a, b = some_fail(source, n), some_fail(source, n)
        estimate, ratio = es.estimate_of(a), es.ratio_estimate(a, b)
        if estimate.kind == es.INTERVAL:
            values.append(covers(estimate, 1.0 if cs.all_reached(a) else median))
        if ratio is not None and ratio.kind == es.INTERVAL:
            ratios.append(covers(ratio, 1.0))
    for hits in (values, ratios):
        assert len(hits) > 100
        assert np.mean(hits) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5, 10])
def test_draws_of_several_groups_hold_together(n: int) -> None:
    """A geometric mean of three ratios, as claims take it, and a sum, which no logarithm makes simple."""
    source, worlds = rng(n), 400
    product = total = 0
    for _ in range(worlds):
        draws = [es.Sampler(source).draws(normal_logs(source, n)) for _ in range(6)]
        ratios = np.exp(
            np.mean([np.log(a / b) for a, b in zip(draws[::2], draws[1::2], strict=True)], axis=0)
        )
        low, high = es.draws_interval(ratios)
        product += low <= 1 <= high
        low, high = es.draws_interval(draws[0] + 3 * draws[1])
        total += low <= 4 <= high
    slack = 2 * math.sqrt(0.93 * 0.07 / worlds)
    assert product / worlds >= 0.93 - slack
    assert total / worlds >= 0.93 - slack


def test_draws_of_one_group_are_students_t() -> None:
    values = np.array([1.0, 2, 3, 5, 9])
    low, high = es.draws_interval(es.Sampler(rng()).draws(values))
    assert (low, high) == pytest.approx(bounds(es.estimate_of(values)), rel=0.1)
    sampler = es.Sampler(rng())
    assert sampler.draws(values).tolist() == sampler.draws(values).tolist()
    assert set(es.Sampler(rng()).draws(np.array([7.0]))) == {7.0}


# --- times that some runs never reach -----------------------------------------------------------------------


def runs(times: list[float], reached: list[int]) -> np.ndarray:
    return cs.stack(np.array(times), np.array(reached, dtype=bool))


def test_survival_median_without_censoring_is_the_median() -> None:
    assert cs.survival_median(runs([3, 1, 2], [1, 1, 1])) == 2
    assert cs.survival_median(runs([4, 1, 2, 3], [1, 1, 1, 1])) == 2.5


def test_survival_median_by_hand() -> None:
    # Events at 1, 2, 4; watch ends at 3 and 5. S: 4/5, 3/5, (3 censored) 3/5 · 1/2 = 3/10 at 4.
    assert cs.survival_median(runs([1, 2, 3, 4, 5], [1, 1, 0, 1, 0])) == 4
    # Freireich et al. 1963, weeks in remission on 6-MP: the textbook median is 23.
    times = [6, 6, 6, 7, 10, 13, 16, 22, 23, 6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    reached = [1] * 9 + [0] * 12
    assert cs.survival_median(runs([float(t) for t in times], reached)) == 23


def test_a_median_that_does_not_exist_is_infinite_not_invented() -> None:
    assert cs.survival_median(runs([1, 9, 9], [1, 0, 0])) == np.inf
    assert cs.survival_median(runs([1, 9], [1, 0])) == np.inf


def test_the_median_time_counts_the_missed() -> None:
    estimate = es.estimate_of(runs([5, 6, 7, 60, 8], [1, 1, 1, 0, 1]))
    assert (estimate.point, estimate.low, estimate.high) == (7, 5, np.inf)
    # Fewer than six runs allow no 95 % for a median.
    assert estimate.kind == es.RANGE
    assert cs.missed_words(4, 5) == "not reached in 1 of 5"
    assert cs.missed_words(2, 2) is None


@pytest.mark.parametrize(("n", "rank"), [(5, 0), (6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (30, 10)])
def test_order_statistics_agree_with_the_printed_tables(n: int, rank: int) -> None:
    """Ranks of the sign test's interval of a median (Conover 1999, table A3)."""
    assert cs.order_rank(n, 0.95) == rank


def test_a_run_that_was_stopped_early_may_have_taken_any_longer_time() -> None:
    least_known = runs([1, 2, 3, 4, 5, 0.5], [1, 1, 1, 1, 1, 0])
    assert bounds(es.estimate_of(least_known)) == (0.5, np.inf)
    assert es.estimate_of(least_known).kind == es.INTERVAL


def test_a_ratio_of_times_needs_both_medians() -> None:
    fast, slow, never = runs([1, 2, 4], [1, 1, 1]), runs([4, 8, 16], [1, 1, 1]), runs([9, 9, 9], [0, 0, 0])
    estimate = es.ratio_estimate(slow, fast)
    assert estimate is not None
    assert estimate.point == pytest.approx(4.0)
    assert es.ratio_estimate(never, fast) is None
    # One run of five missed it: bounds, but not of 95 %.
    ratio = es.ratio_estimate(runs([4, 5, 6, 9, 7], [1, 1, 1, 0, 1]), runs([1, 2, 3, 2, 2], [1] * 5))
    assert ratio is not None
    assert ratio.kind == es.RANGE
    assert ratio.high == np.inf


def test_draws_of_a_median_are_its_order_statistics() -> None:
    times = runs([float(t) for t in range(1, 11)], [1] * 9 + [0])
    low, high = es.draws_interval(es.Sampler(rng()).draws(times))
    assert (low, high) == bounds(es.estimate_of(times)) == (2, 9)


def test_survival_median_handles_many_resamples_at_once() -> None:
    source = rng(5)
    worlds = np.stack(
        [runs(list(source.uniform(0, 9, 6)), list(source.integers(0, 2, 6))) for _ in range(50)]
    )
    together = cs.survival_median(worlds)
    assert together.tolist() == [float(cs.survival_median(world)) for world in worlds]


def test_the_table_of_the_trend_is_students_t() -> None:
    degrees = range(FEWEST_BLOCKS - 2, BLOCKS - 1)
    assert [t_quantile(0.975, each) for each in degrees] == pytest.approx(T_POINTS, abs=6e-5)
