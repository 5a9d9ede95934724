from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldyno.stats import bootstrap as bs
from rldyno.stats import censored as cs
from rldyno.stats.distributions import t_quantile
from rldyno.stats.trend import BLOCKS, FEWEST_BLOCKS, T_POINTS


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_interquartile_mean_cuts_a_quarter_at_each_end() -> None:
    # 8 runs: 2 cut at each end, (3 + 4 + 5 + 6) / 4.
    assert bs.interquartile_mean(np.array([100.0, 3, 5, 1, 2, 4, 6, 99])) == 4.5
    # Fewer than 4 runs: nothing to cut.
    assert bs.interquartile_mean(np.array([1.0, 2, 6])) == 3.0
    # 5 runs: floor(5 / 4) = 1 cut at each end.
    assert bs.interquartile_mean(np.array([0.0, 1, 2, 6, 1000])) == 3.0


def test_interquartile_mean_reduces_the_last_axis() -> None:
    assert bs.interquartile_mean(np.array([[1.0, 2, 3, 50], [4, 5, 7, 0]])).tolist() == [2.5, 4.5]


@pytest.mark.parametrize(("degrees", "exact"), [(4, 2.776445), (9, 2.262157), (19, 2.093024), (99, 1.984217)])
def test_t_quantile_agrees_with_the_printed_tables(degrees: int, exact: float) -> None:
    assert bs.t_quantile(0.975, degrees) == pytest.approx(exact, rel=1e-6)


def test_single_run_has_no_interval_and_few_runs_say_so() -> None:
    one = bs.bootstrap(np.array([3.0]), rng())
    assert (one.point, one.low, one.high, one.too_few) == (3.0, None, None, True)
    assert bs.bootstrap(np.arange(4.0), rng()).too_few
    assert not bs.bootstrap(np.arange(5.0), rng()).too_few


def test_three_runs_give_their_range() -> None:
    estimate = bs.bootstrap(np.array([1.0, 2, 6]), rng())
    assert (estimate.low, estimate.point, estimate.high) == (1.0, 3.0, 6.0)


def test_same_generator_same_interval() -> None:
    values = rng(1).normal(10, 1, 12)
    assert bs.bootstrap(values, rng(7)) == bs.bootstrap(values, rng(7))
    assert bs.bootstrap(values, rng(7)) != bs.bootstrap(values, rng(8))


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=12))
def test_interval_lies_within_the_runs(values: list[float]) -> None:
    estimate = bs.bootstrap(np.array(values), rng())
    assert estimate.low is not None
    assert estimate.high is not None
    slack = 1e-9 * max(values)
    assert min(values) - slack <= estimate.low <= estimate.high <= max(values) + slack


def test_ratio_of_a_group_to_half_of_itself() -> None:
    values = np.array([8.0, 9, 10, 11, 12, 13])
    estimate = bs.ratio(values, values / 2, rng())
    assert estimate.point == pytest.approx(2.0)
    assert estimate.low is not None
    assert estimate.high is not None
    assert 1.3 < estimate.low < 2 < estimate.high < 3.1


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["normal", "lognormal"])
def test_nominal_95_percent_covers(draw: str) -> None:
    """Means of 10 runs; standard error of the coverage estimate with 1,500 worlds is 0.6 %."""
    source = rng(3)
    hits = 0
    for _ in range(1500):
        if draw == "normal":
            values, truth = source.normal(5, 1, 10), 5.0
        else:
            values, truth = source.lognormal(0, 0.25, 10), math.exp(0.25**2 / 2)
        estimate = bs.bootstrap(values, source, bs.mean)
        assert estimate.low is not None
        assert estimate.high is not None
        hits += estimate.low <= truth <= estimate.high
    assert 0.93 <= hits / 1500 <= 0.97


def test_ratio_of_equal_groups_covers_one() -> None:
    source = rng(4)
    hits = 0
    for _ in range(300):
        estimate = bs.ratio(source.lognormal(0, 0.2, 8), source.lognormal(0, 0.2, 8), source)
        assert estimate.low is not None
        assert estimate.high is not None
        hits += estimate.low <= 1 <= estimate.high
    assert hits / 300 >= 0.92


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
    estimate = bs.bootstrap(runs([5, 6, 7, 60, 8], [1, 1, 1, 0, 1]), rng(), cs.survival_median)
    assert (estimate.point, estimate.high) == (7, np.inf)
    assert cs.missed_words(4, 5) == "not reached in 1 of 5"
    assert cs.missed_words(2, 2) is None


def ratio_of_medians(slow: np.ndarray, fast: np.ndarray) -> bs.Estimate | None:
    source = rng()
    return cs.median_ratio(*(bs.sample(values, source, cs.survival_median) for values in (slow, fast)))


def test_a_ratio_of_times_needs_both_medians() -> None:
    fast, slow, never = runs([1, 2, 3], [1, 1, 1]), runs([4, 4, 4], [1, 1, 1]), runs([9, 9, 9], [0, 0, 0])
    estimate = ratio_of_medians(slow, fast)
    assert estimate is not None
    assert (estimate.point, estimate.low, estimate.high) == (2.0, 4 / 3, 4.0)
    assert ratio_of_medians(never, fast) is None


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
