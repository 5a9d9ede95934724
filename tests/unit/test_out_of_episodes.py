"""Runs that end after as many episodes: those that learn nothing may be over first."""

from __future__ import annotations

import math

import numpy as np
import pytest

from command_blocks import HOME
from rldyno.answers.analysis import Analysis
from rldyno.answers.runs import Runs
from rldyno.claims.decide import judge_check
from rldyno.claims.evidence import gather
from rldyno.claims.form import shipped_claims
from rldyno.results.load import load_results
from rldyno.stats.censored import out_of_episodes, survival_median

LIU = HOME / "docs" / "samples" / "papers" / "liu2022"
CLAIMS = {claim.id: claim for claim in shipped_claims()}
# Two of five reach the threshold, and play longer episodes than the three that do not.
RUNS = np.array([[30.0, 0], [35, 0], [40, 0], [60, 1], [90, 1]])


def test_a_median_is_not_that_of_the_runs_that_learn() -> None:
    assert survival_median(RUNS) == 75
    assert math.isinf(survival_median(out_of_episodes(RUNS, np.ones(5, dtype=bool))))


def test_runs_that_time_or_steps_ended_stay_as_they_are() -> None:
    assert (out_of_episodes(RUNS, np.zeros(5, dtype=bool)) == RUNS).all()


@pytest.fixture(scope="module")
def rainbow() -> Runs:
    """Of the committed runs: 2 of 5 seeds reach a return of 95 within 150 episodes."""
    groups = Analysis.load(LIU).comparisons
    group = next(one for one in groups if one.algorithm == "Rainbow" and one.axes["cores"] == 1)
    return group.runs["torch:eager"]


def test_the_papers_runs_reach_it_in_fewer_than_half_by_every_measure(rainbow: Runs) -> None:
    for amounts in (
        rainbow.times_to_threshold(),
        rainbow.steps_to_threshold(),
        rainbow.episodes_to_threshold(),
        rainbow.training_to_threshold(),
    ):
        assert amounts[:, 1].sum() == 2
        assert math.isinf(survival_median(amounts))


def test_claims_give_them_no_finite_time() -> None:
    (check,) = CLAIMS["liu-5"].check
    parts = judge_check(check, gather([load_results(LIU)])).parts
    assert parts
    assert all(math.isinf(part.effect.point) for part in parts)


def test_a_seed_that_ran_on_one_and_two_cores_learned_once() -> None:
    check = CLAIMS["liu-1"].check[0]
    found = judge_check(check, gather([load_results(LIU)]))
    assert {(part.effect.n, len(part.trials)) for part in found.parts} == {(5, 10)}
    assert "5 of 5 seeds" in found.parts[0].label
