"""Whether the workers of a study can share its tasks: strong scaling divides them, ensembles stay whole."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping

from rldyno.study.hyper import Axes, combinations, contradictions
from rldyno.toml.source import Source
from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.team.share import STRONG, UnevenError, share


def check_division(
    source: Source, tasks: Mapping[tuple[str, str], Axes], workers: Iterable[int], scalings: Iterable[str]
) -> None:
    """A mistake for each task that does not divide."""
    several = [size for size in workers if size > 1]
    teams = several if STRONG in scalings else []
    for (algorithm, environment), axes in tasks.items():
        if several and any(members > 1 for members in axes.get("members", ())):
            message = (
                "an ensemble has one worker: members average no gradients; use `workers = 1`, or members = 1"
            )
            source.mistake(("workers",), f"{algorithm} on {environment}: {message}")
        found = next(itertools.chain.from_iterable(_faults(algorithm, environment, axes, teams)), None)
        if found is not None:
            message = f"{STRONG}: {algorithm} on {environment}: {found}; change it, or the number of workers"
            source.mistake(("scaling",), message)


def _faults(algorithm: str, environment: str, axes: Axes, teams: list[int]) -> Iterator[Iterator[str]]:
    shipped = ALGORITHMS[algorithm].defaults(environment)
    for values, size in itertools.product(combinations(axes), teams):
        yield _faults_of(dataclasses.replace(shipped, **values), size)


def _faults_of(whole: hyper.Common, size: int) -> Iterator[str]:
    try:
        part = share(whole, size, STRONG)
    except UnevenError as error:
        yield str(error)
    else:
        for _, message in contradictions(hyper.to_json(part)):
            yield f"each of {size} workers has {message}"
