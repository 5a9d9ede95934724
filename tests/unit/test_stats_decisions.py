from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldyno.stats import power
from rldyno.stats.bootstrap import RESAMPLES, mean, narrowness
from rldyno.stats.censored import stack
from rldyno.stats.distributions import proportion_interval, t_quantile, t_tail
from rldyno.stats.equivalence import (
    DIFFERENT,
    EQUAL,
    UNDECIDED,
    censored_equivalence,
    censored_log_mean,
    tost,
)
from rldyno.stats.significance import (
    Difference,
    Moments,
    difference,
    holm,
    log_rank,
    paired_difference,
    permutation_p,
    welch,
)
from rldyno.stats.tasks import probability_of_improvement, stratified


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- distributions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("degrees", "probability", "printed"),
    [
        (1, 0.975, 12.7062),
        (2, 0.95, 2.91999),
        (4, 0.975, 2.77645),
        (10, 0.995, 3.16927),
        (30, 0.95, 1.69726),
        (120, 0.975, 1.97993),
    ],
)
def test_t_agrees_with_the_printed_tables(degrees: int, probability: float, printed: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(printed, rel=1e-5)
    assert t_tail(printed, degrees) == pytest.approx(1 - probability, rel=1e-3)
    assert t_tail(-printed, degrees) == pytest.approx(probability, rel=1e-3)


def test_proportion_interval_by_hand() -> None:
    # 0 of n: the upper end solves (1 − p)^n = 0.025.
    assert proportion_interval(0, 10) == (0.0, pytest.approx(1 - 0.025**0.1))
    assert proportion_interval(10, 10) == (pytest.approx(0.025**0.1), 1.0)
    # Clopper & Pearson 1934, 5 of 10: 0.187 to 0.813.
    assert proportion_interval(5, 10) == (pytest.approx(0.1871, abs=1e-4), pytest.approx(0.8129, abs=1e-4))


# --- tests --------------------------------------------------------------------------------------------------

# R: `sleep`, t = −1.8608, df = 17.776, p = 0.07939.
SLEEP_1 = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
SLEEP_2 = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])


def test_welch_on_students_sleep_data() -> None:
    found = difference(Moments.of(SLEEP_1), Moments.of(SLEEP_2))
    assert found.mean / found.error == pytest.approx(-1.8608, abs=1e-4)
    assert found.degrees == pytest.approx(17.776, abs=1e-3)
    assert welch(SLEEP_1, SLEEP_2) == pytest.approx(0.07939, abs=1e-5)


def test_paired_on_students_sleep_data() -> None:
    # t = −4.0621, df = 9, p = 0.002833.
    found = paired_difference(SLEEP_1, SLEEP_2)
    assert found.mean / found.error == pytest.approx(-4.0621, abs=1e-4)
    assert found.p_nonzero() == pytest.approx(0.002833, abs=1e-6)


def test_identical_pairs_differ_by_nothing() -> None:
    found = paired_difference(SLEEP_1, SLEEP_1)
    assert (found.mean, found.error, found.p_nonzero()) == (0.0, 0.0, 1.0)
    assert Difference(1.0, 0.0, 4).p_nonzero() == 0.0


def test_permutations_by_hand() -> None:
    # Complete separation of 3 and 4: 2 of the C(7, 3) = 35 splits are as extreme.
    assert permutation_p(np.arange(1.0, 8), 3) == pytest.approx(2 / 35)
    # Tortoise and hare: U = 11 and 25; exact two-sided p by counting the splits.
    tortoises, hares = [1.0, 7, 8, 9, 10, 11], [2.0, 3, 4, 5, 6, 12]
    counted = sum(
        abs(sum(chosen) - 39) >= abs(46 - 39) for chosen in itertools.combinations(range(1, 13), 6)
    ) / math.comb(12, 6)
    assert permutation_p(np.array(tortoises + hares), 6) == pytest.approx(counted)
    assert permutation_p(np.ones(9), 4) == 1.0


