"""Where the hyper-parameters of a study come from: the study, a tuned set, or generic values."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from rldyno.records.manifest import Task
from rldyno.study.hyper import combinations
from rldyno_rig.algorithms import ALGORITHMS, title_of

if TYPE_CHECKING:
    from rldyno.study.file import Study


def untuned(study: Study) -> tuple[Task, ...]:
    """The tasks for which the algorithm has no tuned values: they run with generic ones."""
    return tuple(
        Task(algorithm, environment)
        for algorithm, environment in itertools.product(study.algorithms, study.environments)
        if ALGORITHMS[algorithm].chosen_for(environment) is None
    )


def untuned_words(task: Task) -> str:
    """Tuning helps or hurts all contestants alike, but a task that nobody learns shows little."""
    name = title_of(task.algorithm)
    return f"{name} is not tuned for {task.environment}: what the study does not set is generic"


def inherited(study: Study, algorithm: str, environment: str) -> dict[str, Any]:
    """What a study that sets some hyper-parameters of a tuned pair still takes from the tuned set."""
    own = next(combinations(study.axes(algorithm, environment)))
    tuned = ALGORITHMS[algorithm].chosen_for(environment) if own else None
    return {name: value for name, value in (tuned or {}).items() if name not in own}
