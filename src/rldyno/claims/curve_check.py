"""Whether runs follow a learning curve that somebody else published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rldyno.claims.effects import UNDECIDED, CheckVerdict, Effect, concluded
from rldyno.claims.evidence import Evidence, RunGroup, run_groups, setting_words
from rldyno.claims.form import Check
from rldyno.claims.settings import varying
from rldyno.curves.curve import ExternalCurve
from rldyno.errors import Problem
from rldyno.records.files import Json
from rldyno.results.integrals import floats
from rldyno.stats.anytime import widened
from rldyno.stats.estimates import RESAMPLES
from rldyno.stats.moments import Floats

POINTS = 5
"""Steps at which runs are held against a curve: the first and the last that both have, and between them."""
EPISODES = 100
"""Over which the return of a run is averaged, as in the report's learning curves."""


def curve_check(check: Check, evidence: Evidence, rng: np.random.Generator) -> CheckVerdict:
    """(mean return of the runs − curve) / the curve's spread, at some steps from `from_step` on."""
    rows = evidence.admitted(check.where, check.a)
    found = run_groups(evidence, rows, check.metric, rng)
    shown = list(dict.fromkeys(["environment", *varying(evidence, found)]))
    effects: list[Effect] = []
    missing: list[str] = []
    for group in found:
        about = [
            curve
            for curve in evidence.curves
            if curve.is_about(group.keys["algorithm"], group.keys["environment"]) and not curve.is_end_point
        ]
        if not about:
            task = f"{group.keys['algorithm']} on {group.keys['environment']}"
            missing.append(f"needs the published curve of {task}: rldyno report DIR --curve FILE")
        runs = learning_of(evidence, rows, group)
        for curve in about:
            label = ", ".join([curve.name, group.contestant, setting_words(group.keys, shown)])
            steps = common_steps(curve, runs, check.from_step)
            if isinstance(steps, str):
                missing.append(f"needs {steps} ({label})")
            else:
                effects += [distance(curve, group, runs, step, label, rng) for step in steps]
    if not effects:
        return CheckVerdict(check, UNDECIDED, missing=tuple(dict.fromkeys(missing)))
    return concluded(check, effects, geometric=False)


def learning_of(evidence: Evidence, rows: Sequence[Json], group: RunGroup) -> list[tuple[Floats, Floats]]:
    """(step, return) of every episode of each run of the group; of a run that cannot be read, none."""
    read = []
    for row in rows:
        if row["trial"] in group.trials and all(row.get(axis) == group.keys[axis] for axis in evidence.axes):
            try:
                episodes = row["results"].episodes(row["trial"])
            except Problem:
                continue
            step, returned = floats(episodes["step"]), floats(episodes["return"])
            known = np.isfinite(step + returned)
            read.append((step[known], returned[known]))
    return read


def common_steps(curve: ExternalCurve, runs: Sequence[tuple[Floats, Floats]], first: int) -> Floats | str:
    """Where every run and the curve have a value from `first` on; or what is missing for that."""
    if not runs or not all(len(step) for step, _ in runs):
        return "runs with finished episodes"
    start = max(float(first), curve.step[0], *(step[0] for step, _ in runs))
    end = min(curve.step[-1], *(step[-1] for step, _ in runs))
    if curve.step[-1] < start:
        return f"a curve that goes on beyond {start:,.0f} steps"
    if end < start:
        return f"runs of more than {start:,.0f} steps (has {end:,.0f})"
    steps = np.unique(np.linspace(start, end, POINTS))
    if not (curve.spread_at(steps) > 0).all():
        return "a curve with its spread"
    return steps


def distance(
    curve: ExternalCurve,
    group: RunGroup,
    runs: Sequence[tuple[Floats, Floats]],
    at: float,
    label: str,
    rng: np.random.Generator,
) -> Effect:
    """At one step, with draws of the mean: Student's t, as distances may be of either sign."""
    here = np.array([at])
    returns = np.array([mean_return(step, returned, at) for step, returned in runs])
    values = (returns - curve.mean_at(here)) / curve.spread_at(here)
    n, mean = len(values), float(values.mean())
    draws = np.full(RESAMPLES, mean)
    if n > 1:
        draws = mean + rng.standard_t(n - 1, RESAMPLES) * values.std(ddof=1) / np.sqrt(n)
    if group.adaptive:
        draws = widened(draws, mean, n)
    cell = replace(group, values=values, draws=draws)
    return Effect(f"{label}, step {at:,.0f}", mean, draws, draws, (cell,))


def mean_return(step: Floats, returned: Floats, at: float) -> float:
    """Of the last episodes that had ended by then."""
    ended = int(np.searchsorted(step, at, side="right"))
    return float(returned[max(0, ended - EPISODES) : ended].mean())