def test_many_runs_use_the_normal_approximation_and_agree_with_counting() -> None:
    scores = np.arange(18.0)
    exact = permutation_p(scores, 9)
    moved = np.concatenate([scores, np.array([8.5] * 4)])
    assert exact < 1e-4
    assert permutation_p(moved, 9) < 1e-3
    middling = np.array([0.0, 3, 4, 7, 8, 11, 12, 15, 16, 1, 2, 5, 6, 9, 10, 13, 14, 17])
    assert permutation_p(middling, 9) == pytest.approx(0.93, abs=0.08)


def test_log_rank_on_freireichs_remissions() -> None:
    """Freireich et al. 1963: the textbook χ² is 16.79, p ≈ 4e-5."""
    drug_times = [6, 6, 6, 7, 10, 13, 16, 22, 23, 6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    drug = stack(np.array(drug_times, dtype=float), np.array([1] * 9 + [0] * 12, dtype=bool))
    placebo_times = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
    placebo = stack(np.array(placebo_times, dtype=float), np.ones(21, dtype=bool))
    assert log_rank(drug, placebo) < 5e-4
    assert log_rank(drug, placebo, side=1) < log_rank(drug, placebo)
    assert log_rank(drug, placebo, side=-1) > 0.99


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1, made monotone.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_nothing_and_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for p, corrected in zip(p_values, adjusted, strict=True):
        assert p <= corrected <= min(1.0, p * len(p_values)) or corrected == max(
            adjusted[i] for i, q in enumerate(p_values) if q <= p
        )


def test_family_wise_error_stays_under_five_percent() -> None:
    """Ten comparisons of equal groups, 600 times: at least one is called different in ≤ 5 % (+ 2 s.e.)."""
    source = rng(1)
    false_alarms = 0
    for _ in range(600):
        runs = source.lognormal(0, 0.3, (5, 8))
        moments = [Moments.of(np.log(row)) for row in runs]
        p_values = [difference(a, b).p_nonzero() for a, b in itertools.combinations(moments, 2)]
        false_alarms += min(holm(p_values)) <= 0.05
    assert false_alarms / 600 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 600)


# --- equivalence --------------------------------------------------------------------------------------------


def test_tost_by_hand() -> None:
    # difference 0.1 ± 0.05 · t(0.95, 10) = 0.1 ± 0.0906.
    found = tost(Difference(0.1, 0.05, 10), 0.2, 6)
    assert (found.low, found.high) == (
        pytest.approx(0.1 - 0.09062, abs=1e-5),
        pytest.approx(0.19062, abs=1e-5),
    )
    assert found.state() == EQUAL
    assert tost(Difference(0.1, 0.05, 10), 0.19, 6).state() == UNDECIDED
    assert tost(Difference(0.5, 0.05, 10), 0.2, 6).state() == DIFFERENT
    # Twenty such tests: after correction it is no longer proven.
    assert tost(Difference(0.33, 0.05, 10), 0.2, 6).state(1.0) == UNDECIDED


@pytest.mark.slow
def test_equivalence_is_claimed_falsely_at_most_five_percent_at_the_margin() -> None:
    source = rng(2)
    margin = math.log(1.5)
    called = 0
    for _ in range(600):
        a, b = source.normal(margin, 0.2, 10), source.normal(0, 0.2, 10)
        called += tost(difference(Moments.of(a), Moments.of(b)), margin, 10).state() == EQUAL
    assert 0.03 <= called / 600 <= 0.07


def test_uncensored_log_mean_is_the_plain_mean() -> None:
    logs = np.array([1.0, 2, 4, 5])
    mean, error, degrees = censored_log_mean(stack(np.exp(logs), np.ones(4, dtype=bool)))
    assert (mean, degrees) == (pytest.approx(3.0), 3)
    assert error == pytest.approx(logs.std(ddof=1) / 2)


