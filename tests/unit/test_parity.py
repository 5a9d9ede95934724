from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rldyno.answers import trust
from rldyno.answers.comparison import compare
from rldyno.answers.groups import Group
from rldyno.answers.learning import (
    REFERENCE,
    LearningParity,
    choose_reference,
    divergences,
    first_divergence,
    mean_return,
    overall,
    threshold_tests,
)
from rldyno.answers.runs import Runs
from rldyno.answers.wording import sentence
from rldyno.results.load import load_results
from rldyno.stats.equivalence import DIFFERENT, EQUAL, UNDECIDED
from rldyno.stats.significance import holm
from synthetic import NUMPY, TORCH, Contestant, Shape, write_results

SLOW_LEARNER = Contestant("jax:jit", 9000, needs=2.5)


def group_of(path: Path, *contestants: Contestant, seeds: int = 6, **shape: object) -> Group:
    root = write_results(
        path,
        Shape(contestants=contestants, algorithms=["dqn"], seeds=seeds, **shape),  # type: ignore[arg-type]
    )
    (group,) = compare(load_results(root))
    return group


def parity_of(group: Group, contestant: str) -> LearningParity:
    parity = next(row.parity for row in group.rows if row.contestant == contestant)
    assert parity is not None
    return parity


def runs(steps: list[int], reached: list[bool] | None = None) -> Runs:
    reached = reached or [True] * len(steps)
    table = pl.DataFrame(
        {
            "trial": [f"seed {seed}" for seed in range(len(steps))],
            "seed": range(len(steps)),
            "reason": ["return" if hit else "steps" for hit in reached],
            "threshold_reached": reached,
            "threshold_steps": [at if hit else None for at, hit in zip(steps, reached, strict=True)],
            "steps": steps,
        },
        schema_overrides={"threshold_steps": pl.Int64},
    )
    return Runs.of(table)


def test_contestants_that_learn_alike_are_equal(tmp_path: Path) -> None:
    group = group_of(tmp_path / "r", NUMPY, TORCH, seeds=10)
    assert parity_of(group, "numpy:eager").state == REFERENCE
    parity = parity_of(group, "torch:eager")
    assert parity.state == EQUAL
    assert parity.steps is not None
    assert -math.log(1.5) < parity.steps.low < parity.steps.high < math.log(1.5)


def test_a_contestant_that_learns_differently_is_shown_marked_and_not_ranked(tmp_path: Path) -> None:
    group = group_of(tmp_path / "r", NUMPY, TORCH, SLOW_LEARNER, stop_return=475.0, steps=60_000)
    parity = parity_of(group, "jax:jit")
    assert parity.state == DIFFERENT
    assert parity.steps is not None
    assert math.exp(parity.steps.difference) == pytest.approx(2.5, rel=0.25)
    assert [row.contestant for row in group.ranked] == ["numpy:eager", "torch:eager"]
    shown = next(row for row in group.rows if row.contestant == "jax:jit")
    assert shown.certified
    assert shown.figures["steps_per_s"].ratio is None
    said = sentence(group)
    assert (
        "Not ranked: `jax:jit` (learns differently from numpy:eager: 1.9× the steps to the threshold ["
        in said
    )


def test_too_few_seeds_are_said_and_exclude_nobody(tmp_path: Path) -> None:
    group = group_of(tmp_path / "r", NUMPY, TORCH, seeds=2)
    assert parity_of(group, "torch:eager").state == UNDECIDED
    assert len(group.ranked) == 2
    assert "Too few seeds to tell whether `torch:eager` learns like `numpy:eager`." in sentence(group)


def test_how_many_seeds_would_show_parity_is_said(tmp_path: Path) -> None:
    group = group_of(tmp_path / "r", NUMPY, TORCH, seeds=3)
    parity = parity_of(group, "torch:eager")
    (row,) = [row for row in group.rows if row.contestant == "torch:eager"]
    undecided = replace(row, parity=replace(parity, state=UNDECIDED, more_seeds=4))
    changed = replace(group, rows=tuple(undecided if found is row else found for found in group.rows))
    objection = trust.parity(load_results(tmp_path / "r"), changed, changed.primary)
    assert objection is not None
    assert "learns like `numpy:eager` (about 4 more seeds are needed, 80 % chance)." in objection.words


def test_without_anything_certified_there_is_no_parity(tmp_path: Path) -> None:
    bare = [replace(contestant, certificate="absent") for contestant in (NUMPY, TORCH)]
    assert all(row.parity is None for row in group_of(tmp_path / "r", *bare).rows)


def test_the_uncertified_is_never_the_reference(tmp_path: Path) -> None:
    group = group_of(tmp_path / "r", replace(NUMPY, certificate="failed"), TORCH)
    assert parity_of(group, "numpy:eager").reference == "torch:eager"


def test_reference_is_numpy_or_the_one_in_the_middle() -> None:
    early, middle, late = runs([10, 11, 12]), runs([20, 21, 22]), runs([90, 91, 92])
    assert choose_reference({"a": late, "b": early, "c": middle}) == "c"
    assert choose_reference({"a": late, "numpy:eager": early}) == "numpy:eager"
    assert choose_reference({"a": late, "b": early}) == "b"
    assert choose_reference({}) is None


