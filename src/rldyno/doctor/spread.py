"""The machine's own run-to-run spread: the same short training, again and again, in fresh processes."""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rldyno.machine.cpus import available_cpus, place
from rldyno.processes.rig import Runtime, answer_of
from rldyno.stats.distributions import deviation_interval
from rldyno.stats.power import detectable_difference
from rldyno.toolchains.catalogue import toolchain
from rldyno_rig import hyper, schema
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.contestant import Contestant
from rldyno_rig.trial_file import Budget, TrialFile

RUNS = 10
FEWEST_RUNS = 5
LIMIT_S = 18.0
"""A slow machine makes do with fewer runs."""
STEPS = 4_000
"""Of DQN on CartPole-v1 in NumPy: about half a second, and as much again for the process to start."""
SEEDS = (3, 5, 10, 20, 30)


@dataclass(frozen=True)
class Spread:
    train_s: tuple[float, ...]
    """Length of the training loop in each process. They compute the same to the last bit."""
    spread: float
    """Standard deviation of its logarithm: 0.02 is 2 %."""
    interval: tuple[float, float]
    """Its 95 % interval: a few runs give a spread only roughly."""
    detectable: dict[int, float]
    """Seeds per contestant → the smallest difference in speed that they show (5 % error, 80 % power)."""


def measure_spread(runs: int = RUNS, on_run: Callable[[int], None] = lambda done: None) -> Spread:
    """`on_run` gets the number of finished runs."""
    times: list[float] = []
    stop_at = time.monotonic() + LIMIT_S
    while len(times) < runs and (len(times) < FEWEST_RUNS or time.monotonic() < stop_at):
        on_run(len(times))
        times.append(_train_once())
    return spread_of(times)


def spread_of(train_s: list[float]) -> Spread:
    spread = statistics.stdev(math.log(seconds) for seconds in train_s)
    detectable = {seeds: math.expm1(detectable_difference(spread, seeds)) for seeds in SEEDS}
    return Spread(tuple(train_s), spread, deviation_interval(spread, len(train_s)), detectable)


def _train_once() -> float:
    """Seconds of the training loop, in a process placed like a worker of one core."""
    _, cpus = place(available_cpus(), 1)
    with tempfile.TemporaryDirectory(prefix="rldyno-spread-") as name:
        directory = Path(name)
        (directory / schema.TRIAL_FILE).write_text(json.dumps(_trial().to_json()), encoding="utf-8")
        result = answer_of(
            "train",
            directory,
            Runtime(Path(sys.executable), False, toolchain("numpy").worker_variables(1)),
            schema.RESULT_FILE,
            what="the training that measures this machine",
            cpus=None if cpus is None else cpus[:1],
        )
    return float(result["train_ns"]) / 1e9


def _trial() -> TrialFile:
    return TrialFile(
        trial="spread",
        contestant=Contestant("numpy", "eager"),
        algorithm="dqn",
        environment="CartPole-v1",
        seed=0,
        hyper=hyper.to_json(ALGORITHMS["dqn"].hyper(learning_starts=200)),
        budget=Budget(steps=STEPS),
    )
