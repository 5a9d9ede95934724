"""Deep Q-network: act ε-greedily, remember, and every few steps update from memory."""

from __future__ import annotations

import numpy as np

from rldyno_rig.algorithms import Job
from rldyno_rig.clock import ACT, ENVIRONMENT, OTHER, READ, STORE, TRANSFER, UPDATE
from rldyno_rig.parts.episodes import Episodes
from rldyno_rig.parts.exploration import epsilon_greedy
from rldyno_rig.parts.n_step import NStep
from rldyno_rig.parts.replay import Replay, uniform_draws
from rldyno_rig.parts.schedules import linear
from rldyno_rig.schema import TRACED_STEPS


def train(job: Job) -> int:
    env, learner, recorder, hyper = job.env, job.learner, job.recorder, job.spec.hyper
    network, count = job.spec.network, job.env.count
    put, act, update, mark = learner.put, learner.act, learner.update, recorder.clock.mark
    n_step = NStep(hyper.n_step, hyper.gamma, count) if hyper.n_step > 1 else None
    memory = Replay(
        hyper.capacity,
        count if n_step is None else 1,
        network.observation_shape,
        network.observation_dtype,
        job.dtype,
        job.index_dtype,
    )
    decisions = epsilon_greedy(
        job.streams.explore,
        count,
        network.actions,
        hyper.epsilon_start,
        hyper.epsilon_end,
        hyper.epsilon_steps,
        job.index_dtype,
    )
    recorder.replay_bytes, recorder.replay_rows = memory.nbytes, memory.capacity
    draws = uniform_draws(job.streams.sample, hyper.batch_size)
    episodes = Episodes(count, recorder)
    going_on = np.full(count, hyper.gamma, job.dtype)

    step = acts = 0
    handle = loss = None
    next_train = max(hyper.learning_starts, hyper.batch_size, count * hyper.n_step)
    next_sync = hyper.target_sync
    obs = env.reset()
    recorder.start()
    while recorder.reason is None and step < recorder.max_steps:
        any_greedy, all_greedy, greedy, actions = next(decisions)
        mark(OTHER)
        if any_greedy:
            placed = put(obs)
            mark(TRANSFER)
            (chosen,) = act(*placed)
            mark(ACT)
            acts += 1
            actions = chosen if all_greedy else np.where(greedy, chosen, actions)
        following, reward, terminated, truncated, final_obs = env.step(actions)
        now = mark(ENVIRONMENT)
        if step < TRACED_STEPS:
            recorder.trace(step, actions)
        step += count
        episodes.count(reward)
        discount, some_ended = going_on, final_obs is not following
        if some_ended:
            discount = bootstrap_discount(hyper.gamma, terminated).astype(job.dtype)
            episodes.ended(step, now, terminated, truncated)
        mark(OTHER)
        if n_step is None:
            memory.add(obs, actions, reward, discount, final_obs)
        else:
            for transition in n_step.push(obs, actions, reward, terminated, truncated, final_obs, some_ended):
                memory.add_one(*transition)
        obs = following
        mark(STORE)

        if step >= next_train:
            if not recorder.updates:
                recorder.learns(step, mark(STORE))
            next_train += hyper.train_every
            lr = linear(hyper.learning_rate, hyper.learning_rate_end, hyper.schedule_steps, step)
            for _ in range(hyper.updates_per_train):
                batch = memory.sample(next(draws))
                mark(STORE)
                placed = put(*batch)
                mark(TRANSFER)
                handle = update(placed, lr)
                mark(UPDATE)
            recorder.updates += hyper.updates_per_train
        if step >= next_sync:
            next_sync += hyper.target_sync
            learner.sync_target()
            mark(UPDATE)
        if now >= recorder.next_beat:
            loss = None if handle is None else learner.read(handle)[0]
            now = mark(READ)
            recorder.reads += handle is not None
            recorder.beat(now, step, loss)
            mark(OTHER)

    learner.drain()
    mark(UPDATE)
    loss = None if handle is None else learner.read(handle)[0]
    recorder.reads += handle is not None
    recorder.acts = acts
    recorder.close(mark(READ), step, loss)
    return step


def bootstrap_discount(gamma: float, terminated: np.ndarray) -> np.ndarray:
    """γ · (1 − terminated): an episode cut off by its time limit still has a future."""
    return gamma * (1.0 - terminated)
