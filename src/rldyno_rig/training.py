"""One trial, from trial.json to result.json."""

from __future__ import annotations

import json
import os
import platform
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, Optional, cast

import numpy as np

from rldyno_rig import algorithms, envs, footprint, hyper, identity, schema, spec, synthetic, transfers
from rldyno_rig.algorithms import ALGORITHMS, stacked_batch, synthetic_batch, update_rows, updates_per_call
from rldyno_rig.algorithms.algorithm import Job, many_of
from rldyno_rig.algorithms.ensemble import acted_once, assembled, members_of
from rldyno_rig.backends.contract import Backend, Learner, TeamLearner
from rldyno_rig.clock import COMMUNICATE, Clock
from rldyno_rig.facts_file import WorkerFacts
from rldyno_rig.loading import load_backend
from rldyno_rig.parts import native
from rldyno_rig.parts.streams import streams
from rldyno_rig.proof.forms import shape_of
from rldyno_rig.recorder import Recorder
from rldyno_rig.result_file import ANOTHER, WorkerResult, crashed
from rldyno_rig.team.names import home
from rldyno_rig.team.share import share, share_of_budget
from rldyno_rig.team.team import join, own_rank
from rldyno_rig.trial_file import TrialFile

WARM_UP_CALLS = 3
SEED_SPREAD = 10_000


def train(directory: Path, started_ns: int) -> int:
    """Run the trial; 0 when a budget or a NaN ended it, NOT_FINITE or 1 when it crashed, with a NaN or
    without. result.json says how.
    """
    trial = TrialFile.read(directory)
    own = home(directory, own_rank())
    spawn_ns = int(os.environ.get(schema.SPAWN_VARIABLE, started_ns))
    recorder: Optional[Recorder] = None
    try:
        recorder = _recorder(own, trial, spawn_ns)
        result = _train(own, trial, recorder, spawn_ns, started_ns)
    except Exception as error:
        traceback.print_exc()
        message = "{}: {}".format(type(error).__name__, str(error).strip().split("\n")[0])
        # No backend has to stand such a reward until the episode ends.
        if recorder is not None and recorder.spoiled() is not None:
            write_json(own / schema.RESULT_FILE, {"reason": "nan", "message": message})
            return schema.NOT_FINITE
        write_json(own / schema.RESULT_FILE, crashed(message))
        return 1
    write_json(own / schema.RESULT_FILE, result.to_json())
    return 0


def _recorder(own: Path, trial: TrialFile, spawn_ns: int) -> Recorder:
    """Of this worker, which has met the others of its team, if it has one."""
    clock = Clock()
    if trial.workers == 1:
        return Recorder(own, trial.budget, clock, spawn_ns)
    # A worker that does not come is named before the trial runner takes those that wait for hung.
    team = join(trial.workers, trial.collective, clock, trial.hang_timeout_s / 2)
    if trial.by_mpi:
        start_mpi()
    return Recorder(own, share_of_budget(trial.budget, team.size), clock, spawn_ns, team)


def start_mpi() -> None:
    """Before any framework is loaded.

    Started after MXNet or TensorFlow on two nodes of Slurm, MPICH 5.0.2 sent other bytes of the process than
    its address through PMI2: 0 of 14 starts went well, started before them 16 of 16.
    """
    from mpi4py import MPI

    assert MPI.Is_initialized()


def _train(
    directory: Path, trial: TrialFile, recorder: Recorder, spawn_ns: int, started_ns: int
) -> WorkerResult:
    """`directory` is that of this worker."""
    clock, team = recorder.clock, recorder.team
    startup = {"interpreter": started_ns - spawn_ns}
    resident: Dict[str, Optional[int]] = {}

    def mark(name: str) -> None:
        now = time.perf_counter_ns()
        startup[name] = now - spawn_ns - sum(startup.values())
        recorder.alive()

    def note_memory(name: str) -> None:
        resident["after_{}_bytes".format(name)] = footprint.resident_bytes()

    backend = load_backend(trial.backend)
    mark("import")
    note_memory("import")
    job = build(trial, backend, recorder)
    mark("build")
    note_memory("build")
    write_json(directory / schema.FACTS_FILE, _facts(backend, job).to_json())
    sizes = warm_up(job, first_called=lambda: mark("first_call"))
    note_memory("first_call")
    if team is not None:
        team.begin()

    steps = algorithms.train(job)
    startup["warm"] = clock.started - spawn_ns - sum(startup.values())
    _check_weights(job, recorder)
    communication = {schema.COMMUNICATE: clock.spent[COMMUNICATE]} if team else {}
    return WorkerResult(
        reason=recorder.reason or "steps",
        message=recorder.message or _why(recorder.reason or "steps"),
        steps=recorder.size * steps,
        episodes=recorder.episodes,
        updates=recorder.updates,
        startup_ns=startup,
        train_start_ns=clock.started - spawn_ns,
        train_ns=sum(clock.spent),
        phases_ns={**clock.phases(), **communication},
        calls=phase_calls(job, steps),
        learning=recorder.learning if recorder.updates else None,
        threshold=recorder.threshold,
        final_return=recorder.final_return(),
        memory={
            **resident,
            "used_bytes": footprint.used_bytes(),
            "replay_bytes": recorder.replay_bytes,
            "replay_rows": recorder.replay_rows,
        },
        transfer=transfers.moved(sizes, recorder, trial.device),
        device_memory=transfers.device_memory(backend, trial.device),
        team=team.finish() if team else None,
    )


