"""From a study to its trials, in the order they run."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rldyno.records.trial_id import trial_id
from rldyno.study import hyper as study_hyper
from rldyno.study.file import BudgetTable, Study
from rldyno.study.scripts import filled_in, script_of
from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.contestant import Contestant
from rldyno_rig.envs.atari_rules import ATARI, AtariRules, is_atari, rules_for
from rldyno_rig.guest.file import Guest
from rldyno_rig.trial_file import Budget, TrialFile

_ADDED_WHEN_PREPARED = ("backend", "interpreter", "isolated", "variables", "conditions")


@dataclass(frozen=True)
class Cell:
    """One point of the crossed axes."""

    contestant: str
    algorithm: str
    environment: str
    max_episode_steps: int | None
    atari: AtariRules | None
    device: str
    cores: int
    workers: int
    collective: str
    scaling: str
    share_gpu: bool
    dtype: str
    division: str
    caches: str
    hyper: hyper.Common
    budget: Budget
    guest: Guest | None = None
    """The script of contestants such as `script:train.py`, with braces in its arguments."""

    @property
    def framework(self) -> str:
        return Contestant.parse(self.contestant).framework

    @property
    def toolchain(self) -> str:
        """The name under which its interpreter is kept. Each script may have one of its own."""
        return self.framework if self.guest is None else self.contestant

    @property
    def cpus(self) -> int:
        """Of all its workers."""
        return self.workers * self.cores

    @property
    def needs(self) -> tuple[str, ...]:
        """What toolchains have optional parts for: its collective, and the family of its environment."""
        return (self.collective, *([ATARI] if is_atari(self.environment) else []))


@dataclass(frozen=True)
class Trial:
    """A cell with one seed."""

    cell: Cell
    seed: int
    block: int

    @cached_property
    def id(self) -> str:
        return trial_id(self._file)

    def to_file(self) -> TrialFile:
        """trial.json without interpreter, variables and conditions, which the session adds."""
        return dataclasses.replace(self._file, trial=self.id)

    def to_json(self) -> dict[str, Any]:
        """What the plan knows of trial.json."""
        values = self.to_file().to_json()
        return {key: value for key, value in values.items() if key not in _ADDED_WHEN_PREPARED}

    @property
    def _guest(self) -> Guest | None:
        cell = self.cell
        if cell.guest is None:
            return None
        own = {"seed": self.seed, "steps": cell.budget.steps, "algorithm": cell.algorithm}
        own |= {"environment": cell.environment, "device": cell.device, "cores": cell.cores}
        return filled_in(cell.guest, {**hyper.to_json(cell.hyper), **own})

    @cached_property
    def _file(self) -> TrialFile:
        """Without its id."""
        cell = self.cell
        return TrialFile(
            trial="",
            contestant=Contestant.parse(cell.contestant),
            algorithm=cell.algorithm,
            environment=cell.environment,
            seed=self.seed,
            hyper=hyper.to_json(cell.hyper),
            budget=cell.budget,
            max_episode_steps=cell.max_episode_steps,
            atari=cell.atari,
            guest=self._guest,
            device=cell.device,
            cores=cell.cores,
            workers=cell.workers,
            collective=cell.collective,
            scaling=cell.scaling,
            share_gpu=cell.share_gpu,
            dtype=cell.dtype,
            division=cell.division,
            caches=cell.caches,
            block=self.block,
        )


@dataclass(frozen=True)
class Plan:
    study: Study
    cells: tuple[Cell, ...]
    trials: tuple[Trial, ...]
    """In the order in which they run; with adaptive seeds all that may be needed."""

    @property
    def opening(self) -> tuple[Trial, ...]:
        """The trials that always run: all but the seeds that are added where a comparison is open."""
        adaptive = self.study.adaptive
        return tuple(trial for trial in self.trials if adaptive is None or trial.block < adaptive.min)


def make_plan(study: Study) -> Plan:
    """One block per seed, each holding every cell once, in an order drawn for that block.

    Contestants alternate, so a drift of the machine affects all of them. Whole blocks are balanced. The order
    of a block does not depend on how many blocks follow.
    """
    cells = tuple(_cells(study))
    trials = []
    for block, seed in enumerate(study.seeds):
        order = np.random.default_rng([study.order_seed, block]).permutation(len(cells))
        trials += [Trial(cells[index], seed, block) for index in order]
    return Plan(study, cells, tuple(trials))


def _cells(study: Study) -> Iterator[Cell]:
    budget = _budget(study.budget)
    for algorithm, environment in itertools.product(study.algorithms, study.environments):
        shipped = ALGORITHMS[algorithm].defaults(environment)
        for values in study_hyper.combinations(study.axes(algorithm, environment)):
            complete = dataclasses.replace(shipped, **values)
            for max_episode_steps, cores, placement in itertools.product(
                study.max_episode_steps, study.cores, study.placements
            ):
                guest = script_of(placement.contestant)
                left_out = guest is not None and not study.script[guest].runs(algorithm, environment)
                if left_out or not study.fits(cores, placement.workers):
                    continue
                yield Cell(
                    contestant=placement.contestant,
                    algorithm=algorithm,
                    environment=environment,
                    max_episode_steps=max_episode_steps,
                    atari=rules_for(environment, study.atari.rules),
                    device=placement.device,
                    cores=cores,
                    workers=placement.workers,
                    collective=placement.collective,
                    scaling=placement.scaling,
                    share_gpu=study.share_gpu and placement.workers > 1 and placement.device != "cpu",
                    dtype=study.dtype,
                    division=study.division,
                    caches=study.caches,
                    hyper=complete,
                    budget=budget,
                    guest=None
                    if guest is None
                    else study.script[guest].guest(study.script_sha256[guest], algorithm),
                )


def _budget(table: BudgetTable) -> Budget:
    return Budget(
        steps=table.steps,
        episodes=table.episodes,
        wall_s=table.wall_s,
        stop_return=table.stop.return_ if table.stop else None,
        stop_episodes=table.stop.episodes if table.stop else None,
        stop_ends=table.stop.ends if table.stop else True,
    )
