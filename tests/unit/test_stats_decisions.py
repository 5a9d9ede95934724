from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldyno.stats import power
from rldyno.stats.censored import stack
from rldyno.stats.distributions import proportion_interval, t_quantile, t_tail
from rldyno.stats.equivalence import DIFFERENT, EQUAL, UNDECIDED, share_bounds, share_equivalence, tost
from rldyno.stats.moments import Difference, Moments, difference, paired_difference
from rldyno.stats.significance import (
    all_pairs,
    fisher,
    holm,
    log_rank,
    log_rank_of_several,
    permutation_p,
    welch,
)
from rldyno.stats.tasks import probability_of_improvement


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


def test_fisher_by_hand() -> None:
    # The lady tasting tea: 3 of 4 against 1 of 4: (16 + 1 + 16 + 1) / 70.
    assert fisher(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert fisher(5, 5, 0, 5) == pytest.approx(2 / 252)
    assert fisher(9, 10, 10, 10) == pytest.approx(1.0)


def test_log_rank_of_several_is_that_of_two() -> None:
    """Of two groups it is the two-sided test with the normal approximation."""
    a, b = stack(np.arange(1.0, 31), np.ones(30, bool)), stack(np.arange(12.5, 42), np.ones(30, bool))
    assert log_rank_of_several([a, b]) == pytest.approx(log_rank(a, b), rel=1e-6)
    assert log_rank_of_several([a, a, a]) == pytest.approx(1.0)
    assert log_rank_of_several([a, a, b]) < 0.01


# --- all pairs of a group -----------------------------------------------------------------------------------


def watched(source: np.random.Generator, n: int, failures: float) -> np.ndarray:
    times = source.lognormal(0, 0.4, n)
    reached = (source.random(n) >= failures) & (times < 3)
    return stack(np.where(reached, times, 3.0), reached)


@pytest.mark.slow
@pytest.mark.parametrize("contestants", [2, 3, 6])
@pytest.mark.parametrize("failures", [0.0, 0.3])
def test_family_wise_error_stays_under_five_percent(contestants: int, failures: float) -> None:
    """Equal contestants, five seeds: some pair is called different in ≤ 5 % of 300 groups (+ 2 s.e.)."""
    source, worlds = rng(contestants), 300
    alarms = 0
    for _ in range(worlds):
        runs = {str(index): watched(source, 5, failures) for index in range(contestants)}
        alarms += min(found.p for found in all_pairs(runs).values()) <= 0.05
    assert alarms / worlds <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / worlds)


@pytest.mark.slow
def test_the_equal_ones_are_safe_beside_one_that_never_learns() -> None:
    """Not only if all are equal: the others too are called different in at most 5 % (+ 2 s.e.)."""
    source, worlds = rng(9), 400
    alarms = 0
    for _ in range(worlds):
        runs = {name: watched(source, 5, 1.0 if name == "a" else 0.3) for name in "abcd"}
        found = all_pairs(runs)
        alarms += any(found[frozenset(pair)].p <= 0.05 for pair in ("bc", "bd", "cd"))
    assert alarms / worlds <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / worlds)


@pytest.mark.parametrize("contestants", [2, 3, 6, 12])
def test_five_of_five_against_none_of_five_is_a_verdict(contestants: int) -> None:
    source = rng(contestants)
    runs = {str(index): watched(source, 5, 0.0) for index in range(contestants)}
    runs["0"] = stack(np.full(5, 3.0), np.zeros(5, dtype=bool))
    found = all_pairs(runs)
    assert max(found[frozenset(("0", name))].p for name in runs if name != "0") <= 0.05


def test_values_are_corrected_by_holm_and_say_what_the_verdict_asks_for() -> None:
    source = rng(1)
    values = {name: source.lognormal(mean, 0.05, 5) for name, mean in (("a", 0), ("b", 0), ("c", 1))}
    found = all_pairs(values)
    assert found[frozenset("ac")].p < 0.001
    assert found[frozenset("ab")].p > 0.05
    # The two clear pairs no longer count: the last one is held to 5 %.
    assert found[frozenset("ab")].alpha == pytest.approx(0.05)
    assert found[frozenset("ab")].p == pytest.approx(welch(np.log(values["a"]), np.log(values["b"])))
    assert all_pairs({"a": np.array([1.0]), "b": np.array([2.0, 3.0])}) == {}


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


def share_called(n: int, share: float, base: float, margin: float) -> float:
    """The exact chance that two shares of n runs each are called equal."""
    hits = np.arange(n + 1)
    low, high = share_bounds(hits[:, None], n, hits[None, :], n)
    mine, theirs = (
        np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in hits]) for p in (share, base)
    )
    return float((mine[:, None] * theirs)[(-margin <= low) & (high <= margin)].sum())


@pytest.mark.parametrize("n", [5, 9, 10, 15, 30, 60])
def test_equal_shares_are_claimed_falsely_in_at_most_five_percent(n: int) -> None:
    """Over all shares that lie exactly at the margin; counted, not simulated."""
    at_margin = [share_called(n, share, share + 0.3, 0.3) for share in np.linspace(0, 0.7, 36)]
    assert max(at_margin) <= 0.05
    # Without failures nine runs are enough.
    assert share_called(n, 1.0, 1.0, 0.3) == (1.0 if n >= 9 else 0.0)