def phase_calls(job: Job, steps: int) -> Dict[str, int]:
    """Phase → calls of this worker. `store` and `other` are what lies between calls.

    One call of `update_many` is one transfer, but as many updates as it makes.
    """
    recorder = job.recorder
    batches = recorder.updates // updates_per_call(job.spec, job.learner)
    return {
        "environment": steps // job.env.count,
        "act": recorder.acts,
        "transfer": recorder.acts + batches,
        "update": recorder.updates,
        "read": recorder.reads,
    }


def _why(reason: str) -> str:
    return ANOTHER if reason == "nan" else "reached its budget of " + reason


def fill(directory: Path, started_ns: int) -> int:
    """What a trial does before it trains, so that compilers fill their caches; nothing is recorded."""
    trial = TrialFile.read(directory)
    recorder = _recorder(home(directory, own_rank()), trial, started_ns)
    warm_up(build(trial, load_backend(trial.backend), recorder), first_called=lambda: None)
    if recorder.team is not None:
        recorder.team.finish()
    return 0


def build(trial: TrialFile, backend: Backend, recorder: Recorder) -> Job:
    """Environment, initial weights and learner of a trial."""
    algorithm = ALGORITHMS[trial.algorithm]
    team = recorder.team
    rank = 0 if team is None else team.rank
    values = share(algorithm.hyper_from_json(trial.hyper), recorder.size, trial.scaling)
    # Environment i is seeded with seed + i: spread the seeds, so that no two trials share an environment.
    first = SEED_SPREAD * trial.seed + rank * values.environments
    env = envs.make(
        *(trial.environment, values.environments, first, trial.max_episode_steps, trial.atari, trial.cores)
    )
    job_spec = algorithm.spec(values, env.observation_shape, env.observation_dtype, env.actions)
    random = streams(trial.seed, rank)

    def make() -> Learner:
        """Each one draws weights of its own, the first of an ensemble those of an agent alone."""
        params = spec.draw_params(job_spec, random.weights)
        return backend.make(job_spec, params, trial.mode, trial.device, trial.dtype)

    learner = assembled(job_spec, make, backend.INDEX_DTYPE)
    if team is not None:
        cast(TeamLearner, learner).join(team)
    return Job(
        job_spec,
        env,
        learner,
        random,
        recorder,
        np.dtype(spec.STORED[trial.dtype]),
        np.dtype(backend.INDEX_DTYPE),
    )


def warm_up(job: Job, first_called: Callable[[], None]) -> transfers.Sizes:
    """Call everything that training calls, on throw-away data of the same shapes, then restore the weights.

    Compilation and first-call costs belong to start-up; what follows is steady state. `first_called` is
    called once everything has run for the first time.
    """
    learner, rng = job.learner, np.random.default_rng(0)
    together = updates_per_call(job.spec, learner)
    before = learner.state()
    for call in range(WARM_UP_CALLS):
        observed = synthetic.acting(job.spec, rng, job.dtype.name, job.env.count)
        acted = acted_once(learner, learner.put(*observed))
        for member in members_of(learner):
            update = many_of(member, together) or member.update
            batch = _synthetic(job, rng, together)
            _, priorities = member.read(update(member.put(*batch), job.spec.hyper.learning_rate))
        learner.sync_target()
        if call == 0:
            learner.drain()
            first_called()
        job.recorder.alive()
    learner.load(before)
    learner.drain()
    count = transfers.total_bytes
    report = job.dtype.itemsize + (0 if priorities is None else count([priorities]))
    return transfers.Sizes(count(observed), count(acted), count(batch) // together, report)


def _synthetic(job: Job, rng: np.random.Generator, together: int) -> Any:
    """A batch, or so many of them stacked."""
    given = job.spec, rng, job.dtype.name, job.index_dtype.name, update_rows(job.spec)
    return synthetic_batch(*given) if together == 1 else stacked_batch(*given, together)


def write_json(path: Path, value: Dict[str, Any]) -> None:
    """Atomically: a reader sees the whole file or none."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=1, allow_nan=False), encoding="utf-8")
    partial.replace(path)


def _facts(backend: Backend, job: Job) -> WorkerFacts:
    described = backend.facts()
    network = job.spec.network
    return WorkerFacts(
        python=platform.python_version(),
        numpy=np.__version__,
        versions=described.pop("versions"),
        backend=described,
        observation_shape=tuple(network.observation_shape),
        actions=network.actions,
        network=hyper.network_kind(network.convolutions),
        updates_per_call=updates_per_call(job.spec, job.learner),
        loop=native.engine(),
        parameters=sum(int(np.prod(shape)) for shape in spec.parameter_shapes(network).values()),
        shape=shape_of(job.spec),
        **identity.hashes(backend.__file__),
    )


def _check_weights(job: Job, recorder: Recorder) -> None:
    """A NaN may reach the weights without passing through a loss that was read."""
    for name, array in job.learner.state()["params"].items():
        if recorder.reason != "nan" and not np.isfinite(array).all():
            recorder.reason = "nan"
            recorder.message = "weight {} is not finite after {} updates".format(name, recorder.updates)