def test_censored_log_mean_covers_the_truth() -> None:
    """A quarter of the runs end before the event; 90 % intervals of n = 12."""
    source = rng(3)
    hits, worlds = 0, 500
    for _ in range(worlds):
        logs = source.normal(3, 0.5, 12)
        end = 3 + 0.6745 * 0.5
        runs = stack(np.exp(np.minimum(logs, end)), logs <= end)
        mean, error, degrees = censored_log_mean(runs)
        hits += abs(mean - 3) <= t_quantile(0.95, degrees) * error
    assert 0.86 <= hits / worlds <= 0.94


def test_runs_that_never_get_there_are_different_without_an_invented_number() -> None:
    learned = stack(np.array([3.0, 4, 5, 6, 7]), np.ones(5, dtype=bool))
    never = stack(np.full(5, 60.0), np.zeros(5, dtype=bool))
    found = censored_equivalence(never, learned, math.log(1.5))
    assert math.isnan(found.difference)
    assert found.state() == DIFFERENT
    assert censored_equivalence(never[:2], learned[:2], math.log(1.5)).state() == UNDECIDED
    # Stopped before the others got there: nothing is shown.
    early = stack(np.full(5, 2.5), np.zeros(5, dtype=bool))
    assert censored_equivalence(early, learned, math.log(1.5)).state() == UNDECIDED


# --- power --------------------------------------------------------------------------------------------------


def test_runs_to_detect_agrees_with_cohens_tables() -> None:
    # Cohen 1988, power 0.8, two-sided 0.05: d = 0.8 → 26, d = 0.5 → 64 per group, to within 1 run.
    assert power.runs_to_detect(0.8, 1, 1) in (26, 27)
    assert power.runs_to_detect(0.5, 1, 1) in (63, 64, 65)
    assert power.runs_to_detect(0.0, 1, 1) is None
    assert power.runs_to_detect(0.001, 1, 1) is None


def test_runs_to_show_equal_have_the_power_they_promise() -> None:
    margin, spread = math.log(1.5), 0.4
    n = power.runs_to_show_equal(0.0, margin, spread)
    assert n is not None
    source = rng(4)
    shown = sum(
        tost(paired_difference(source.normal(0, spread, n), np.zeros(n)), margin, n).state() == EQUAL
        for _ in range(500)
    )
    assert 0.74 <= shown / 500 <= 0.92
    assert power.runs_to_show_equal(0.5, margin, spread) is None


# --- several tasks ------------------------------------------------------------------------------------------


def test_probability_of_improvement_by_hand() -> None:
    # Task 1: x wins 5 of 6 pairs and ties none; task 2: one win, one tie, of 4: 1.5 / 4.
    better = [np.array([2.0, 4, 6]), np.array([1.0, 5])]
    than = [np.array([1.0, 3]), np.array([5.0, 4])]
    estimate = probability_of_improvement(better, than, rng())
    assert estimate.point == pytest.approx((5 / 6 + 1.5 / 4) / 2)
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 <= estimate.low < estimate.point < estimate.high <= 1


def test_stratified_interval_covers() -> None:
    """Three tasks of five runs each; the mean of their means."""
    source, worlds = rng(5), 400
    hits = 0
    for _ in range(worlds):
        tasks = [source.normal(truth, 1, 5) for truth in (0, 5, 10)]
        draws = [mean(runs[source.integers(0, 5, size=(RESAMPLES, 5))]) for runs in tasks]
        estimate = stratified(
            float(np.mean([runs.mean() for runs in tasks])),
            lambda draws=draws: np.mean(draws, axis=0),  # type: ignore[misc]  # bound in the loop
            [5, 5, 5],
            widen=narrowness(mean, 5),
        )
        assert estimate.low is not None
        assert estimate.high is not None
        hits += estimate.low <= 5 <= estimate.high
    assert 0.92 <= hits / worlds <= 0.98
