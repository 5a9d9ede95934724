"""Closed-division runs of the rig alone, and the contestants that take part."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import rldyno_rig
from rldyno.toolchains.catalogue import catalogue, toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.contestant import Contestant
from rldyno_rig.schema import ACTIONS_FILE, TRIAL_FILE
from rldyno_rig.trial_file import Budget, TrialFile

# These take minutes to compile from cold: `make test` proves them on less, `make parity` on everything.
SLOW_TO_COMPILE = {
    *("torch:compile", "torch:aot", "theano:graph"),
    *("pytensor:graph-numba", "pytensor:graph-c", "pytensor:graph-jax"),
}
EVERYTHING = os.environ.get("RLDYNO_PARITY") == "everything"
CONTESTANTS = [
    f"{chain.framework}:{mode}"
    for chain in catalogue().values()
    for mode, devices in chain.modes.items()
    if "cpu" in devices
]


def trained_actions(
    contestant: str,
    interpreter: Interpreter,
    algorithm: str,
    dtype: str,
    steps: int,
    home: Path,
    **more: Any,
) -> list[int]:
    """The first actions of a closed-division run with a fixed seed; `more` are hyper-parameters."""
    framework, _, mode = contestant.partition(":")
    chain = toolchain(framework)
    home.mkdir(parents=True)
    (home / TRIAL_FILE).write_text(json.dumps(trial(framework, mode, algorithm, dtype, steps, **more)))
    done = subprocess.run(
        [str(interpreter.path), "-I", str(Path(rldyno_rig.__file__).parent), "train", str(home)],
        env={**os.environ, **chain.worker_variables(1, hyper.MLP)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return [int(line) for line in (home / ACTIONS_FILE).read_text().split()]


def trial(framework: str, mode: str, algorithm: str, dtype: str, steps: int, **more: Any) -> dict[str, Any]:
    """Small, and learning from early on, so that every action depends on many updates."""
    values = ALGORITHMS[algorithm].defaults("CartPole-v1")
    changes: dict[str, Any] = {"hidden": (32, 32)}
    if algorithm in ("dqn", "rainbow"):
        changes.update(learning_starts=100, train_every=4, target_sync=100)
    if algorithm == "dqn":
        changes.update(epsilon_steps=200, epsilon_end=0.05)
    values = dataclasses.replace(values, **{**changes, **more})
    return TrialFile(
        trial="closed",
        contestant=Contestant(framework, mode),
        algorithm=algorithm,
        environment="CartPole-v1",
        dtype=dtype,
        seed=3,
        hyper=hyper.to_json(values),
        budget=Budget(steps=steps),
    ).to_json()
