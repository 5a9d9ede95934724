"""Deep Q-network: act ε-greedily, remember, and every few steps update from memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterator, NamedTuple, Sequence, Tuple

import numpy as np

from rldyno_rig.algorithms.algorithm import Algorithm, Job, Variant
from rldyno_rig.algorithms.ensemble import MEAN, Ensemble, members_of
from rldyno_rig.algorithms.loop import beat, finish
from rldyno_rig.algorithms.replayed import first_update, memory_of
from rldyno_rig.clock import ACT, ENVIRONMENT, STORE, TRANSFER, UPDATE
from rldyno_rig.hyper import CNN_LARGE, Replayed
from rldyno_rig.parts.exploration import Decision, epsilon_greedy
from rldyno_rig.parts.masks import Masks
from rldyno_rig.parts.replay import Memory
from rldyno_rig.parts.schedules import linear
from rldyno_rig.schema import TRACED_STEPS
from rldyno_rig.spec import Head, Q
from rldyno_rig.synthetic import Draw


@dataclass(frozen=True)
class Dqn(Replayed):
    """Deep Q-network (Mnih et al. 2015), optionally double (van Hasselt et al. 2016), or an ensemble."""

    epsilon_start: float = 1.0
    """Share of random actions at the first step."""
    epsilon_end: float = 0.02
    """Share of random actions after `epsilon_steps`."""
    epsilon_steps: int = 10_000
    """Environment steps over which ε falls linearly. [steps]"""
    double: bool = False
    """Choose the next action with the online network, value it with the target network."""
    dueling: bool = False
    """Q = V + A − mean A (Wang et al. 2016)."""
    huber_delta: float = 1.0
    """Width of the quadratic part of the loss. [return]"""
    members: int = 1
    """Networks that are trained side by side from one memory and decide together. [networks]"""
    vote: str = MEAN
    """How several members decide: mean, of their action values, or majority, of their greedy actions."""
    mask: float = 0.8
    """Share of the memory's transitions that each of several members learns from (Osband et al. 2016)."""


