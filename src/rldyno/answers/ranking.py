"""What contestants with a threshold are ranked by: the time of as many steps as all of them need.

Certified contestants that learn alike share one distribution of steps to the threshold. Its spread hides how
fast they are, so each run is asked what the typical number of steps would have cost it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rldyno.answers.break_even import costs_by_run, seconds
from rldyno.answers.runs import Runs
from rldyno.results.columns import column
from rldyno.stats.censored import survival_median

EXPECTED = column("expected_threshold_s")


def pooled_steps(runs: Mapping[str, Runs]) -> float | None:
    """Kaplan–Meier median of the steps to the threshold over all runs of these contestants.

    None where steps cannot be shared: without a threshold, with a single contestant, or where one of them got
    there in less than half of its runs.
    """
    steps = [done.steps_to_threshold() for done in runs.values()]
    if len(steps) < 2 or not all(len(found) for found in steps):
        return None
    if any(math.isinf(survival_median(found)) for found in steps):
        return None
    return float(survival_median(np.concatenate(steps)))


def with_expected(
    runs: Mapping[str, Runs], alike: Mapping[str, Runs]
) -> tuple[dict[str, Runs], float | None]:
    """Runs with their expected times to the threshold, and the steps these stand for.

    Start-up + F + (N − n) · c: a run fills its memory by n steps in F seconds, then each step costs it c; N
    are the steps that the contestants `alike` share. Others, which learn differently, have no such time.
    """
    steps = pooled_steps(alike)
    found = {
        name: seconds(costs_by_run(done), steps)
        if steps is not None and name in alike
        else np.full(len(done), math.nan)
        for name, done in runs.items()
    }
    if steps is None or any(np.isnan(found[name]).all() for name in alike):
        return dict(runs), None
    return {name: done.with_column(EXPECTED.name, found[name]) for name, done in runs.items()}, steps


def ranking_values(runs: Mapping[str, Runs]) -> dict[str, dict[int, float]] | None:
    """Contestant → seed → expected time to the threshold; None where the measured time has to decide.

    `runs` are those of contestants that are certified and not shown to learn differently.
    """
    found, steps = with_expected(runs, runs)
    if steps is None:
        return None
    return {
        name: {
            int(seed): float(value)
            for seed, value in zip(done["seed"], done[EXPECTED.name], strict=True)
            if not math.isnan(value)
        }
        for name, done in found.items()
    }
