"""How long a plan takes at most, estimated from earlier trials.

`python -m rldyno.session.estimate RESULTS…` prints the rates found in results directories, in the format of
`src/rldyno/data/rates.json`, which is part of rldyno and used until this machine has a history of its own.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.records.files import write_atomically
from rldyno.records.outcome import Outcome
from rldyno.records.trial_records import read_outcome, read_trial
from rldyno.study.plan import Cell, Plan
from rldyno_rig import envs
from rldyno_rig.algorithms.ensemble import size_of
from rldyno_rig.schema import OUTCOME_FILE
from rldyno_rig.trial_file import TrialFile

# Weight of the newest trial in the running mean.
NEWEST_WEIGHT = 0.3


@dataclass(frozen=True)
class Rate:
    seconds_per_step: float
    """Of the training loop, per environment step."""
    startup_s: float
    """Everything outside the training loop."""
    trials: int
    """Trials behind the mean."""


@dataclass(frozen=True)
class Rates:
    own: Mapping[str, Rate]
    """Of trials this user ran on this machine."""
    shipped: Mapping[str, Rate]
    """Of trials on another machine, part of rldyno."""


@dataclass(frozen=True)
class Guess:
    """The longest a trial should take; None when nothing is known."""

    seconds: float | None
    source: str


@dataclass(frozen=True)
class TimeEstimate:
    guesses: tuple[Guess, ...]
    """One per trial, in the plan's order."""

    @property
    def total_s(self) -> float:
        """Of the trials that could be estimated."""
        return sum(guess.seconds for guess in self.guesses if guess.seconds is not None)

    @property
    def unknown(self) -> int:
        """Trials without an estimate."""
        return sum(guess.seconds is None for guess in self.guesses)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(guess.source for guess in self.guesses))


def estimate(plan: Plan, rates: Rates) -> TimeEstimate:
    guesses = {cell: _guess(cell, rates) for cell in plan.cells}
    return TimeEstimate(tuple(guesses[trial.cell] for trial in plan.trials))


def load_rates() -> Rates:
    shipped = resources.files("rldyno").joinpath("data/rates.json").read_text(encoding="utf-8")
    return Rates(own=_read(rates_file()), shipped=_parse(shipped))


def rates_file() -> Path:
    return cache_dir() / "rates.json"


def remember(trial: TrialFile, outcome: Outcome) -> None:
    """Add a finished trial to this user's history.

    Failed trials do not show the speed. A history that cannot be written is no reason to stop a run.
    """
    history = dict(_read(rates_file()))
    if _add(history, trial, outcome):
        try:
            _write(rates_file(), _as_json(history))
        except OSError:
            return


def rates_of(directories: Iterable[Path]) -> dict[str, Rate]:
    """The rates of the finished trials in some results directories."""
    found: dict[str, Rate] = {}
    for directory in directories:
        outcomes = sorted(directory.glob(f"trials/*/{OUTCOME_FILE}"))
        if not outcomes:
            raise Problem(f"{directory}: no finished trial in it", fix="give the directory of a run")
        for path in outcomes:
            _add(found, read_trial(path.parent), read_outcome(path.parent))
    return found


def _guess(cell: Cell, rates: Rates) -> Guess:
    key = _key(cell)
    budget_s = math.inf if cell.budget.wall_s is None else cell.budget.wall_s
    rate = rates.own.get(key) or rates.shipped.get(key)
    if rate is None:
        if math.isfinite(budget_s):
            return Guess(budget_s, "from budget.wall_s")
        what = f"{cell.contestant} {cell.algorithm} on {cell.environment}"
        where = f"{cell.device}, cores {cell.cores}"
        if cell.workers > 1:
            where += f", workers {cell.workers}, {cell.collective}, {cell.scaling}"
        if size_of(cell.hyper) > 1:
            where += f", members {size_of(cell.hyper)}"
        return Guess(None, f"unknown: no earlier trial of {what} ({where})")
    training_s = min(budget_s, rate.seconds_per_step * _most_steps(cell))
    if not math.isfinite(training_s):
        return Guess(None, f"unknown: {cell.environment} has no known limit of steps per episode")
    if key in rates.own:
        source = "from earlier trials on this machine"
    else:
        source = "from rates measured on another machine"
    return Guess(rate.startup_s + training_s, source)


def _most_steps(cell: Cell) -> float:
    budget = cell.budget
    bounds = [math.inf if budget.steps is None else budget.steps]
    if budget.episodes is not None:
        limit = cell.max_episode_steps
        if limit is None and cell.environment in envs.BUILT_IN:
            limit = envs.make(cell.environment, count=1, seed=0).max_episode_steps
        # Environments side by side each play on while the last episode ends.
        bounds.append(math.inf if limit is None else (budget.episodes + cell.hyper.environments - 1) * limit)
    return min(bounds)


def _add(rates: dict[str, Rate], trial: TrialFile, outcome: Outcome) -> bool:
    result = outcome.result
    if not outcome.done or result is None or not result.steps or outcome.wall_s is None:
        return False
    train_s = result.train_ns / 1e9
    newest = Rate(train_s / result.steps, max(0.0, outcome.wall_s - train_s), 1)
    key = _key(trial)
    rates[key] = _blend(rates[key], newest) if key in rates else newest
    return True


def _blend(mean: Rate, newest: Rate) -> Rate:
    """Plain mean of the first trials, exponentially weighted from then on."""
    trials = mean.trials + 1
    weight = max(NEWEST_WEIGHT, 1 / trials)
    return Rate(
        mean.seconds_per_step + weight * (newest.seconds_per_step - mean.seconds_per_step),
        mean.startup_s + weight * (newest.startup_s - mean.startup_s),
        trials,
    )


def _key(trial: Cell | TrialFile) -> str:
    words = [trial.contestant, trial.algorithm, trial.environment, trial.device, trial.cores]
    if trial.workers > 1:
        words += [trial.workers, trial.collective, trial.scaling]
    members = trial.hyper.get("members", 1) if isinstance(trial, TrialFile) else size_of(trial.hyper)
    if members > 1:
        words += ["members", members]
    return " ".join(map(str, words))


def _read(path: Path) -> dict[str, Rate]:
    """A history that is missing or damaged is an empty one."""
    try:
        return _parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _parse(text: str) -> dict[str, Rate]:
    return {key: Rate(**values) for key, values in json.loads(text).items()}


def _as_json(rates: Mapping[str, Rate]) -> str:
    return json.dumps({key: asdict(rates[key]) for key in sorted(rates)}, indent=1) + "\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)


if __name__ == "__main__":
    try:
        sys.stdout.write(_as_json(rates_of(map(Path, sys.argv[1:]))))
    except Problem as problem:
        sys.exit(f"{problem.message}\nfix: {problem.fix}")
