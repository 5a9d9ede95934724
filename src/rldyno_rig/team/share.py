"""What one worker of a team does of a trial: the ordinary loop, on its share."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Tuple

from rldyno_rig.hyper import Replayed
from rldyno_rig.trial_file import Budget

WEAK, STRONG = "weak", "strong"
SCALINGS = (WEAK, STRONG)

_OF_ALL = ("schedule_steps", "epsilon_steps")
"""Count the steps of all workers, in either way of scaling."""
_REPLAYED = ("batch_size", "capacity", "learning_starts", "train_every", "target_sync")
"""Divided with strong scaling where an algorithm has a replay memory. All of them but the first two are
steps, of which each worker makes its part."""


class UnevenError(ValueError):
    """A hyper-parameter does not divide by the number of workers."""


def share(hyper: Any, size: int, scaling: str) -> Any:
    """The hyper-parameters of one worker of `size`.

    `weak`: each keeps its environments, batch and cadence. `strong`: together they make what one would.
    Schedules count the steps of all either way. Raises UnevenError.
    """
    if size == 1:
        return hyper
    changes = {name: math.ceil(getattr(hyper, name) / size) for name in _OF_ALL if hasattr(hyper, name)}
    if scaling == STRONG:
        changes.update({name: _divided(hyper, name, size) for name in _divided_names(hyper)})
    return dataclasses.replace(hyper, **changes)


def share_of_budget(budget: Budget, size: int) -> Budget:
    """The steps of all workers count; episodes and returns are those of rank 0."""
    return budget if budget.steps is None else dataclasses.replace(budget, steps=-(-budget.steps // size))


def _divided_names(hyper: Any) -> Tuple[str, ...]:
    environments = ("environments",) if hyper.environments > 1 else ()
    return environments + (_REPLAYED if isinstance(hyper, Replayed) else ("environments",))


def _divided(hyper: Any, name: str, size: int) -> int:
    value = getattr(hyper, name)
    if value % size:
        raise UnevenError("{} = {} does not divide by {} workers".format(name, value, size))
    return int(value // size)
