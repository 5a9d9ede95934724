"""How agents of both divisions learn one task: curves, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rldyno.division.measure import MANY_AGENTS, OpenRequest, ask, closed_trial, job_of
from rldyno.records.csv_files import read_csvs
from rldyno.toolchains.resolve import Interpreter, resolve
from rldyno_rig import schema
from rldyno_rig.contestant import Contestant
from rldyno_rig.open.curve import Curve, Goal
from rldyno_rig.open.job_file import OpenLearned
from rldyno_rig.trial_file import Budget

GOALS: Mapping[str, float] = {"CartPole-v0": 195.0, "CartPole-v1": 475.0, "MountainCar-v0": -110.0}
"""Mean return of 100 episodes at which Gymnasium calls an environment solved."""
GOAL_EPISODES = 100
RUNS = 10
"""Of one process, one after the other: compiling may take longer than a run."""
REFERENCE = Contestant("numpy", "eager")
"""Of the closed division, whose contestants are proven to compute the same."""


def goal_of(environment: str, steps: int) -> Goal:
    return Goal(GOALS[environment], GOAL_EPISODES, steps)


def open_curves(
    request: OpenRequest, framework: str, seeds: int, goal: Goal, overrides: Mapping[str, Path]
) -> list[Curve]:
    values, interpreter = _values(request), resolve(framework, overrides)
    job = replace(job_of(request, framework, values), learn=goal)
    if framework in MANY_AGENTS:
        jobs = [replace(job, agents=seeds)]
    else:
        jobs = [
            replace(job, seed=seed, runs=min(RUNS, seeds - seed), agents=1) for seed in range(0, seeds, RUNS)
        ]
    learned = [OpenLearned.from_json(ask(one, interpreter)) for one in jobs]
    return [curve for one in learned for curve in one.curves]


def closed_curves(request: OpenRequest, seeds: int, goal: Goal, overrides: Mapping[str, Path]) -> list[Curve]:
    interpreter = resolve(REFERENCE.framework, overrides)
    return [closed_curve(request, interpreter, seed, goal) for seed in range(seeds)]


def closed_curve(request: OpenRequest, interpreter: Interpreter, seed: int, goal: Goal) -> Curve:
    budget = Budget(steps=goal.steps, stop_return=goal.mean_return, stop_episodes=goal.episodes)
    given = (request, REFERENCE, _values(request), interpreter, seed, budget)
    with closed_trial(*given) as (found, directory):
        path = directory / schema.EPISODES_FILE
        frame, _, problems = read_csvs([path], schema.EPISODE_COLUMNS, ("step", "length"))
    if problems:
        raise problems[0]
    lengths = frame["length"].cum_sum().to_list()
    curve = Curve(tuple(frame["step"].to_list()), tuple(range(1, len(frame) + 1)), tuple(lengths))
    if curve.step and curve.step[-1] == found.steps:
        return curve
    # The last steps ended no episode.
    ends = (found.steps, len(frame), lengths[-1] if lengths else 0)
    return Curve(*((*part, int(end)) for part, end in zip(vars(curve).values(), ends, strict=True)))


def _values(request: OpenRequest) -> Any:
    return request.values(request.environments[0])
