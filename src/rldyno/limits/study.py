"""The limits that the trials of a study are held against, for its manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rldyno.errors import Problem
from rldyno.limits.disturbance import warnings
from rldyno.limits.measure import environment_rates, limits_of

if TYPE_CHECKING:
    from rldyno.study.plan import Plan

Json = dict[str, Any]


def study_limits(plan: Plan, overrides: Mapping[str, Path] | None, tell: Callable[[str], None]) -> Json:
    """`devices`: by device and number of cores; `environments`: by environment and how many of them.

    What cannot be measured is told and left out: a study does not fail for it.
    """
    devices = []
    for device, cores in sorted({(cell.device, cell.cores) for cell in plan.cells}):
        try:
            devices.append(limits_of(device, cores, overrides))
        except Problem as problem:
            tell(f"no limits of {device} with {cores} cores: {problem.message}")
    wanted = {
        (cell.environment, cell.hyper.environments, cell.max_episode_steps): None for cell in plan.cells
    }
    names = ("environment", "environments", "max_episode_steps")
    rates = environment_rates([dict(zip(names, one, strict=True)) for one in wanted], overrides)
    for line in warnings(devices, rates):
        tell(f"{line}. When the machine is quiet, the same command measures it again")
    return {"devices": devices, "environments": rates}