class DqnBatch(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    """γ · (1 − terminated): a time limit does not end the return."""
    next_obs: np.ndarray


def train(job: Job) -> int:
    hyper: Dqn = job.spec.hyper
    env, learner, recorder, count = job.env, job.learner, job.recorder, job.env.count
    put, act, mark = learner.put, learner.act, recorder.clock.mark
    obs = env.reset()
    memory, store, episodes = memory_of(job, obs, count if hyper.n_step == 1 else 1)
    recorder.replay_bytes, recorder.replay_rows = memory.nbytes, memory.capacity
    learn = updates(job, memory)
    members = len(members_of(learner))

    step = acts = 0
    handle = None
    next_train, next_sync = first_update(hyper, count), hyper.target_sync
    max_steps, train_every = recorder.max_steps, hyper.train_every
    recorder.start()
    for some_greedy, greedy, drawn in exploration(job):
        actions = drawn
        mark(STORE)
        if some_greedy:
            placed = put(obs)
            mark(TRANSFER)
            (chosen,) = act(*placed)
            mark(ACT)
            acts += 1
            actions = chosen if greedy is None else np.where(greedy, chosen, drawn)
        obs, reward, terminated, truncated, final_obs = env.step(actions)
        now = mark(ENVIRONMENT)
        if step < TRACED_STEPS:
            recorder.trace(step, actions)
        step += count
        if store is not None:
            store(actions, obs, reward, terminated, truncated, final_obs)
        if final_obs is not obs:
            episodes.ended(step, now, terminated, truncated)

        if step >= next_train:
            next_train += train_every
            handle = learn(step)
        if step >= next_sync:
            next_sync += hyper.target_sync
            mark(STORE)
            learner.sync_target()
            mark(UPDATE)
        if now >= recorder.next_beat:
            beat(job, step, handle)
        if step >= max_steps or recorder.reason is not None:
            break
    return finish(job, step, acts * members, handle)


def exploration(job: Job) -> Iterator[Decision]:
    hyper: Dqn = job.spec.hyper
    return epsilon_greedy(
        job.streams.explore,
        job.env.count,
        job.spec.network.actions,
        hyper.epsilon_start,
        hyper.epsilon_end,
        hyper.epsilon_steps,
        job.index_dtype,
    )


def updates(job: Job, memory: Memory) -> Callable[[int], Any]:
    """The round of updates that follows an environment step; it returns the handle of the last one.

    Of several members each makes every update of the round, on a batch of its own.
    """
    hyper: Dqn = job.spec.hyper
    recorder, mark = job.recorder, job.recorder.clock.mark
    update, made = job.learner.update, hyper.updates_per_train * len(members_of(job.learner))
    put, sample = batches(job, memory)
    rate = linear(hyper.learning_rate, hyper.learning_rate_end, hyper.schedule_steps)
    rounds = hyper.updates_per_train

    def learn(step: int) -> Any:
        if not recorder.updates:
            recorder.learns(step, mark(STORE))
        lr = rate(step)
        handle = None
        for _ in range(rounds):
            batch = sample()
            mark(STORE)
            placed = put(*batch)
            mark(TRANSFER)
            handle = update(placed, lr)
            mark(UPDATE)
        recorder.updates += made
        return handle

    return learn


def batches(job: Job, memory: Memory) -> Tuple[Callable[..., Any], Callable[[], Sequence[Any]]]:
    """What places a batch, or one of each member, and what samples it."""
    hyper: Dqn = job.spec.hyper
    learner, rng = job.learner, job.streams.sample
    if not isinstance(learner, Ensemble):
        return learner.put, memory.sampler(rng, hyper.batch_size)
    masks = Masks(len(learner.members), hyper.mask, memory.capacity, job.streams.masks)
    job.recorder.replay_bytes += masks.nbytes
    return learner.put_each, masks.sampler(memory, rng, hyper.batch_size)


def synthetic(draw: Draw) -> DqnBatch:
    return DqnBatch(*draw.transitions())


ALGORITHM = Algorithm(
    name="dqn",
    title="DQN",
    hyper=Dqn,
    batch=DqnBatch,
    head=lambda hyper: Head(Q, dueling=hyper.dueling),
    synthetic=synthetic,
    train=train,
    rows=lambda hyper: hyper.batch_size,
    target_passes=lambda hyper: 2 if hyper.double else 1,
    generic={
        "learning_rate": 5e-4,
        "learning_rate_end": 5e-4,
        "epsilon_steps": 20_000,
        "epsilon_end": 0.05,
        "double": True,
    },
    # CleanRL's `dqn_atari.py` (Huang et al. 2022), whose results docs/learning.md quotes. Its loss is the
    # squared error; here it is Huber's, as in Mnih et al. 2015, whose network and size of memory both use.
    atari={
        "learning_rate": 1e-4,
        "learning_rate_end": 1e-4,
        "convolutions": CNN_LARGE,
        "hidden": (512,),
        "batch_size": 32,
        "capacity": 1_000_000,
        "learning_starts": 80_000,
        "train_every": 4,
        "target_sync": 1_000,
        "epsilon_steps": 1_000_000,
        "epsilon_end": 0.01,
        "max_grad_norm": 0.0,
    },
    tuned={
        "CartPole-v1": {
            "learning_rate": 1e-3,
            "learning_rate_end": 1e-5,
            "batch_size": 64,
            "hidden": (64, 64),
            "activation": "tanh",
            "train_every": 4,
            "target_sync": 250,
            "n_step": 10,
            "epsilon_steps": 5_000,
            "epsilon_end": 0.01,
            "double": True,
        },
        "MountainCar-v0": {
            "learning_rate": 1e-3,
            "batch_size": 64,
            "train_every": 1,
            "target_sync": 250,
            "epsilon_end": 0.01,
            "double": True,
            "max_grad_norm": 1.0,
        },
    },
    variants=(
        Variant(
            "double dueling 3-step tanh",
            {"double": True, "dueling": True, "n_step": 3, "activation": "tanh"},
        ),
    ),
)
