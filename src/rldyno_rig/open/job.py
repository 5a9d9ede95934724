"""The `open` job: measure one open loop, or prove it."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.job_files import read_json
from rldyno_rig.loading import load_beside
from rldyno_rig.open.curve import Curve, Goal
from rldyno_rig.open.job_file import OPEN_FILE, OPEN_FOUND_FILE, OpenFound, OpenJob, OpenLearned
from rldyno_rig.open.problem import PARTS, Loop, Problem, Tally


def serve(directory: Path) -> int:
    """Reads open.json, an `OpenJob`; writes open_found.json."""
    job = OpenJob.from_json(read_json(directory / OPEN_FILE))
    if job.prove:
        found = prove(job)
    else:
        found = measure(job).to_json() if job.learn is None else learn(job, job.learn).to_json()
    (directory / OPEN_FOUND_FILE).write_text(json.dumps(found), encoding="utf-8")
    return 0


def problem_of(job: OpenJob, parts: Tuple[str, ...] = PARTS) -> Problem:
    hyper = ALGORITHMS[job.algorithm].hyper_from_json(job.hyper)
    return Problem(job.algorithm, job.environment, hyper, job.device, job.dtype, job.agents, job.seed, parts)


def measure(job: OpenJob) -> OpenFound:
    problem = problem_of(job)
    form = load_beside("open", job.backend)
    started = time.perf_counter()
    loop: Loop = form.make(problem)
    loop.run(1)
    compiled = time.perf_counter()
    rounds = job.rounds or _rounds_for(loop, job.seconds)
    rates: List[float] = []
    tallies = [loop.tally()]
    for _ in range(job.repeats):
        before = time.perf_counter()
        loop.run(rounds)
        rates.append(rounds * loop.round_steps / (time.perf_counter() - before))
        tallies.append(loop.tally())
    reward = problem.task.reward
    return OpenFound(
        compile_s=compiled - started,
        steps_per_s=tuple(rates),
        steps=rounds * loop.round_steps * job.repeats,
        returns=tuple(_mean_return(reward, *pair) for pair in zip(tallies, tallies[1:])),
        versions=form.versions(),
        device=form.device_name(problem.device),
        parts_us=parts_us(job, form, 1e6 / max(rates)) if job.parts else None,
    )


def parts_us(job: OpenJob, form: Any, whole: float) -> Optional[Dict[str, float]]:
    """What each part adds to the time of a step: from loops without learning, and without acting.

    None where the form cannot leave parts out.
    """
    if not getattr(form, "LEAVES_PARTS_OUT", False):
        return None
    alone = _us_per_step(job, form, PARTS[:1])
    acting = max(alone, _us_per_step(job, form, PARTS[:2]))
    return dict(zip(PARTS, (alone, acting - alone, whole - acting)))


def _us_per_step(job: OpenJob, form: Any, parts: Tuple[str, ...]) -> float:
    loop: Loop = form.make(problem_of(job, parts))
    loop.run(1)
    rounds = _rounds_for(loop, job.seconds / 2)
    spent = []
    for _ in range(job.repeats):
        before = time.perf_counter()
        loop.run(rounds)
        spent.append(time.perf_counter() - before)
    return 1e6 * min(spent) / (rounds * loop.round_steps)


POINT_STEPS = 256
"""Environment steps between two points of a learning curve, at least."""
LOOK_AFTER = 16
"""Points between two looks at whether all agents have learned."""


def learn(job: OpenJob, goal: Goal) -> OpenLearned:
    """Runs with one seed after the other; where a form can, they share what the first one compiled."""
    form = load_beside("open", job.backend)
    found: List[Curve] = []
    loop: Optional[Loop] = None
    for seed in range(job.seed, job.seed + job.runs):
        problem = replace(problem_of(job), seed=seed)
        again = getattr(form, "again", None)
        loop = form.make(problem) if loop is None or again is None else again(problem, loop)
        found += learned(loop, problem, goal)
    return OpenLearned(tuple(found))


def learned(loop: Loop, problem: Problem, goal: Goal) -> Tuple[Curve, ...]:
    """Until every agent has learned, or the steps are spent."""
    tallies = getattr(loop, "tallies", lambda: [loop.tally()])
    one = loop.round_steps // problem.agents
    rounds, reward = max(1, POINT_STEPS // one), problem.task.reward
    points: List[List[Tally]] = []
    steps: List[int] = []
    while True:
        loop.run(rounds)
        steps.append((len(steps) + 1) * rounds * one)
        points.append(tallies())
        spent = steps[-1] >= goal.steps
        if spent or len(steps) % LOOK_AFTER == 0:
            curves = tuple(Curve(tuple(steps), *zip(*of)) for of in zip(*points))
            if spent or all(goal.reached(curve, reward) for curve in curves):
                return curves


def _rounds_for(loop: Loop, seconds: float) -> int:
    """Rounds that take so long, from ever longer tries; each also warms the loop up.

    The faster of two counts: in the other one a loop may have compiled or captured something.
    """
    rounds = 1
    while True:
        spent = math.inf
        for _ in range(2):
            before = time.perf_counter()
            loop.run(rounds)
            spent = min(spent, time.perf_counter() - before)
        if spent > seconds / 4:
            return max(1, round(rounds * seconds / spent))
        rounds *= 4


def _mean_return(reward: float, before: Tally, after: Tally) -> Optional[float]:
    episodes = after.episodes - before.episodes
    return reward * (after.steps - before.steps) / episodes if episodes > 0 else None


def prove(job: OpenJob) -> Dict[str, Any]:
    from rldyno_rig.open.proof import compared

    return compared(problem_of(job), load_beside("open", job.backend)).to_json()
