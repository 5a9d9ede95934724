"""Which differences a machine can show: against simulation, and against the number of runs needed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rldyno.doctor import spread
from rldyno.stats.distributions import deviation_interval
from rldyno.stats.power import detectable_difference


def test_so_many_seeds_do_see_it_four_times_in_five() -> None:
    rng, runs, times = np.random.default_rng(0), 10, 4_000
    difference = detectable_difference(0.1, runs)
    a, b = rng.normal(0, 0.1, (times, runs)), rng.normal(difference, 0.1, (times, runs))
    error = np.sqrt((a.var(1, ddof=1) + b.var(1, ddof=1)) / runs)
    seen = np.abs(b.mean(1) - a.mean(1)) / error > 2.1009  # t at 97.5 %, 18 degrees of freedom
    assert seen.mean() == pytest.approx(0.8, abs=0.03)


def test_spread_is_relative_and_differences_shrink_with_seeds() -> None:
    found = spread.spread_of([1.0, 1.02, 0.98, 1.01, 0.99])
    assert found.spread == pytest.approx(0.0158, abs=0.0002)
    assert found.spread == pytest.approx(spread.spread_of([10.0, 10.2, 9.8, 10.1, 9.9]).spread)
    assert list(found.detectable) == [3, 5, 10, 20, 30]
    assert list(found.detectable.values()) == sorted(found.detectable.values(), reverse=True)


def test_the_interval_of_the_spread_covers_it_as_often_as_it_says() -> None:
    rng, runs, times = np.random.default_rng(0), 10, 2_000
    covered = 0
    for deviation in rng.normal(0, 0.1, (times, runs)).std(1, ddof=1):
        low, high = deviation_interval(float(deviation), runs)
        covered += low <= 0.1 <= high
    assert covered / times == pytest.approx(0.95, abs=0.015)


def test_the_interval_of_the_spread_against_tables() -> None:
    """Chi-squared at 2.5 and 97.5 %: 2.700 and 19.023 with 9 degrees of freedom, 0.484 and 11.143 with 4."""
    for runs, low, high in ((10, 2.700, 19.023), (5, 0.484, 11.143)):
        expected = [((runs - 1) / quantile) ** 0.5 for quantile in (high, low)]
        assert deviation_interval(1.0, runs) == pytest.approx(expected, rel=1e-3)
    assert spread.spread_of([1.0, 1.02, 0.98, 1.01, 0.99]).interval == pytest.approx(
        (0.0095, 0.0454), rel=0.01
    )


def test_a_slow_machine_makes_do_with_fewer_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "LIMIT_S", 0.0)
    monkeypatch.setattr(spread, "_train_once", lambda: 1.0)
    assert len(spread.measure_spread().train_s) == spread.FEWEST_RUNS


def test_one_run_is_a_real_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "STEPS", 300)
    seconds = spread._train_once()
    assert 0.001 < seconds < 30
    assert math.isfinite(seconds)
