"""Run open loops, and on demand the same task in the closed division, one after the other on one core."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rldyno.division.arithmetic import step_flops
from rldyno.division.record import OpenRow, in_words
from rldyno.errors import Problem
from rldyno.limits.measure import limits_of
from rldyno.machine.cpus import available_cpus, place
from rldyno.processes.rig import Runtime, answer_of
from rldyno.records import files as records
from rldyno.study.hyper import changed
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter, resolve
from rldyno_rig import hyper
from rldyno_rig.contestant import Contestant
from rldyno_rig.open.job_file import OPEN_FILE, OPEN_FOUND_FILE, OpenFound, OpenJob, OpenProof
from rldyno_rig.open.problem import ROUND_STEPS, Unsupported, shipped
from rldyno_rig.open.problem import Problem as Task
from rldyno_rig.result_file import WorkerResult
from rldyno_rig.schema import RESULT_FILE, TRIAL_FILE
from rldyno_rig.trial_file import Budget, TrialFile

OPEN_FORMS: Mapping[str, tuple[str, ...]] = {
    "jax": ("ppo", "dqn", "a2c"),
    "torch": ("ppo", "dqn", "a2c"),
    "tensorflow": ("ppo", "dqn", "a2c"),
    "numpy": ("ppo", "dqn", "a2c"),
}
"""Framework → algorithms that it has an open form of."""
CLOSED_MODES = {"jax": "jit", "torch": "compile", "tensorflow": "xla", "numpy": "eager"}
"""The mode of the closed division that a framework's open form is shown beside."""
MANY_AGENTS = ("jax",)
"""Frameworks that train several agents in one process."""
DTYPES = ("float32", "float64")
PROOF_SEED = 3
TIME_LIMIT_S = 1800.0
CLOSED_STEPS = 20_480
"""Environment steps of one trial of the closed division, where a round has not more."""


