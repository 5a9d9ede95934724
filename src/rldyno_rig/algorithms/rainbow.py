"""Rainbow: noisy exploration, n-step transitions, prioritised replay, a distributional learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterator, NamedTuple, Optional

import numpy as np

from rldyno_rig.algorithms.algorithm import Algorithm, Job, Variant
from rldyno_rig.algorithms.loop import finish
from rldyno_rig.algorithms.replayed import first_update, memory_of
from rldyno_rig.clock import ACT, ENVIRONMENT, OTHER, READ, STORE, TRANSFER, UPDATE
from rldyno_rig.hyper import CNN_LARGE, Replayed
from rldyno_rig.parts.priorities import Priorities
from rldyno_rig.parts.replay import Memory
from rldyno_rig.parts.schedules import linear
from rldyno_rig.parts.streams import factorised
from rldyno_rig.schema import TRACED_STEPS
from rldyno_rig.spec import CATEGORICAL, Head, Q, noise_size
from rldyno_rig.synthetic import Draw

NOISE_BLOCK = 64


@dataclass(frozen=True)
class Rainbow(Replayed):
    """Rainbow (Hessel et al. 2018): double, dueling, noisy, distributional, n-step, prioritised."""

    n_step: int = 3
    """Rewards summed before the bootstrap. [steps]"""
    atoms: int = 51
    """Support points of the return distribution. [points]"""
    v_min: float = 0.0
    """Lowest support point. [return]"""
    v_max: float = 200.0
    """Highest support point. [return]"""
    noisy_sigma: float = 0.5
    """Initial scale of the factorised noise (σ₀ of Fortunato et al. 2018)."""
    priority_exponent: float = 0.5
    """α: sampling probability ∝ priority^α."""
    priority_beta_start: float = 0.4
    """β of the importance weights at the first update."""
    priority_beta_end: float = 1.0
    """β after `schedule_steps`."""
    priority_eps: float = 1e-6
    """Added to every new priority, so that none is zero."""


class RainbowBatch(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    """Discounted sum of the next n rewards."""
    discount: np.ndarray
    """γⁿ · (1 − terminated)."""
    next_obs: np.ndarray
    weight: np.ndarray
    """Importance weights of prioritised sampling."""
    noise: np.ndarray
    """[3, k]: noise of the online network on obs, of the online one on next_obs, of the target network."""


def train(job: Job) -> int:
    hyper: Rainbow = job.spec.hyper
    env, learner, recorder, count = job.env, job.learner, job.recorder, job.env.count
    put, act, mark = learner.put, learner.act, recorder.clock.mark
    obs = env.reset()
    memory, store, episodes = memory_of(job, obs)
    priorities = Priorities(memory.capacity, hyper.priority_exponent, hyper.priority_eps, job.streams.sample)
    recorder.replay_bytes = memory.nbytes + priorities.nbytes
    recorder.replay_rows = memory.capacity
    acting_noise = noise_rows(job.streams.explore, noise_size(job.spec.network), job.dtype)
    learn = updates(job, memory, priorities)

    step = 0
    loss: Optional[float] = None
    next_train, next_sync = first_update(hyper, count), hyper.target_sync
    max_steps = recorder.max_steps
    recorder.start()
    while recorder.reason is None and step < max_steps:
        noise = next(acting_noise)
        mark(STORE)
        placed = put(obs, noise)
        mark(TRANSFER)
        (actions,) = act(*placed)
        mark(ACT)
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
            next_train += hyper.train_every
            loss = learn(step)
        if step >= next_sync:
            next_sync += hyper.target_sync
            mark(STORE)
            learner.sync_target()
            mark(UPDATE)
        if now >= recorder.next_beat:
            recorder.beat(mark(OTHER), step, loss)
            mark(OTHER)
    return finish(job, step, step // count, loss=loss)


def updates(job: Job, memory: Memory, priorities: Priorities) -> Callable[[int], Optional[float]]:
    """The round of updates that follows an environment step; it returns the loss of the last one.

    Each one is read at once: its errors are the priorities from which the next one samples.
    """
    hyper: Rainbow = job.spec.hyper
    learner, recorder, mark = job.learner, job.recorder, job.recorder.clock.mark
    noise_of = noise_rows(job.streams.noise, 3 * noise_size(job.spec.network), job.dtype)

    rate_at = linear(hyper.learning_rate, hyper.learning_rate_end, hyper.schedule_steps)
    beta_at = linear(hyper.priority_beta_start, hyper.priority_beta_end, hyper.schedule_steps)

    def learn(step: int) -> Optional[float]:
        if not recorder.updates:
            recorder.learns(step, mark(STORE))
        priorities.newest(memory.stored())
        lr, beta = rate_at(step), beta_at(step)
        loss = None
        for _ in range(hyper.updates_per_train):
            index, weight = priorities.sample(hyper.batch_size, beta)
            noise = next(noise_of).reshape(3, -1)
            batch = (*memory.take(index), weight.astype(job.dtype), noise)
            mark(STORE)
            placed = learner.put(*batch)
            mark(TRANSFER)
            handle = learner.update(placed, lr)
            mark(UPDATE)
            loss, errors = learner.read(handle)
            mark(READ)
            assert errors is not None
            priorities.update(index, errors)
            mark(STORE)
        recorder.updates += hyper.updates_per_train
        recorder.reads += hyper.updates_per_train
        return loss

    return learn


def noise_rows(rng: np.random.Generator, size: int, dtype: np.dtype) -> Iterator[np.ndarray]:
    """Factorised noise, drawn in blocks: many small draws cost more than one large one."""
    while True:
        yield from factorised(rng, (NOISE_BLOCK, size), dtype)


def synthetic(draw: Draw) -> RainbowBatch:
    obs, action, reward, discount, next_obs = draw.transitions()
    noise = draw.noise(3)
    return RainbowBatch(obs, action, reward, discount, next_obs, draw.uniform(0.2, 1.0), noise)


ALGORITHM = Algorithm(
    name="rainbow",
    title="Rainbow",
    hyper=Rainbow,
    batch=RainbowBatch,
    head=lambda hyper: Head(Q, atoms=hyper.atoms, support=CATEGORICAL, dueling=True, noisy=True),
    synthetic=synthetic,
    train=train,
    rows=lambda hyper: hyper.batch_size,
    target_passes=lambda hyper: 2,
    # Returns may have either sign. |return| ≤ |reward| / (1 − γ), 100 for rewards within ±1.
    generic={"learning_rate": 5e-4, "learning_rate_end": 5e-4, "v_min": -100.0, "v_max": 100.0},
    # Table 1 of Hessel et al. 2018; four frames are one step. β rises over 200 million frames.
    atari={
        "learning_rate": 6.25e-5,
        "learning_rate_end": 6.25e-5,
        "adam_eps": 1.5e-4,
        "schedule_steps": 50_000_000,
        "convolutions": CNN_LARGE,
        "hidden": (512,),
        "batch_size": 32,
        "capacity": 1_000_000,
        "learning_starts": 20_000,
        "train_every": 4,
        "target_sync": 8_000,
        "v_min": -10.0,
        "v_max": 10.0,
    },
    tuned={
        "CartPole-v1": {
            "learning_rate": 2e-3,
            "learning_rate_end": 2e-3,
            "batch_size": 32,
            "hidden": (64, 64),
            "target_sync": 100,
            "capacity": 50_000,
            "n_step": 5,
            "schedule_steps": 80_000,
            "noisy_sigma": 0.3,
            "v_max": 100.0,
        },
        "MountainCar-v0": {
            "gamma": 0.98,
            "learning_rate": 2e-3,
            "learning_rate_end": 2e-5,
            "adam_eps": 1.5e-4,
            "batch_size": 32,
            "hidden": (64, 64),
            "activation": "tanh",
            "target_sync": 250,
            "capacity": 50_000,
            "n_step": 3,
            "noisy_sigma": 0.3,
            "v_min": -50.0,
            "v_max": 0.0,
        },
    },
    proof={"atoms": 11, "v_min": -3.0, "v_max": 4.0},
    variants=(Variant("unclipped tanh", {"max_grad_norm": 0.0, "activation": "tanh"}),),
)