def test_states_of_shares() -> None:
    assert share_equivalence(0, 5, 5, 5, 0.3).state() == DIFFERENT
    few = share_equivalence(5, 5, 5, 5, 0.3)
    assert few.state() == UNDECIDED
    assert few.more_runs is not None
    assert 4 <= few.more_runs <= 20
    assert share_equivalence(10, 10, 10, 10, 0.3).state() == EQUAL
    # A third less than the reference: more seeds would not show them equal.
    assert share_equivalence(4, 6, 6, 6, 0.3).more_runs is None


# --- power --------------------------------------------------------------------------------------------------


def test_a_known_difference_needs_the_runs_of_cohens_tables() -> None:
    """Cohen 1988, power 0.8, two-sided 0.05: d = 0.5 → 64 per group, d = 0.8 → 26."""
    assert power.detectable_difference(1.0, 64) == pytest.approx(0.5, abs=0.01)
    assert power.detectable_difference(1.0, 26) == pytest.approx(0.8, abs=0.02)


def test_a_stricter_verdict_asks_for_more_seeds() -> None:
    found = Difference(1.0, 0.6, 8)
    alone, among_six = power.runs_to_detect(found, 5), power.runs_to_detect(found, 5, 0.05 / 15)
    assert alone is not None
    assert among_six is not None
    assert alone < among_six
    # Nothing seen so far.
    assert power.runs_to_detect(Difference(0.0, 1.0, 18), 10, 0.001) is None


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5, 10])
def test_about_so_many_more_seeds_keep_their_promise(n: int) -> None:
    """80 % over differences of all sizes; 600 worlds in which the first n runs left it open."""
    source, kept = rng(n), []
    while len(kept) < 600:
        shift = source.uniform(-6, 6)
        a, b = source.normal(shift, 1, n), source.normal(0, 1, n)
        found = difference(Moments.of(a), Moments.of(b))
        more = None if found.p_nonzero() <= 0.0125 else power.runs_to_detect(found, n, 0.0125)
        if more is not None:
            after = np.append(a, source.normal(shift, 1, more)), np.append(b, source.normal(0, 1, more))
            kept.append(welch(*after) <= 0.0125)
    assert 0.75 <= np.mean(kept) <= 0.87


@pytest.mark.slow
def test_seeds_that_would_show_two_equal_keep_their_promise() -> None:
    """Over differences of all sizes within and around the margin."""
    source, margin, kept = rng(4), math.log(1.5), []
    while len(kept) < 300:
        shift = source.uniform(-1, 1)
        gaps = source.normal(shift, 0.3, 5)
        more = tost(paired_difference(gaps, np.zeros(5)), margin, 5).more_runs
        if more is not None:
            after = np.append(gaps, source.normal(shift, 0.3, more))
            kept.append(tost(paired_difference(after, np.zeros(5 + more)), margin, 5 + more).state() == EQUAL)
    assert 0.74 <= np.mean(kept) <= 0.9
    assert power.runs_to_show_equal(Difference(0.5, 0.1, 4), margin, 5) is None


def test_a_bound_that_is_far_needs_few_runs_and_one_that_is_near_many() -> None:
    far, near = power.runs_to_clear(1.1, 1.0, 5), power.runs_to_clear(2.0, 1.0, 5)
    assert far is not None
    assert near is not None
    assert far < near
    # It may well lie on the other side.
    assert power.runs_to_clear(4.0, 1.0, 5) is None
    assert power.runs_to_clear(1.0, 0.0, 5) is None
    assert power.runs_to_clear(math.inf, 1.0, 5) is None


# --- how often one is better --------------------------------------------------------------------------------


def test_probability_of_improvement_by_hand() -> None:
    # x wins 5 of 6 pairs and ties none.
    estimate = probability_of_improvement(np.array([2.0, 4, 6]), np.array([1.0, 3]))
    assert estimate.point == pytest.approx(5 / 6)
    assert probability_of_improvement(np.array([1.0, 5]), np.array([5.0, 4])).point == pytest.approx(1.5 / 4)
    # Complete separation of a few runs proves little; Newcombe's interval (2006) is no point.
    separated = probability_of_improvement(np.arange(5.0) + 9, np.arange(5.0))
    assert (separated.point, separated.high) == (1.0, 1.0)
    assert separated.low is not None
    assert 0.5 < separated.low < 0.9
    assert probability_of_improvement(np.array([1.0]), np.array([2.0])).low is None


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0])
def test_probability_of_improvement_covers(n: int, shift: float) -> None:
    source, worlds = rng(n), 1000
    truth = 0.5 * math.erfc(-shift / 2)
    hits = 0
    for _ in range(worlds):
        estimate = probability_of_improvement(source.normal(shift, 1, n), source.normal(0, 1, n))
        assert estimate.low is not None
        assert estimate.high is not None
        hits += estimate.low <= truth <= estimate.high
    assert hits / worlds >= 0.93 - 2 * math.sqrt(0.93 * 0.07 / worlds)