def test_runs_of_one_seed_are_compared_with_each_other() -> None:
    """Seeds differ tenfold, but each is matched exactly: pairs show it, two heaps of runs would not."""
    spread = [1_000, 3_000, 10_000, 30_000, 100_000]
    tests = threshold_tests(runs(spread), runs([int(steps * 1.01) for steps in spread]))
    assert tests["steps"].state() == EQUAL


def test_runs_that_never_got_there_count_in_the_share() -> None:
    steps, reached = [2_000, 2_200, 9_000, 9_000, 1_900], [True, True, False, False, True]
    tests = threshold_tests(runs(steps, reached), runs([2_000] * 5))
    assert tests["share"].difference == pytest.approx(-0.4)
    assert tests["share"].state() == UNDECIDED
    # The others took as long as the reference.
    assert math.exp(tests["steps"].difference) == pytest.approx(1.0, abs=0.05)


def test_nobody_who_never_learns_is_equal_to_one_who_does() -> None:
    learned, never = runs([2_000] * 5), runs([9_000] * 5, [False] * 5)
    tests = threshold_tests(never, learned)
    assert tests["share"].state() == DIFFERENT
    assert tests["steps"].state() == UNDECIDED
    assert math.isnan(tests["steps"].difference)


def test_a_slow_contestant_with_a_budget_of_time_has_not_failed() -> None:
    """Its runs ended after 1,500 steps, before any run of the reference got there: nothing is shown."""
    tests = threshold_tests(runs([1_500] * 5, [False] * 5), runs([2_000] * 5))
    assert tests["share"].difference == 0
    assert {test.state() for test in tests.values()} == {UNDECIDED}


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 10, 30])
def test_thirty_percent_failures_are_not_called_equal(n: int) -> None:
    """Against none, at the same pace; 300 worlds. Two that learn alike are rarely called different."""
    source, worlds = np.random.default_rng(n), 300

    def world(failures: float) -> Runs:
        reached = source.random(n) >= failures
        steps = source.lognormal(8, 0.25, n).astype(int)
        return runs(np.where(reached, steps, 50_000).tolist(), reached.tolist())

    def state(mine: Runs, theirs: Runs) -> str:
        found = list(threshold_tests(mine, theirs).values())
        p_values = holm([test.p_different for test in found])
        return overall([test.state(p) for test, p in zip(found, p_values, strict=True)])

    unlike = [state(world(0.3), world(0.0)) for _ in range(worlds)]
    assert unlike.count(EQUAL) / worlds <= 0.05
    if n == 30:
        assert unlike.count(DIFFERENT) / worlds > 0.5
    alike = [state(world(0.2), world(0.2)) for _ in range(worlds)]
    assert alike.count(DIFFERENT) / worlds <= 0.05
    learned = [state(world(0.0), world(0.0)) for _ in range(worlds)]
    assert learned.count(EQUAL) / worlds > (0.95 if n == 30 else -1)


def test_mean_return_by_hand() -> None:
    # Steps 1–10 belong to the first episode, 11–20 to the second, of which the horizon cuts five off.
    assert mean_return(np.array([10, 20, 40]), np.array([1.0, 4.0, 9.0]), 15) == pytest.approx(30 / 15)


def test_negative_returns_have_areas_too(tmp_path: Path) -> None:
    group = group_of(tmp_path / "r", NUMPY, TORCH, stop_return=None)
    parity = parity_of(group, "torch:eager")
    assert parity.steps is None
    assert parity.area is not None
    assert abs(parity.area.difference) < 0.1


def test_equal_learners_are_rarely_called_different() -> None:
    """60 groups of four equal contestants, five seeds each."""
    source = np.random.default_rng(0)
    alarms = 0

    def learner() -> Runs:
        return runs(source.lognormal(8, 0.4, 5).astype(int).tolist())

    for _ in range(60):
        base = learner()
        tests = [threshold_tests(learner(), base)["steps"] for _ in range(3)]
        alarms += any(3 * test.p_different <= 0.05 for test in tests)
    assert alarms / 60 <= 0.05


def test_first_divergence_by_hand() -> None:
    assert first_divergence(np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0])) == 3
    assert first_divergence(np.array([0, 1, 1]), np.array([0, 1])) is None


def test_divergence_names_the_step_seed_by_seed(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=3))
    results = load_results(root)
    for trial, contestant, seed in results.trials.select("trial", "contestant", "seed").iter_rows():
        actions = [0, 1] * 50
        if contestant == "torch:eager" and seed < 2:
            actions[40 * (seed + 1)] ^= 1
        path = root / "trials" / trial / "actions.csv"
        path.write_text("\n".join(map(str, actions)) + "\n0")  # the last line is torn
    (found,) = divergences(results, results.trials, "numpy:eager")
    assert dict(found.steps) == {0: 41, 1: 81, 2: None}
    assert found.traced == 100
    assert found.words == "parts from `numpy:eager` in 2 of 3 seeds, first at step 41, in the middle at 61"
    assert divergences(results, results.trials, "jax:jit") == ()
