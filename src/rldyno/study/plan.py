"""From a study to its trials, in the order they run."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rldyno.study import hyper as study_hyper
from rldyno.study.file import Budget, Study
from rldyno_rig import hyper
from rldyno_rig.schema import SCHEMA_VERSION

HANG_TIMEOUT_S = 300.0
SAMPLE_HZ = 20.0

# What of trial.json does not shape the computation, and so not the trial's id.
_CIRCUMSTANCES = ("schema", "trial", "block", "hang_timeout_s", "sample_hz")


@dataclass(frozen=True)
class Limits:
    """What ends a trial, as trial.json has it; None is no limit."""

    steps: int | None
    episodes: int | None
    wall_s: float | None
    stop_return: float | None
    stop_episodes: int | None


@dataclass(frozen=True)
class Cell:
    """One point of the crossed axes."""

    contestant: str
    algorithm: str
    environment: str
    max_episode_steps: int | None
    device: str
    cores: int
    workers: int
    dtype: str
    division: str
    hyper: hyper.Hyper
    budget: Limits

    @property
    def framework(self) -> str:
        return self.contestant.partition(":")[0]

    @property
    def mode(self) -> str:
        return self.contestant.partition(":")[2]


@dataclass(frozen=True)
class Trial:
    """A cell with one seed."""

    cell: Cell
    seed: int
    block: int
    hang_timeout_s: float = HANG_TIMEOUT_S
    sample_hz: float = SAMPLE_HZ

    @cached_property
    def id(self) -> str:
        """A readable slug and a hash of what shapes the computation, safe as a file name anywhere."""
        content = {key: value for key, value in self._fields().items() if key not in _CIRCUMSTANCES}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        cell = self.cell
        words = (cell.contestant, cell.algorithm, cell.environment, cell.device)
        slug = ".".join(re.sub(r"[^A-Za-z0-9_-]+", "-", word) for word in words)
        return f"{slug[:80]}.s{self.seed}.{digest[:8]}"

    def to_json(self) -> dict[str, Any]:
        """trial.json, but for the interpreter and its variables, which the launcher adds."""
        fields = self._fields()
        return {"schema": fields.pop("schema"), "trial": self.id, **fields}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Trial:
        own = [field.name for field in dataclasses.fields(Cell) if field.name not in ("hyper", "budget")]
        cell = Cell(
            **{name: values[name] for name in own},
            hyper=hyper.from_json(values["algorithm"], values["hyper"]),
            budget=Limits(**values["budget"]),
        )
        return cls(cell, values["seed"], values["block"], values["hang_timeout_s"], values["sample_hz"])

    def _fields(self) -> dict[str, Any]:
        cell = self.cell
        return {
            "schema": SCHEMA_VERSION,
            "contestant": cell.contestant,
            "framework": cell.framework,
            "mode": cell.mode,
            "algorithm": cell.algorithm,
            "environment": cell.environment,
            "max_episode_steps": cell.max_episode_steps,
            "device": cell.device,
            "cores": cell.cores,
            "workers": cell.workers,
            "dtype": cell.dtype,
            "division": cell.division,
            "seed": self.seed,
            "block": self.block,
            "hyper": hyper.to_json(cell.hyper),
            "budget": dataclasses.asdict(cell.budget),
            "hang_timeout_s": self.hang_timeout_s,
            "sample_hz": self.sample_hz,
        }


@dataclass(frozen=True)
class Plan:
    study: Study
    cells: tuple[Cell, ...]
    trials: tuple[Trial, ...]
    """In execution order; with adaptive seeds all that may be needed."""

    @property
    def opening(self) -> tuple[Trial, ...]:
        """Those that run whatever comes out: all but the seeds that are added where a comparison is open."""
        adaptive = self.study.adaptive
        return tuple(trial for trial in self.trials if adaptive is None or trial.block < adaptive.min)


def make_plan(study: Study) -> Plan:
    """One block per seed, each holding every cell once, in an order drawn for that block.

    Contestants alternate, so a drift of the machine touches all of them; whole blocks are balanced, and the
    order of a block does not depend on how many follow.
    """
    cells = tuple(_cells(study))
    trials = []
    for block, seed in enumerate(study.seeds):
        order = np.random.default_rng([study.order_seed, block]).permutation(len(cells))
        trials += [Trial(cells[index], seed, block) for index in order]
    return Plan(study, cells, tuple(trials))


def _cells(study: Study) -> Iterator[Cell]:
    limits = _limits(study.budget)
    for algorithm, environment in itertools.product(study.algorithms, study.environments):
        shipped = hyper.defaults(algorithm, environment)
        for values in study_hyper.combinations(study.axes(algorithm, environment)):
            complete = dataclasses.replace(shipped, **values)
            for max_episode_steps, cores, placement in itertools.product(
                study.max_episode_steps, study.cores, study.placements
            ):
                yield Cell(
                    contestant=placement.contestant,
                    algorithm=algorithm,
                    environment=environment,
                    max_episode_steps=max_episode_steps,
                    device=placement.device,
                    cores=cores,
                    workers=placement.workers,
                    dtype=study.dtype,
                    division=study.division,
                    hyper=complete,
                    budget=limits,
                )


def _limits(budget: Budget) -> Limits:
    stop = budget.stop
    return Limits(
        steps=budget.steps,
        episodes=budget.episodes,
        wall_s=budget.wall_s,
        stop_return=stop.return_ if stop else None,
        stop_episodes=stop.episodes if stop else None,
    )
