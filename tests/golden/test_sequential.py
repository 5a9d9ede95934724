"""Seeds added until the ranking is resolved, in worlds of known truth: error, coverage, seeds spent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from rldyno.answers.pairs import DIFFERENT, EQUAL, UNREACHED, Scale, compare_pairs, deciding_pairs, ranking
from rldyno.stats import anytime
from rldyno.stats.distributions import ALPHA, t_quantile
from rldyno.stats.estimates import Sampler, draws_interval, estimate_of, point_of

FEWEST, MOST = 5, 30


@dataclass(frozen=True)
class RunCosts:
    """How one world went."""

    runs: dict[str, dict[int, tuple[float, bool]]]
    wrong: bool
    """At some look a difference was claimed of equals or the wrong way round, or equals of different ones."""
    missed: bool
    """At the end an interval did not hold the truth."""

    def seeds(self, name: str) -> int:
        return len(self.runs[name])


def costs_of(
    source: np.random.Generator, centres: dict[str, float], spread: float, ends: float = math.inf
) -> RunCosts:
    """Five seeds of all; then seeds for the contestants of open pairs only, a look after each."""
    scale = Scale(more_is_better=False, censorable=True, within=0.02)
    every = {
        name: {seed: centre * math.exp(source.normal(0, spread)) for seed in range(MOST)}
        for name, centre in centres.items()
    }
    counts = dict.fromkeys(centres, FEWEST)
    wrong = False
    while True:
        runs = {
            name: {seed: (min(times[seed], ends), times[seed] <= ends) for seed in range(counts[name])}
            for name, times in every.items()
        }
        found = compare_pairs(runs, scale)
        for duel in found.values():
            truth = centres[duel.second] / centres[duel.first]
            way = duel.seen_from(duel.first if truth >= 1 else duel.second)
            wrong |= duel.state == DIFFERENT and (truth == 1 or way.high < 1)
            wrong |= duel.state == EQUAL and abs(math.log(truth)) > math.log(1.02)
        open_pairs = [
            pair
            for pair in deciding_pairs(ranking(runs, scale), "resolved")
            if found[frozenset(pair)].state not in (DIFFERENT, EQUAL, UNREACHED)
        ]
        wanted = {name for pair in open_pairs for name in pair if counts[name] < MOST}
        if not wanted:
            break
        for name in wanted:
            counts[name] += 1
    missed = any(
        not duel.low <= centres[duel.second] / centres[duel.first] <= duel.high for duel in found.values()
    )
    return RunCosts(runs, wrong, missed)


def slack(worlds: int) -> float:
    return 2 * math.sqrt(ALPHA * (1 - ALPHA) / worlds)


@pytest.mark.parametrize("ends", [math.inf, 1.1])
def test_equals_are_called_different_in_at_most_5_percent_of_the_studies(ends: float) -> None:
    """Three equals; half of the courses lose a third of their runs to the end of the budget."""
    source, worlds = np.random.default_rng(1), 120
    courses = [costs_of(source, dict.fromkeys("abc", 1.0), 0.25, ends) for _ in range(worlds)]
    assert sum(found.wrong for found in courses) / worlds <= ALPHA + slack(worlds)


def test_a_tenth_more_is_found_with_fewer_seeds_than_the_most() -> None:
    """Runs spread by 5 %: nearly all courses end early, rightly, and who is far off gets no seeds."""
    source, worlds = np.random.default_rng(2), 100
    courses = [costs_of(source, {"a": 1.0, "b": 1.1, "far": 3.0}, 0.05) for _ in range(worlds)]
    assert sum(found.wrong for found in courses) / worlds <= ALPHA + slack(worlds)
    assert np.mean([found.seeds("a") for found in courses]) < 0.5 * MOST
    assert np.mean([found.seeds("far") for found in courses]) < FEWEST + 1


@pytest.mark.parametrize("ratio", [1.0, 1.05, 1.1])
def test_the_interval_at_the_end_covers_the_ratio(ratio: float) -> None:
    """Where an ordinary 95 % interval, looked at until it pleases, would not: see the next test."""
    source, worlds = np.random.default_rng(3), 150
    courses = [costs_of(source, {"a": 1.0, "b": ratio}, 0.05) for _ in range(worlds)]
    assert sum(found.missed for found in courses) / worlds <= ALPHA


def test_widened_resamples_cover_the_ratio_that_seeds_were_added_for() -> None:
    """What claims use: figures, not paired, of courses that ended because this very ratio was decided."""
    source, worlds, hits = np.random.default_rng(8), 150, 0
    for _ in range(worlds):
        ended = costs_of(source, {"a": 1.0, "b": 1.1}, 0.05)
        draws = []
        for name in "ab":
            values = np.array([value for value, _ in ended.runs[name].values()])
            draws.append(anytime.widened(Sampler(source).draws(values), point_of(values), len(values)))
        low, high = draws_interval(draws[1] / draws[0])
        hits += low <= 1.1 <= high
    assert hits / worlds >= 0.95


def test_looking_until_an_ordinary_test_pleases_errs_far_more_often() -> None:
    """What the procedure is there for: 26 looks at an ordinary paired t test against 26 at the evidence."""
    source, worlds = np.random.default_rng(4), 4000
    gaps = source.standard_normal((worlds, MOST))
    ordinary, valid = np.zeros(worlds, bool), np.zeros(worlds, bool)
    for n in range(FEWEST, MOST + 1):
        shown = gaps[:, :n]
        t = shown.mean(1) / shown.std(1, ddof=1) * math.sqrt(n)
        ordinary |= np.abs(t) > t_quantile(1 - ALPHA / 2, n - 1)
        valid |= anytime.t_evidence(t, n) >= 1 / ALPHA
    assert ordinary.mean() > 0.15
    assert 0.005 < valid.mean() <= ALPHA


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "lopsided"])
def test_the_evidence_keeps_its_error_for_gaps_that_are_not_normal(kind: str) -> None:
    """Lopsided: the difference of two exponentials of unequal scale."""
    source, worlds = np.random.default_rng(5), 4000
    shape = (worlds, MOST)
    gaps = {
        "normal": lambda: source.standard_normal(shape),
        "heavy tails": lambda: source.standard_t(3, shape),
        "lopsided": lambda: source.exponential(1.0, shape) - source.exponential(0.5, shape) - 0.5,
    }[kind]()
    alarms = np.zeros(worlds, bool)
    for n in range(FEWEST, MOST + 1):
        t = gaps[:, :n].mean(1) / gaps[:, :n].std(1, ddof=1) * math.sqrt(n)
        alarms |= anytime.t_evidence(t, n) >= 1 / ALPHA
    assert alarms.mean() <= ALPHA


def test_a_contestants_own_interval_still_covers_where_seeds_stop_by_the_ranking() -> None:
    """Its figure is no comparison and is not adjusted: the stopping rule looks at ratios, not at it."""
    source, worlds = np.random.default_rng(6), 200
    hits = 0
    for _ in range(worlds):
        ended = costs_of(source, {"a": 1.0, "b": 1.08}, 0.05)
        found = estimate_of(np.array([value for value, _ in ended.runs["a"].values()]))
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 1.0 <= found.high
    assert hits / worlds >= 0.93 - slack(worlds)
