from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rldyno.answers.analysis import Analysis
from rldyno.answers.comparison import times_worse
from rldyno.answers.groups import THRESHOLD, run_values
from rldyno.answers.ranking import EXPECTED, pooled_steps, ranking_values, with_expected
from rldyno.answers.runs import Runs
from rldyno.answers.wording import sentence
from rldyno.columns import Column
from rldyno.stats.significance import all_pairs
from synthetic import NUMPY, TORCH, Contestant, Shape, write_results

# What runs of one program spread by, as log-normal σ: steps to the threshold, seconds per step, start-up.
STEPS_SPREAD, SPEED_SPREAD, STARTUP_SPREAD = 0.4, 0.04, 0.05


def runs_of(**columns: list[float]) -> Runs:
    values = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns.values()])
    names = {name: index for index, name in enumerate(columns)}
    return Runs(tuple(f"t{index}" for index in range(len(values))), names, values)


def made(
    steps: list[float], per_step: list[float], startup: list[float], *, filling: float = 0, reached: float = 1
) -> Runs:
    """Runs that end at the threshold, after `filling` steps that cost half as much as the others."""
    train = [
        (length - filling) * cost + filling * cost / 2 for length, cost in zip(steps, per_step, strict=True)
    ]
    n = len(steps)
    whole = [first + then for first, then in zip(startup, train, strict=True)]
    return runs_of(
        seed=list(range(n)),
        steps=steps,
        updates=[length / 4 for length in steps],
        startup_s=startup,
        train_s=train,
        learning_start_s=[filling * cost / 2 for cost in per_step],
        learning_start_steps=[filling] * n,
        threshold_reached=[reached] * n,
        threshold_steps=steps if reached else [math.nan] * n,
        threshold_s=whole if reached else [math.nan] * n,
        watched_s=whole,
        wall_s=whole,
    )


def test_the_expected_time_by_hand() -> None:
    """Steps of 1,000, 2,000 and 4,000: 2,000. One second of start-up, 500 steps in 0.5 s, 1,500 of 2 ms."""
    fast = made([1000, 2000, 4000], [0.002] * 3, [1.0] * 3, filling=500)
    slow = made([1000, 2000, 4000], [0.004] * 3, [1.0] * 3)
    assert ranking_values({"fast": fast, "slow": slow}) == {
        "fast": pytest.approx({0: 4.5, 1: 4.5, 2: 4.5}),
        "slow": pytest.approx({0: 9.0, 1: 9.0, 2: 9.0}),
    }


def test_a_run_shorter_than_its_filling_costs_a_part_of_it() -> None:
    short = made([100, 100, 2000], [0.002] * 3, [1.0] * 3)
    filled = made([900, 900, 900], [0.002] * 3, [1.0] * 3, filling=800)
    found, steps = with_expected({"a": short, "b": filled}, {"a": short, "b": filled})
    assert steps == 900
    assert found["b"][EXPECTED.name] == pytest.approx([1 + 0.8 + 0.2] * 3)


def test_steps_are_shared_only_where_everyone_gets_there() -> None:
    usual = made([1000, 2000, 4000], [0.002] * 3, [1.0] * 3)
    never = made([5000, 5000, 5000], [0.001] * 3, [1.0] * 3, reached=0)
    assert pooled_steps({"a": usual, "b": usual}) == 2000
    assert pooled_steps({"a": usual}) is None
    assert ranking_values({"a": usual, "b": never}) is None


def test_who_learns_differently_has_no_expected_time(tmp_path: Path) -> None:
    unlike = Contestant("jax:jit", 9000, needs=3)
    shape = Shape(contestants=[NUMPY, TORCH, unlike], algorithms=["dqn"], seeds=6, steps=80_000)
    (group,) = Analysis.load(write_results(tmp_path / "r", shape)).comparisons
    assert group.primary is EXPECTED
    assert group.metrics[:2] == (EXPECTED, THRESHOLD)
    assert {row.contestant: EXPECTED.name in row.figures for row in group.rows} == {
        "numpy:eager": True,
        "torch:eager": True,
        "jax:jit": False,
    }
    assert " steps, the median of all runs; `torch:eager` takes " in sentence(group)


def test_without_certificates_or_with_failures_the_measured_time_decides(tmp_path: Path) -> None:
    for name, changed in (("r", {"certificate": "absent"}), ("s", {"learns": 0.4})):
        other = replace(TORCH, **changed)  # type: ignore[arg-type]
        shape = Shape(contestants=[NUMPY, other], algorithms=["dqn"], seeds=5)
        (group,) = Analysis.load(write_results(tmp_path / name, shape)).comparisons
        assert group.primary is THRESHOLD


def test_assumed_equal_steps_are_said(tmp_path: Path) -> None:
    shape = Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=2)
    (group,) = Analysis.load(write_results(tmp_path / "r", shape)).comparisons
    objection = group.trust.about("parity")
    assert objection is not None
    assert "Equal steps are assumed" in objection.words
    measured = group.trusts[THRESHOLD.name].about("parity")
    assert measured is not None
    assert "Equal steps are assumed" not in measured.words


# --- simulation ---------------------------------------------------------------------------------------------


def simulated(rng: np.random.Generator, seeds: int, slower: float) -> Runs:
    """CartPole-like: 20,000 steps at 8,000 per second after a second of start-up."""
    steps = 20_000 * np.exp(STEPS_SPREAD * rng.standard_normal(seeds))
    costs = slower / 8_000 * np.exp(SPEED_SPREAD * rng.standard_normal(seeds))
    startup = np.exp(STARTUP_SPREAD * rng.standard_normal(seeds)) * slower
    return made(list(np.round(steps)), list(costs), list(startup))


def decided(first: Runs, second: Runs, metric: Column) -> bool:
    """By the rule of the answer: chance and the interval of the ratio."""
    values = {"a": run_values(first, metric), "b": run_values(second, metric)}
    if all_pairs(values)[frozenset(("a", "b"))].p > 0.05:
        return False
    ratio = times_worse(second, first, metric)
    return ratio is not None and ratio.low is not None and (ratio.low > 1 or (ratio.high or 0) < 1)


def share_decided(slower: float, metric: Column, times: int) -> float:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(times):
        runs = {"a": simulated(rng, 5, 1.0), "b": simulated(rng, 5, slower)}
        found, _ = with_expected(runs, runs)
        hits += decided(found["a"], found["b"], metric)
    return hits / times


@pytest.mark.slow
def test_a_fifth_slower_is_decided_with_five_seeds() -> None:
    assert share_decided(1.2, EXPECTED, 200) > 0.95
    # The spread of the steps hides it from the measured time.
    assert share_decided(1.2, THRESHOLD, 200) < 0.2


@pytest.mark.slow
def test_equal_contestants_are_rarely_called_different() -> None:
    assert share_decided(1.0, EXPECTED, 2000) <= 0.05
