from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from rldyno.answers.pairs import (
    DIFFERENT,
    EQUAL,
    OPEN,
    UNREACHED,
    Scale,
    compare_pairs,
    deciding_pairs,
    ranking,
)
from rldyno.stats import anytime
from rldyno.stats.anytime import Gaps
from rldyno.stats.forecast import decided_by, seeds_to_decide

TIMES = Scale(more_is_better=False, censorable=True, within=0.02)
SPEEDS = Scale(more_is_better=True, censorable=False, within=0.02)


def exact(*gaps: float) -> Gaps:
    return Gaps(np.array(gaps), np.array(gaps))


# --- evidence -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_evidence_of_t_is_the_bayes_factor_of_its_definition() -> None:
    """∬ normal likelihood · N(δ; 0, g) dδ · dσ/σ over ∫ likelihood at δ = 0 · dσ/σ, by plain sums."""
    gaps = np.array([0.9, 1.4, 0.2, 1.1])
    n = len(gaps)
    sigmas = np.exp(np.linspace(-6, 6, 801))[:, None]
    factors = []
    for variance in anytime.PRIOR_VARIANCES:
        deltas = np.linspace(-60, 60, 12_001)[None, :]
        prior = np.exp(-(deltas**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance) * 0.01

        def likelihood(deltas: np.ndarray) -> np.ndarray:
            squares = sum((gap - deltas * sigmas) ** 2 for gap in gaps)
            return np.asarray(sigmas**-n * np.exp(-squares / (2 * sigmas**2)))

        with_gap = float((likelihood(deltas) * prior).sum())
        factors.append(with_gap / float(likelihood(np.zeros((1, 1))).sum()))
    found = 1 / anytime.mean_chance(gaps)
    assert found == pytest.approx(float(np.mean(factors)), rel=1e-3)


def test_evidence_of_signs_is_expected_not_to_grow() -> None:
    """Over all sequences of n fair signs its mean is 1."""
    for n in (1, 4, 9):
        mean = sum(
            anytime.sign_evidence(sum(signs), n - sum(signs)) for signs in itertools.product((0, 1), repeat=n)
        )
        assert mean / 2**n == pytest.approx(1.0)


def test_the_reach_is_where_evidence_meets_the_error() -> None:
    for n, error in itertools.product((4, 10, 30), (0.05, 0.005)):
        assert float(anytime.t_evidence(anytime.t_reach(n, error), n)) == pytest.approx(1 / error, rel=1e-6)
    assert anytime.t_reach(2, 0.05) == math.inf
    assert anytime.t_reach(1, 0.05) == math.inf


def test_identical_runs_have_no_spread_and_a_sure_gap() -> None:
    gaps = exact(*[0.3] * 6)
    assert anytime.interval(gaps, 0.05, censorable=False) == pytest.approx((0.3, 0.3))
    assert anytime.chance(gaps, censorable=False) < 1e-4
    assert anytime.chance(exact(*[0.0] * 6), censorable=False) == 1.0


def test_the_interval_leaves_out_zero_exactly_where_the_chance_is_below_the_error() -> None:
    source = np.random.default_rng(0)
    for censorable in (False, True):
        for _ in range(200):
            gaps = exact(*source.normal(0.7, 1.0, int(source.integers(5, 15))))
            low, high = anytime.interval(gaps, 0.05, censorable=censorable)
            assert (low > 0 or high < 0) == (anytime.chance(gaps, censorable=censorable) <= 0.05)


# --- gaps that are not normal, and forecasts ----------------------------------------------------------------


def gaps_of_kind(kind: str, source: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Typical gap 0, that of the core, of spread 1; a tenth of the gaps may be outliers of one side."""
    if kind == "heavy tails":
        return source.standard_t(3, shape)
    if kind == "skewed":
        return source.lognormal(0, 1, shape) - 1
    size = {"normal": 0.0, "outliers of 3": 3.0, "outliers of 10": 10.0}[kind]
    return source.standard_normal(shape) + size * (source.random(shape) < 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "heavy tails", "skewed", "outliers of 3", "outliers of 10"])
def test_no_difference_is_seen_in_outliers_of_one_side(kind: str) -> None:
    """Checked at 5 to 100 seeds: at most 5 %."""
    gaps = gaps_of_kind(kind, np.random.default_rng(7), (200, 100))
    wrong = sum(
        any(anytime.mean_chance(path[:n]) <= 0.05 for n in (*range(5, 20), *range(20, 101, 8)))
        for path in gaps
    )
    assert wrong / len(gaps) <= 0.05


def test_student_alone_sees_a_difference_in_outliers_of_one_side() -> None:
    """Checked at 5 to 100 seeds: about a third of the cases."""
    gaps = gaps_of_kind("outliers of 10", np.random.default_rng(7), (1000, 100))
    alarms = np.zeros(len(gaps), dtype=bool)
    for n in range(5, 101):
        t = gaps[:, :n].mean(axis=1) / gaps[:, :n].std(axis=1, ddof=1) * math.sqrt(n)
        alarms |= anytime.t_evidence(t, n) >= 20
    assert 0.25 < alarms.mean() < 0.4


def seeds_spent(gap: float, *, trimmed: bool) -> float:
    """On average, of 5 to 30, for one of three pairs."""
    found = []
    for path in np.random.default_rng(9).normal(gap, 1, (200, 30)):
        for n in range(5, 31):
            t = anytime.locations(path[:n])[0].t
            p = anytime.mean_chance(path[:n]) if trimmed else 1 / float(anytime.t_evidence(t, n))
            if p <= 0.05 / 3:
                break
        found.append(n)
    return float(np.mean(found))


@pytest.mark.slow
def test_the_price_of_asking_the_middle_too() -> None:
    """In seeds: two more than twelve for a gap of 1.35 spreads, nothing for large gaps."""
    alone, both = (seeds_spent(1.35, trimmed=trimmed) for trimmed in (False, True))
    assert alone == pytest.approx(12, abs=1)
    assert both - alone == pytest.approx(2, abs=1)
    assert seeds_spent(2.5, trimmed=True) - seeds_spent(2.5, trimmed=False) < 0.3


@pytest.mark.slow
def test_forecasts_are_kept_as_often_as_they_say() -> None:
    """Gaps of the size of their spread or less, 5 seeds, three pairs: 80 % of the forecasts are kept."""
    source, error, margin, have = np.random.default_rng(5), 0.05 / 3, 0.1, 5

    def decided(gaps: np.ndarray) -> bool:
        low, high = anytime.mean_interval(gaps, error)
        return low > 0 or high < 0 or (-margin <= low and high <= margin)

    kept = []
    for _ in range(300):
        gaps = source.normal(source.normal(), 1, anytime.MOST_SEEDS)
        start = exact(*gaps[:have])
        chances = decided_by(start, margin, error=error, equal_error=error, censorable=False)
        more = None if decided(gaps[:have]) else seeds_to_decide(chances, have)
        if more is not None:
            checks = np.unique(np.linspace(have + 1, have + more, 12).astype(int))
            kept.append(any(decided(gaps[:n]) for n in checks))
    assert len(kept) > 150
    assert 0.73 <= np.mean(kept) <= 0.87


def test_forecast_of_signs_where_runs_never_got_there() -> None:
    """Six wins of six: nine of nine are needed at 5 %, half of it for signs, and are likely."""
    won = Gaps(np.full(6, 1.0), np.full(6, np.inf))
    chances = decided_by(won, 0.02, error=0.05, equal_error=0.05, censorable=True)
    assert chances is not None
    assert chances[7] == 0
    assert chances[8] > 0.7
    assert seeds_to_decide(chances, 6) in (2, 3, 4)
    split = Gaps(np.array([1.0, -np.inf] * 3), np.array([np.inf, -1.0] * 3))
    assert seeds_to_decide(decided_by(split, 0.02, error=0.05, equal_error=0.05, censorable=True), 6) is None


# --- runs that never got there ------------------------------------------------------------------------------


def test_gaps_of_censored_times_are_bounds() -> None:
    mine = np.array([[2.0, 1], [4.0, 0], [1.0, 1], [3.0, 0]])
    theirs = np.array([[1.0, 1], [1.0, 1], [4.0, 0], [3.0, 0]])
    gaps = Gaps.of_times(mine, theirs)
    assert gaps.low == pytest.approx([math.log(2), math.log(4), -math.inf, -math.inf])
    assert gaps.high == pytest.approx([math.log(2), math.inf, math.log(1 / 4), math.inf])
    assert not gaps.exact


def test_signs_by_hand() -> None:
    """Nine gaps above 0: E = 2⁹ B(9.5, 0.5)/B(0.5, 0.5) = 95, so that 0 is left out at an error of 5 %."""
    gaps = Gaps(np.arange(1.0, 10.0), np.array([*np.arange(1.0, 9.0), np.inf]))
    assert anytime.median_interval(gaps, 0.05) == (1.0, 9.0)
    assert anytime.sign_evidence(9, 0) == pytest.approx(94.96, abs=0.01)


def test_pairs_of_which_neither_got_there_say_nothing() -> None:
    known = exact(1.0, 2.0, 3.0)
    padded = Gaps(
        np.concatenate([known.low, np.full(20, -np.inf)]), np.concatenate([known.high, np.full(20, np.inf)])
    )
    assert anytime.median_interval(padded, 0.05) == anytime.median_interval(known, 0.05)


# --- duels --------------------------------------------------------------------------------------------------


def runs(centre: float, spread: float, n: int, seed: int) -> dict[int, tuple[float, bool]]:
    noise = np.random.default_rng(seed).normal(0, spread, n)
    return {index: (centre * math.exp(gap), True) for index, gap in enumerate(noise)}


def test_twice_as_fast_is_settled_by_five_seeds() -> None:
    found = compare_pairs({"a": runs(2000, 0.03, 5, 0), "b": runs(1000, 0.03, 5, 1)}, SPEEDS)
    duel = found[frozenset("ab")]
    assert duel.state == DIFFERENT
    assert duel.ratio == pytest.approx(2, rel=0.1)
    assert 1 < duel.low < 2 < duel.high
    turned = duel.seen_from("b")
    assert (turned.first, turned.second) == ("b", "a")
    assert turned.ratio == pytest.approx(1 / duel.ratio)
    assert (turned.low, turned.high) == pytest.approx((1 / duel.high, 1 / duel.low))


def test_alike_within_the_margin_is_equal_and_a_wide_spread_is_open() -> None:
    close = compare_pairs({"a": runs(1000, 0.002, 8, 0), "b": runs(1001, 0.002, 8, 1)}, SPEEDS)
    assert close[frozenset("ab")].state == EQUAL
    wide = compare_pairs({"a": runs(1000, 0.2, 8, 0), "b": runs(1001, 0.2, 8, 1)}, SPEEDS)
    assert wide[frozenset("ab")].state == OPEN


def test_only_seeds_that_both_have_count() -> None:
    mine, theirs = runs(10, 0.05, 8, 0), runs(20, 0.05, 8, 1)
    fewer = {seed: value for seed, value in theirs.items() if seed < 5}
    assert compare_pairs({"a": mine, "b": fewer}, TIMES)[frozenset("ab")].seeds == 5


def test_who_never_gets_there_stands_last_and_two_of_them_are_not_worth_a_seed() -> None:
    never = dict.fromkeys(range(9), (50.0, False))
    found = {"never": never, "quick": runs(5, 0.05, 9, 0), "neither": dict(never)}
    pairs = compare_pairs(found, TIMES)
    assert ranking(found, TIMES) == ["quick", "neither", "never"]
    assert pairs[frozenset(("never", "neither"))].state == UNREACHED
    lost = pairs[frozenset(("never", "quick"))].seen_from("quick")
    assert lost.state == DIFFERENT or lost.chance <= 0.15
    assert lost.low > 1
    assert lost.high == math.inf


def test_the_family_counts_contestants_that_cannot_be_compared() -> None:
    pair = {"a": runs(100, 0.05, 5, 0), "b": runs(115, 0.05, 5, 1)}
    alone, among = (compare_pairs(pair, TIMES, family)[frozenset("ab")].chance for family in (2, 6))
    assert among == pytest.approx(min(1.0, 15 * alone))


def test_an_open_duel_says_how_many_seeds_would_settle_it() -> None:
    pair = {"a": runs(100, 0.05, 6, 0), "b": runs(105, 0.05, 6, 1)}
    duel = compare_pairs(pair, SPEEDS, most=30)[frozenset("ab")]
    assert duel.state == OPEN
    assert duel.more_seeds is not None
    assert 1 <= duel.more_seeds < 1000


def test_which_pairs_decide() -> None:
    assert deciding_pairs(["a", "b", "c"], "resolved") == [("a", "b"), ("b", "c")]
    assert deciding_pairs(["a", "b", "c"], "winner") == [("a", "b"), ("a", "c")]
