"""Runs that end after as many episodes: those that learn nothing may be over first."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from rldyno.answers.analysis import Analysis
from rldyno.answers.runs import Runs
from rldyno.claims.decide import judge_check
from rldyno.claims.evidence import gather
from rldyno.claims.form import shipped_claims
from rldyno.results.load import load_results
from rldyno.stats.censored import out_of_episodes, stack, survival_median
from rldyno_rig.schema import EPISODES, OUTCOME_FILE
from synthetic import TORCH, Contestant, Shape, write_results

CLAIMS = {claim.id: claim for claim in shipped_claims()}
# Two of five reach the threshold, and play longer episodes than the three that do not.
RUNS = np.array([[30.0, 0], [35, 0], [40, 0], [60, 1], [90, 1]])


def test_a_median_is_not_that_of_the_runs_that_learn() -> None:
    assert survival_median(RUNS) == 75
    assert math.isinf(survival_median(out_of_episodes(RUNS, np.ones(5, dtype=bool))))


def test_runs_that_time_or_steps_ended_stay_as_they_are() -> None:
    assert (out_of_episodes(RUNS, np.zeros(5, dtype=bool)) == RUNS).all()


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rainbow learns in two of five seeds; the others play as many episodes, which are a tenth as long."""
    contestants = [TORCH, Contestant("tensorflow:graph", 2600)]
    shape = Shape(contestants, ["ppo", "rainbow"], ["CartPole-v0"], 100, cores=(1, 2), seeds=5, sample_hz=2)
    root = write_results(tmp_path_factory.mktemp("stuck") / "r", shape)
    for trial in sorted((root / "trials").glob("*.rainbow.*.s[234]")):
        path = trial / OUTCOME_FILE
        outcome = json.loads(path.read_text())
        result = outcome["result"]
        missed = {"reached": False, "step": None, "episode": None, "time_ns": None}
        result |= {"reason": EPISODES, "threshold": missed, "episodes": 200}
        result |= {name: result[name] // 10 for name in ("steps", "train_ns")}
        outcome |= {"reason": EPISODES, "wall_s": outcome["wall_s"] / 10}
        path.write_text(json.dumps(outcome))
    return root


def rainbow_of(root: Path) -> Runs:
    groups = Analysis.load(root).comparisons
    group = next(one for one in groups if one.algorithm == "Rainbow" and one.axes["cores"] == 1)
    return group.runs["torch:eager"]


def test_runs_of_which_fewer_than_half_learn_have_no_median_by_any_measure(stuck: Path) -> None:
    rainbow = rainbow_of(stuck)
    for amounts in (
        rainbow.times_to_threshold(),
        rainbow.steps_to_threshold(),
        rainbow.episodes_to_threshold(),
        rainbow.training_to_threshold(),
    ):
        assert amounts[:, 1].sum() == 2
        assert math.isinf(survival_median(amounts))


def test_as_runs_cut_short_at_random_they_would_have_one(stuck: Path) -> None:
    """What the records say without the rule: else the test above shows nothing."""
    rainbow = rainbow_of(stuck)
    ends = np.where(rainbow["threshold_reached"] > 0, rainbow["threshold_s"], rainbow["wall_s"])
    assert math.isfinite(survival_median(stack(ends, rainbow["threshold_reached"])))


def test_claims_give_them_no_finite_time(stuck: Path) -> None:
    (check,) = CLAIMS["liu-5"].check
    parts = judge_check(check, gather([load_results(stuck)])).parts
    assert len(parts) == 4
    assert all(math.isinf(part.effect.point) for part in parts)


def test_a_seed_that_ran_on_one_and_two_cores_learned_once(stuck: Path) -> None:
    check = CLAIMS["liu-1"].check[0]
    found = judge_check(check, gather([load_results(stuck)]))
    assert {(part.effect.n, len(part.trials)) for part in found.parts} == {(5, 10)}
    assert {part.label for part in found.parts} == {
        "torch ppo 5 of 5 seeds",
        "tensorflow ppo 5 of 5 seeds",
        "torch rainbow 2 of 5 seeds",
        "tensorflow rainbow 2 of 5 seeds",
    }
