"""The limits that the trials of a study are compared with, for its manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rldyno.errors import Problem
from rldyno.limits.disturbance import warnings
from rldyno.limits.measure import environment_rates, limits_of
from rldyno.records.machine_limits import StudyLimits
from rldyno_rig.job_files import EnvironmentCase

if TYPE_CHECKING:
    from rldyno.study.plan import Plan


def study_limits(
    plan: Plan, overrides: Mapping[str, Path] | None, print_line: Callable[[str], None]
) -> StudyLimits:
    """Of each device with its number of cores, and of each environment with how many of them.

    What cannot be measured is printed and left out: a study does not fail for it.
    """
    devices = []
    for device, cores in sorted({(cell.device, cell.cores) for cell in plan.cells}):
        try:
            devices.append(limits_of(device, cores, overrides))
        except Problem as problem:
            print_line(f"no limits of {device} with {cores} cores: {problem.message}")
    cases = [
        EnvironmentCase.of(cell.environment, cell.hyper.environments, cell.max_episode_steps, cell.cores)
        for cell in plan.cells
    ]
    rates = environment_rates(dict.fromkeys(cases), overrides)
    for line in warnings(devices, rates):
        print_line(f"{line}. Run the same command on a quiet machine to measure it again")
    return StudyLimits(tuple(devices), tuple(rates))