@dataclass(frozen=True)
class OpenRequest:
    frameworks: tuple[str, ...]
    algorithm: str
    environment: str
    environments: tuple[int, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Hyper-parameters that differ from the closed division's."""
    device: str = "cpu"
    dtype: str = "float32"
    agents: int = 1
    seconds: float = 1.0
    repeats: int = 5
    closed: bool = False
    """Also measure the closed division."""
    parts: bool = False
    """Also measure what environment, acting and learning take."""

    def values(self, environments: int) -> Any:
        """Hyper-parameters, completed as in a study; a Problem where there is no open form of them."""
        task = self.algorithm, self.environment
        try:
            shipped(*task)
            values = shipped(*task, **changed("--set", *task, {**self.changes, "environments": environments}))
            Task(*task, values, self.device, self.dtype, self.agents)
        except Unsupported as error:
            raise Problem(str(error), fix="see docs/open.md for what it has") from error
        return values


def measure(
    request: OpenRequest, overrides: Mapping[str, Path], on_progress: Callable[[str], None]
) -> Iterator[OpenRow]:
    check(request)
    for count in request.environments:
        for framework in request.frameworks:
            on_progress(in_words(framework, count))
            yield _row(request, framework, count, overrides)


def check(request: OpenRequest) -> None:
    """A Problem where something has no open form."""
    if request.dtype not in DTYPES:
        raise Problem(f"--dtype {request.dtype} is unknown", fix=f"choose {' or '.join(DTYPES)}")
    for count in request.environments:
        request.values(count)
    for framework in request.frameworks:
        if request.algorithm not in OPEN_FORMS.get(framework, ()):
            have = ", ".join(f"{name}: {'/'.join(forms)}" for name, forms in OPEN_FORMS.items())
            raise Problem(f"{framework} has no open form of {request.algorithm}", fix=f"choose from {have}")
        if request.agents > 1 and framework not in MANY_AGENTS:
            fix = f"leave out --agents, or choose from {', '.join(MANY_AGENTS)}"
            raise Problem(f"{framework} trains one agent at a time", fix=fix)


def _row(request: OpenRequest, framework: str, count: int, overrides: Mapping[str, Path]) -> OpenRow:
    values = request.values(count)
    contestant = str(Contestant(framework, CLOSED_MODES[framework])) if request.closed else None
    try:
        interpreter = resolve(framework, overrides)
        answer = ask(job_of(request, framework, values), interpreter)
        rate = closed_rate(request, framework, values, interpreter) if request.closed else None
    except Problem as problem:
        return OpenRow(framework, count, None, problem.message, contestant)
    limit = limit_steps_per_s(request, values, overrides)
    return OpenRow(framework, count, OpenFound.from_json(answer), None, contestant, rate, limit)


def limit_steps_per_s(request: OpenRequest, values: Any, overrides: Mapping[str, Path]) -> float | None:
    """What the arithmetic of a step allows on one core, or on the GPU; None where the peak is unknown."""
    spec = Task(request.algorithm, request.environment, values).spec
    peak = limits_of(request.device, 1, overrides).flops_per_s.get(request.dtype)
    return None if peak is None else peak / step_flops(spec)


def job_of(request: OpenRequest, framework: str, values: Any) -> OpenJob:
    return OpenJob(
        backend=toolchain(framework).backend,
        algorithm=request.algorithm,
        environment=request.environment,
        hyper=hyper.to_json(values),
        device=request.device,
        dtype=request.dtype,
        agents=request.agents,
        seconds=request.seconds,
        repeats=request.repeats,
        parts=request.parts,
    )


def prove(
    framework: str, algorithm: str, environment: str, values: Any, interpreter: Interpreter
) -> OpenProof:
    """Compare an open form with the closed division, in float64."""
    backend = toolchain(framework).backend
    numbers = hyper.to_json(values)
    job = OpenJob(backend, algorithm, environment, numbers, dtype="float64", seed=PROOF_SEED, prove=True)
    return OpenProof.from_json(ask(job, interpreter))


def ask(job: OpenJob, interpreter: Interpreter) -> Any:
    """What the rig's `open` job found, in a process on one core."""
    with tempfile.TemporaryDirectory(prefix="rldyno-open-") as name:
        directory = Path(name)
        records.write_json(directory / OPEN_FILE, job.to_json())
        what = f"the open {job.algorithm} of {interpreter.framework}"
        return answer_of(
            "open",
            directory,
            _runtime(interpreter),
            OPEN_FOUND_FILE,
            what=what,
            cpus=_cpus(),
            limit_s=TIME_LIMIT_S,
        )


def closed_rate(request: OpenRequest, framework: str, values: Any, interpreter: Interpreter) -> float:
    """Steps per second of the closed division on the same task: the best of as many trials as repeats."""
    best, budget = 0.0, Budget(steps=closed_steps(values))
    for seed in range(request.repeats):
        contestant = Contestant(framework, CLOSED_MODES[framework])
        with closed_trial(request, contestant, values, interpreter, seed, budget) as (found, _):
            if found.train_ns:
                best = max(best, found.steps / (found.train_ns / 1e9))
    return best


@contextlib.contextmanager
def closed_trial(
    request: OpenRequest,
    contestant: Contestant,
    values: Any,
    interpreter: Interpreter,
    seed: int,
    budget: Budget,
) -> Iterator[tuple[WorkerResult, Path]]:
    """What one worker of the closed division found, and its directory, which is gone afterwards."""
    trial = TrialFile(
        trial="closed",
        contestant=contestant,
        algorithm=request.algorithm,
        environment=request.environment,
        device=request.device,
        dtype=request.dtype,
        seed=seed,
        hyper=hyper.to_json(values),
        budget=budget,
    )
    with tempfile.TemporaryDirectory(prefix="rldyno-closed-") as name:
        directory = Path(name)
        records.write_json(directory / TRIAL_FILE, trial.to_json())
        what = f"the closed {request.algorithm} of {contestant}"
        runtime = _runtime(interpreter)
        answer = answer_of(
            "train", directory, runtime, RESULT_FILE, what=what, cpus=_cpus(), limit_s=TIME_LIMIT_S
        )
        yield WorkerResult.from_json(answer), directory


def closed_steps(values: Any) -> int:
    """Whole rounds, so that acting and updates have their shares; many of them where they are short."""
    rows = int(values.environments * getattr(values, "rollout_steps", ROUND_STEPS))
    return rows * max(1, CLOSED_STEPS // rows)


def _runtime(interpreter: Interpreter) -> Runtime:
    return Runtime.of(interpreter, 1, hyper.MLP)


def _cpus() -> Sequence[int] | None:
    _, pool = place(available_cpus(), 1)
    return None if pool is None else pool[:1]
