"""Rainbow: noisy exploration, n-step transitions, prioritised replay, a distributional learner."""

from __future__ import annotations

from typing import Iterator

import numpy as np

from rldyno_rig.algorithms import Job
from rldyno_rig.batches import RainbowBatch
from rldyno_rig.clock import ACT, ENVIRONMENT, OTHER, READ, STORE, TRANSFER, UPDATE
from rldyno_rig.parts.episodes import Episodes
from rldyno_rig.parts.n_step import NStep
from rldyno_rig.parts.priorities import Priorities
from rldyno_rig.parts.replay import Replay
from rldyno_rig.parts.schedules import linear
from rldyno_rig.parts.streams import factorised
from rldyno_rig.schema import TRACED_STEPS
from rldyno_rig.spec import noise_size

NOISE_BLOCK = 64


def train(job: Job) -> int:
    env, learner, recorder, hyper = job.env, job.learner, job.recorder, job.spec.hyper
    network, count = job.spec.network, job.env.count
    put, act, update, mark = learner.put, learner.act, learner.update, recorder.clock.mark
    memory = Replay(
        hyper.capacity, 1, network.observation_shape, network.observation_dtype, job.dtype, job.index_dtype
    )
    priorities = Priorities(memory.capacity, hyper.priority_exponent, hyper.priority_eps, job.streams.sample)
    recorder.replay_bytes = memory.nbytes + priorities.nbytes
    recorder.replay_rows = memory.capacity
    acting_noise = noise_rows(job.streams.explore, noise_size(network), job.dtype)
    updating_noise = noise_rows(job.streams.noise, 3 * noise_size(network), job.dtype)
    n_step = NStep(hyper.n_step, hyper.gamma, count)
    episodes = Episodes(count, recorder)

    step = 0
    handle = loss = None
    next_train = max(hyper.learning_starts, hyper.batch_size, count * hyper.n_step)
    next_sync = hyper.target_sync
    obs = env.reset()
    recorder.start()
    while recorder.reason is None and step < recorder.max_steps:
        noise = next(acting_noise)
        mark(OTHER)
        placed = put(obs, noise)
        mark(TRANSFER)
        (actions,) = act(*placed)
        mark(ACT)
        following, reward, terminated, truncated, final_obs = env.step(actions)
        now = mark(ENVIRONMENT)
        if step < TRACED_STEPS:
            recorder.trace(step, actions)
        step += count
        episodes.count(reward)
        some_ended = final_obs is not following
        if some_ended:
            episodes.ended(step, now, terminated, truncated)
        mark(OTHER)
        stored = [
            memory.add_one(*transition)
            for transition in n_step.push(obs, actions, reward, terminated, truncated, final_obs, some_ended)
        ]
        if stored:
            priorities.newest(np.array(stored))
        obs = following
        mark(STORE)

        if step >= next_train:
            if not recorder.updates:
                recorder.learns(step, mark(STORE))
            next_train += hyper.train_every
            lr = linear(hyper.learning_rate, hyper.learning_rate_end, hyper.schedule_steps, step)
            beta = linear(hyper.priority_beta_start, hyper.priority_beta_end, hyper.schedule_steps, step)
            for _ in range(hyper.updates_per_train):
                index, weight = priorities.sample(hyper.batch_size, memory.size, beta)
                noise = next(updating_noise).reshape(3, -1)
                batch = RainbowBatch(*memory.take(index), weight.astype(job.dtype), noise)
                mark(STORE)
                placed = put(*batch)
                mark(TRANSFER)
                handle = update(placed, lr)
                mark(UPDATE)
                loss, errors = learner.read(handle)
                mark(READ)
                priorities.update(index, errors)
                mark(STORE)
            recorder.updates += hyper.updates_per_train
        if step >= next_sync:
            next_sync += hyper.target_sync
            learner.sync_target()
            mark(UPDATE)
        if now >= recorder.next_beat:
            recorder.beat(mark(OTHER), step, loss)
            mark(OTHER)

    learner.drain()
    recorder.acts, recorder.reads = step // count, recorder.updates
    recorder.close(mark(UPDATE), step, loss)
    return step


def noise_rows(rng: np.random.Generator, size: int, dtype: np.dtype) -> Iterator[np.ndarray]:
    """Factorised noise, drawn in blocks: many small draws cost more than one large one."""
    while True:
        yield from factorised(rng, (NOISE_BLOCK, size), dtype)
