from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from rldyno.answers.runs import Runs, by_contestant

TRIALS = pl.DataFrame(
    {
        "trial": ["a", "b", "c", "d"],
        "contestant": ["torch:eager", "numpy:eager", "torch:eager", "torch:eager"],
        "status": ["done", "failed", "done", "done"],
        "reason": ["return", "nan", "steps", "steps"],
        "seed": [0, 0, 1, 2],
        "steps": [100, None, 400, 400],
        "wall_s": [1.5, 0.1, 5.0, None],
        "watched_s": [1.0, None, 4.0, None],
        "threshold_reached": [True, None, False, False],
        "threshold_s": [0.9, None, None, None],
        "threshold_steps": [90, None, None, None],
    }
)


def test_finished_runs_by_contestant_in_the_order_of_the_plan() -> None:
    runs = by_contestant(TRIALS)
    assert {name: found.trials for name, found in runs.items()} == {
        "torch:eager": ("a", "c", "d"),
        "numpy:eager": (),
    }


def test_what_was_not_measured_is_left_out_never_zero() -> None:
    runs = Runs.of(TRIALS)
    assert runs["wall_s"].tolist() == pytest.approx([1.5, 0.1, 5.0, np.nan], nan_ok=True)
    assert runs.known("wall_s").tolist() == [1.5, 0.1, 5.0]
    assert "contestant" not in runs.columns


def test_runs_that_miss_the_threshold_count_until_the_end_of_their_watch() -> None:
    runs = by_contestant(TRIALS)["torch:eager"]
    # The third has no time at all: there is nothing to censor it at.
    assert runs.times_to_threshold().tolist() == [[0.9, 1], [4.0, 0]]
    assert runs.steps_to_threshold().tolist() == [[90, 1], [400, 0], [400, 0]]


def test_a_run_that_used_up_its_episodes_counts_as_long_as_the_longest() -> None:
    used_up = TRIALS.with_columns(
        pl.Series("reason", ["return", "nan", "episodes", "episodes"]),
        pl.Series("steps", [500, None, 300, 400]),
        pl.Series("threshold_steps", [450, None, None, None]),
    )
    runs = by_contestant(used_up)["torch:eager"]
    assert runs.steps_to_threshold().tolist() == [[450, 1], [450, 0], [450, 0]]
