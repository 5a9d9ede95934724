"""`python bench/tuning.py seong2024 dqn`: search hyper-parameters for the task of a paper's study.

Candidates vary what the paper leaves open, or gives as a range. The first is the study's own values, the
others are drawn by lot. Each trains in `numpy:eager` with the same few seeds. The best and the first then
train with new seeds, on which nothing was chosen: the table has those. Nothing is timed, so the machine may
be busy. docs/learning.md says what came of it.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rldyno_rig
from harness import Json, report
from rldyno.session.preparation import trial_file
from rldyno.studies.shipped import shipped_studies
from rldyno.study.file import load_study
from rldyno.study.plan import Cell, Trial, make_plan
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import ensure
from rldyno_rig.schema import EPISODES_FILE, TRIAL_FILE

CONTESTANT = "numpy:eager"
SEARCH_SEEDS = range(1000, 1003)
NEW_SEEDS = range(2000, 2010)
FINALISTS = 3
SPACES: dict[tuple[str, str], dict[str, list[Any]]] = {
    ("liu2022", "ppo"): {
        "learning_rate": [3e-4, 1e-3, 3e-3],
        "environments": [1, 2, 4, 8],
        "rollout_steps": [32, 64, 128, 256],
        "minibatches": [2, 4, 8],
        "epochs": [4, 10, 20],
        "gae_lambda": [0.8, 0.9, 0.95, 0.98],
        "entropy_coefficient": [0.0, 0.01],
        "activation": ["relu", "tanh"],
        "max_grad_norm": [0.5, 10.0],
    },
    ("liu2022", "rainbow"): {
        "learning_rate": [3e-4, 1e-3, 3e-3],
        "learning_starts": [100, 200, 500, 1000],
        "train_every": [1, 2, 4],
        "target_sync": [50, 100, 250, 500],
        "n_step": [1, 3, 5, 10],
        "noisy_sigma": [0.1, 0.3, 0.5],
        "activation": ["relu", "tanh"],
    },
    ("seong2024", "dqn"): {
        "learning_rate": [5e-4, 1e-3, 2e-3],
        "gamma": [0.98, 0.99, 0.995],
        "hidden": [(64, 64), (128, 128)],
        "activation": ["relu", "tanh"],
        "train_every": [1, 2, 4],
        "target_sync": [100, 250, 500],
        "n_step": [1, 3, 5, 10],
        "epsilon_steps": [2_000, 5_000, 10_000],
        "learning_starts": [200, 1_000],
    },
}
"""(study, algorithm) → what the paper leaves open, or gives as a range, and the values to try."""


class Score(NamedTuple):
    """Of one run."""

    reached: float
    """Episodes (steps where the budget has no episodes) until the study's stop rule held; inf: never."""
    mean_return: float
    """Of all episodes: how early it learned, and whether it forgot."""


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("study", choices=sorted({study for study, _ in SPACES}))
    options.add_argument("algorithm")
    options.add_argument("--candidates", type=int, default=40)
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    asked = options.parse_args()
    space = SPACES.get((asked.study, asked.algorithm))
    if space is None:
        known = ", ".join(algorithm for study, algorithm in SPACES if study == asked.study)
        options.error(f"{asked.study} has no {asked.algorithm}; it has {known}")
    cell = cell_of(asked.study, asked.algorithm)
    tried = candidates(space, asked.candidates)
    with ThreadPoolExecutor(asked.jobs) as pool:

        def scores(changes: Json, seeds: range) -> list[Score]:
            return list(pool.map(lambda seed: score(changed(cell, changes), seed), seeds))

        found = []
        for index, changes in enumerate(tried):
            found.append((worth(scores(changes, SEARCH_SEEDS), cell), index))
            print(f"{index + 1} of {len(tried)}: {found[-1][0]}", file=sys.stderr)
        best = [index for _, index in sorted(found)[:FINALISTS]]
        rows = [
            row(tried[index], scores(tried[index], NEW_SEEDS), cell) for index in dict.fromkeys([0, *best])
        ]
    title = f"{asked.study}, {asked.algorithm}: new seeds {NEW_SEEDS.start} to {NEW_SEEDS.stop - 1}"
    report(f"tuning-{asked.study}-{asked.algorithm}", title, rows)


def cell_of(study: str, algorithm: str) -> Cell:
    cells = (trial.cell for trial in make_plan(load_study(shipped_studies()[study])).trials)
    cell = next(cell for cell in cells if cell.algorithm == algorithm)
    return dataclasses.replace(cell, contestant=CONTESTANT, cores=1)


def candidates(space: dict[str, list[Any]], count: int) -> list[Json]:
    """The study's own values (no change) first. Rollouts have 128 to 1,024 steps of all environments."""
    rng = np.random.default_rng(0)
    made: list[Json] = [{}]
    while len(made) < count:
        drawn = {name: values[rng.integers(len(values))] for name, values in space.items()}
        rows = drawn.get("environments", 1) * drawn.get("rollout_steps", 1)
        if 128 <= rows <= 1024 or "rollout_steps" not in drawn:
            made.append(drawn)
    return made


def changed(cell: Cell, changes: Json) -> Cell:
    if "learning_rate" in changes and cell.hyper.learning_rate == cell.hyper.learning_rate_end:
        changes = {**changes, "learning_rate_end": changes["learning_rate"]}
    return dataclasses.replace(cell, hyper=dataclasses.replace(cell.hyper, **changes))


def score(cell: Cell, seed: int) -> Score:
    (interpreter,) = ensure([cell.framework]).values()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / TRIAL_FILE).write_text(json.dumps(trial_file(Trial(cell, seed, 0), interpreter).to_json()))
        subprocess.run(
            [str(interpreter.path), "-I", str(Path(rldyno_rig.__file__).parent), "train", name],
            env={**os.environ, **toolchain(cell.framework).worker_variables(1, "mlp")},
            check=True,
            capture_output=True,
        )
        with (home / EPISODES_FILE).open(newline="") as stream:
            episodes = list(csv.DictReader(stream))
    returns = np.array([float(episode["return"]) for episode in episodes])
    rule = cell.budget
    width = rule.stop_episodes or 1
    means = np.convolve(returns, np.ones(width) / width, "valid") if len(returns) >= width else np.empty(0)
    held = np.flatnonzero(means >= (rule.stop_return or 0.0))
    if not held.size:
        return Score(float("inf"), returns.mean())
    last = held[0] + width - 1
    return Score(float(last + 1 if rule.episodes else episodes[last]["step"]), returns.mean())


def worth(scores: list[Score], cell: Cell) -> tuple[float, float]:
    """Smaller is better: first how many runs fail, then how late they learn."""
    failed = float(sum(not np.isfinite(one.reached) for one in scores))
    if cell.budget.episodes:
        return failed, -float(np.mean([one.mean_return for one in scores]))
    return failed, float(np.mean([min(one.reached, cell.budget.steps or one.reached) for one in scores]))


def row(changes: Json, scores: list[Score], cell: Cell) -> Json:
    unit = "episodes" if cell.budget.episodes else "steps"
    reached = sorted(one.reached for one in scores if np.isfinite(one.reached))
    return {
        "changes": ", ".join(f"{name} = {value}" for name, value in changes.items()) or "none",
        "reached": f"{len(reached)} of {len(scores)}",
        f"median_{unit}": float(np.median(reached)) if reached else float("nan"),
        f"most_{unit}": max(reached, default=float("nan")),
        "mean_return": float(np.mean([one.mean_return for one in scores])),
    }


if __name__ == "__main__":
    main()
