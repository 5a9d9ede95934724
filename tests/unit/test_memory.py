"""Known footprints: constant, leaking, filling, stepping; what is said about each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rldyno.probe.history import History
from rldyno.probe.memory import leak_warning, memory_figures
from rldyno.probe.summary import block
from rldyno.stats.trend import trend
from rldyno_rig import schema
from rldyno_rig.result_file import WorkerResult

MIB = 2**20
START_S, TRAIN_S, HZ = 1.0, 20.0, 20


def held(footprint: Callable[[float], float], train_s: float = TRAIN_S, **memory: Any) -> dict[str, Any]:
    """Figures of a trial that held `footprint(seconds of training)` bytes, with the grain of an allocator."""
    rng = np.random.default_rng(0)
    history = History()
    for time_s in np.arange(0.0, START_S + train_s, 1 / HZ):
        noise = rng.normal(0, 0.01 * MIB)
        history.add(round(time_s * 1e9), int(footprint(max(0.0, time_s - START_S)) + noise))
    result = WorkerResult(
        "steps",
        startup_ns=dict(zip(schema.STARTUP, (10**8, 10**8, 10**8, 5 * 10**8, 2 * 10**8), strict=True)),
        train_start_ns=round(START_S * 1e9),
        train_ns=round(train_s * 1e9),
        steps=10_000,
        memory=memory,
    )
    figures = block(memory_figures(history, result, 123 * MIB))
    json.dumps(figures, allow_nan=False)
    return figures


def test_a_constant_footprint_is_no_leak() -> None:
    found = held(lambda t: 100 * MIB)
    assert found["growth_low"] < 0 < found["growth_high"]
    assert found["leak"] is False
    assert found["steady_bytes"] == pytest.approx(100 * MIB, rel=0.001)
    assert found["peak_bytes"] == 123 * MIB
    assert leak_warning(found) is None


@pytest.mark.parametrize("rate", [0.5, 3.0, 40.0])
def test_a_leak_is_measured_and_named(rate: float) -> None:
    found = held(lambda t: 100 * MIB + rate * MIB * t)
    assert found["growth_low"] < rate * MIB < found["growth_high"]
    assert found["growth_bytes_per_s"] == pytest.approx(rate * MIB, rel=0.05)
    assert found["leak"] is True
    assert f"memory leak: the resident set grew by {rate:.3g}"[:-1] in str(leak_warning(found))


@pytest.mark.parametrize("full_at", [0.3, 0.55, 0.7, 0.85])
def test_a_buffer_that_fills_and_stays_is_no_leak(full_at: float) -> None:
    found = held(lambda t: 100 * MIB + 5 * MIB * min(t, full_at * TRAIN_S))
    assert found["leak"] is False


def test_replay_memory_that_is_never_full_is_no_leak() -> None:
    def filling(t: float) -> float:
        return 100 * MIB + 2 * MIB * t

    filled = int(2 * MIB * TRAIN_S)
    assert held(filling, replay_bytes=filled, replay_rows=10_000)["leak"] is False
    assert held(filling, replay_bytes=10 * filled, replay_rows=100_000)["leak"] is False
    assert held(filling, replay_bytes=filled // 4, replay_rows=10_000)["leak"] is True
    # It was full long before: what still grows is something else.
    assert held(filling, replay_bytes=filled, replay_rows=1_000)["leak"] is True


def test_one_step_is_no_leak() -> None:
    for at in (0.55, 0.75, 0.95):
        found = held(lambda t, at=at: 100 * MIB + (20 * MIB if t > at * TRAIN_S else 0))
        assert found["leak"] is False


def test_growth_within_an_allocators_grain_is_no_leak() -> None:
    assert held(lambda t: 2 * MIB + 0.05 * MIB * t)["leak"] is False


def test_too_short_a_training_is_null_with_a_reason() -> None:
    found = held(lambda t: 100 * MIB, train_s=3.0)
    assert [found[name] for name in ("growth_bytes_per_s", "growth_low", "growth_high", "leak")] == [None] * 4
    assert found["reasons"]["leak"] == "fewer than 40 samples fell into the second half of the training"
    assert found["steady_bytes"] is not None
    assert "steady_bytes" not in found["reasons"]
    assert found["reasons"]["uss_steady_bytes"] == "no reading fell into the second half of the training"


def test_a_worker_without_a_result_has_reasons() -> None:
    found = block(memory_figures(History(), None, None))
    reasons = found.pop("reasons")
    assert set(found.values()) == {None}
    assert reasons.keys() == found.keys()


def test_what_the_worker_noted_comes_before_the_nearest_sample() -> None:
    found = held(lambda t: 100 * MIB, after_import_bytes=30 * MIB, after_build_bytes=None)
    assert found["after_import_bytes"] == 30 * MIB
    assert found["after_build_bytes"] == pytest.approx(100 * MIB, rel=0.001)


def test_a_moment_that_nobody_saw_is_told_from_one_that_never_came() -> None:
    result = WorkerResult("steps", startup_ns={"interpreter": 10, "import": 10}, steps=1)
    assert block(memory_figures(History(), result, None))["reasons"]["after_import_bytes"].startswith(
        "no sample"
    )
    assert block(memory_figures(History(), None, None))["reasons"]["after_import_bytes"].startswith(
        "the worker did"
    )


def test_long_trials_are_thinned_evenly() -> None:
    history = History(remembered=100)
    for index in range(1_000):
        history.add(index, index)
    assert 50 <= len(history.rss) < 100
    gaps = np.diff(history.times_ns)
    assert gaps.min() == gaps.max() == 16


def test_the_interval_covers_the_drift_of_a_random_walk() -> None:
    rng = np.random.default_rng(1)
    times = np.arange(400) / HZ
    found = [trend(times, np.cumsum(rng.normal(0.1, 1.0, 400))) for _ in range(400)]
    covered = np.mean([one is not None and one.low <= 0.1 * HZ <= one.high for one in found])
    assert covered >= 0.93
