"""Trials compared with the limits of the machine they ran on, as the manifest keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rldyno.limits.floor import Floor, floor
from rldyno.records.machine_limits import DeviceLimits, StudyLimits
from rldyno_rig.algorithms import LEARNERS, update_rows
from rldyno_rig.facts_file import WorkerFacts
from rldyno_rig.job_files import EnvironmentCase
from rldyno_rig.team.share import STRONG, share
from rldyno_rig.trial_file import TrialFile

Row = dict[str, Any]
"""One row of the result table: column → value."""

NO_UPDATE = "no update was made, or its phases were not recorded"
NO_FLOOR = "the limits of this device with so many cores were not measured, or the trial left no facts"
NO_RATE = "these environments were not stepped alone on this machine"


class MachineLimits:
    """`limits` of a manifest; None or empty where they were not measured."""

    def __init__(self, limits: StudyLimits | None) -> None:
        found = limits or StudyLimits()
        self._devices = {(one.device, one.cores): one for one in found.devices}
        self._rates = {one.case: one.steps_per_s for one in found.environments}
        self._floors: dict[str, Floor | None] = {}
        """By everything a floor depends on: thousands of trials share a few networks."""

    def figures(self, trial: TrialFile, facts: WorkerFacts | None, row: Row) -> Row:
        """Columns of the results table; None where the limits or the trial's network are not known."""
        spent = [row.get(f"phase_{phase}_s") for phase in ("update", "transfer", "read")]
        known = [seconds for seconds in spent if seconds is not None]
        updates = row.get("updates")
        update_us = 1e6 * sum(known) / updates if updates and len(known) == len(spent) else None
        found = None if facts is None else self._floor(trial, facts)
        floor_us = None if found is None else found.seconds * 1e6
        return {
            "update_us": update_us,
            "update_floor_us": floor_us,
            "update_floor_bound": None if found is None else found.bound,
            "update_over_floor": None if update_us is None or floor_us is None else update_us / floor_us,
            "environment_alone_steps_per_s": self._environment_rate(trial),
        }

    @staticmethod
    def reasons(figures: Row) -> dict[str, str]:
        """Column → why it is empty."""
        causes = {
            "update_us": NO_UPDATE,
            "update_floor_us": NO_FLOOR,
            "update_floor_bound": NO_FLOOR,
            "update_over_floor": NO_UPDATE if figures["update_us"] is None else NO_FLOOR,
            "environment_alone_steps_per_s": NO_RATE,
        }
        return {name: why for name, why in causes.items() if figures[name] is None}

    def _floor(self, trial: TrialFile, facts: WorkerFacts) -> Floor | None:
        """Of one update of this trial: host arrays in, weights changed."""
        limits = self._devices.get((trial.device, trial.cores))
        shape, actions = facts.observation_shape, facts.actions
        if limits is None or not shape or not actions:
            return None
        divided = (trial.algorithm, trial.workers, trial.scaling, trial.hyper)
        key = repr((trial.device, trial.cores, trial.dtype, shape, actions, divided))
        if key not in self._floors:
            self._floors[key] = update_floor(trial, shape, actions, limits)
        return self._floors[key]

    def _environment_rate(self, trial: TrialFile) -> float | None:
        """Steps per second of all workers' environments without an agent: no contestant can be faster."""
        count = trial.hyper.get("environments") or 0
        if trial.scaling == STRONG and count > 1:
            count //= trial.workers
        case = EnvironmentCase.of(trial.environment, count, trial.max_episode_steps, trial.cores)
        rate = self._rates.get(case)
        return None if rate is None else trial.workers * rate


def update_floor(trial: TrialFile, shape: Sequence[int], actions: int, limits: DeviceLimits) -> Floor | None:
    """Of one worker, which may have its share of the batch only."""
    try:
        known = LEARNERS[trial.algorithm]
        dtype_of_obs = known.image_dtype if len(shape) == 3 else "float32"
        values = share(known.hyper_from_json(trial.hyper), trial.workers, trial.scaling)
        spec = known.spec(values, tuple(shape), dtype_of_obs, actions)
    except (KeyError, TypeError, ValueError):  # of an algorithm that had other fields then
        return None
    return floor(spec, update_rows(spec), limits, trial.dtype)
