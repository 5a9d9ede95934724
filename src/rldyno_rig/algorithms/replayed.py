"""What algorithms that learn from a replay memory share."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

import numpy as np

from rldyno_rig.algorithms.algorithm import Job
from rldyno_rig.envs.stacked import StackedEnvironment
from rldyno_rig.hyper import Replayed
from rldyno_rig.parts.episodes import Count, Episodes
from rldyno_rig.parts.frames import PLACE, FrameReplay, Frames, lasting
from rldyno_rig.parts.n_step import Push, n_steps
from rldyno_rig.parts.native import library
from rldyno_rig.parts.native_replay import NativeReplay
from rldyno_rig.parts.replay import Memory, Replay, Store


def memory_of(
    job: Job, first_obs: np.ndarray, rows_at_once: int = 1
) -> Tuple[Memory, Optional[Store], Episodes]:
    """An empty memory of the size that the trial's hyper-parameters give it, and what stores a step in it.

    To store a step counts its rewards for the episodes under way. None: the environment stores its steps.
    """
    hyper: Replayed = job.spec.hyper
    network, native = job.spec.network, library()
    kinds = (network.observation_shape, network.observation_dtype, job.dtype, job.index_dtype)
    if isinstance(job.env, StackedEnvironment):
        return _memory_of_frames(job, first_obs, rows_at_once)
    if native is not None and job.env.count == 1:
        memory = NativeReplay(native, hyper.n_step, hyper.gamma, hyper.capacity, *kinds)
        episodes = Episodes(1, job.recorder, memory.returned, memory.flush)
        store = None if job.env.keep(memory.journal) else memory.storing(first_obs)
        return memory, store, episodes
    replay = Replay(hyper.capacity, rows_at_once, *kinds)
    episodes = Episodes.of(job.env, job.recorder)
    return replay, storing(job, replay, first_obs, episodes.count), episodes


def _memory_of_frames(job: Job, first_obs: np.ndarray, rows_at_once: int) -> Tuple[Memory, Store, Episodes]:
    """The same with each frame stored once: the transitions hold where their frames are."""
    hyper: Replayed = job.spec.hyper
    count, shape = job.env.count, job.spec.network.observation_shape
    replay = Replay(hyper.capacity, rows_at_once, shape[:1], PLACE, job.dtype, job.index_dtype)
    frames = Frames(lasting(hyper.capacity, count, shape[0], hyper.n_step), count, shape)
    episodes = Episodes.of(job.env, job.recorder)
    places = storing(job, replay, frames.begin(first_obs), episodes.count)
    return FrameReplay(replay, frames), frames.storing(places), episodes


def first_update(hyper: Replayed, environments: int) -> int:
    """The environment step from which the memory holds enough for a batch."""
    return max(hyper.learning_starts, hyper.batch_size, environments * hyper.n_step)


def storing(job: Job, memory: Replay, first_obs: np.ndarray, count: Count) -> Store:
    """How each step goes into the memory: the fastest way for this number of environments and of steps."""
    hyper: Replayed = job.spec.hyper
    if memory.rows_at_once > 1:
        return _store_all(job, memory, first_obs, count)
    windows = [n_steps(hyper.n_step, hyper.gamma, memory.add_one) for _ in first_obs]
    if len(windows) == 1:
        return _store_one(windows[0], first_obs, count)
    return _store_each(windows, first_obs, count)


def _store_one(push: Push, first_obs: np.ndarray, count: Count) -> Store:
    before = first_obs.tobytes()

    def store(
        action: np.ndarray,
        obs: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        final_obs: np.ndarray,
    ) -> None:
        nonlocal before
        count(reward)
        after = final_obs.tobytes()
        if final_obs is obs:
            push(before, action.item(), reward.item(), after, False, False)
            before = after
        else:
            push(before, action.item(), reward.item(), after, terminated.item(), truncated.item())
            before = obs.tobytes()

    return store


def _store_each(windows: Sequence[Push], first_obs: np.ndarray, count: Count) -> Store:
    before = [row.tobytes() for row in first_obs]

    def store(
        action: np.ndarray,
        obs: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        final_obs: np.ndarray,
    ) -> None:
        nonlocal before
        count(reward)
        after = [row.tobytes() for row in final_obs]
        ends = terminated.tolist(), truncated.tolist()
        for push, *step in zip(windows, before, action.tolist(), reward.tolist(), after, *ends):
            push(*step)
        before = after if final_obs is obs else [row.tobytes() for row in obs]

    return store


def _store_all(job: Job, memory: Replay, first_obs: np.ndarray, count: Count) -> Store:
    gamma, before = job.spec.hyper.gamma, first_obs
    going_on = np.full(job.env.count, gamma, job.dtype)

    def store(
        action: np.ndarray,
        obs: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        final_obs: np.ndarray,
    ) -> None:
        nonlocal before
        count(reward)
        # An episode cut off by its time limit still has a future: γ · (1 − terminated).
        discount = going_on if final_obs is obs else gamma * (1.0 - terminated)
        memory.add(before, action, reward, discount, final_obs)
        before = obs

    return store
