"""Proximal policy optimisation: collect a rollout, then several epochs of minibatches over it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rldyno_rig.algorithms.algorithm import Algorithm, Job, Variant, many_of
from rldyno_rig.algorithms.loop import beat, finish
from rldyno_rig.algorithms.rollout import PROOF, Collector, Rollout
from rldyno_rig.clock import STORE, TRANSFER, UPDATE
from rldyno_rig.hyper import CNN_LARGE, ActorCritic
from rldyno_rig.parts.advantage import normalise
from rldyno_rig.parts.schedules import linear
from rldyno_rig.spec import ACTOR_CRITIC, Head, Spec
from rldyno_rig.synthetic import Draw

AT_ONCE_BYTES = 1 << 20
"""What fits a core's cache. Epochs of images are made one by one: all of a rollout's would take memory."""


@dataclass(frozen=True)
class Ppo(ActorCritic):
    """Proximal policy optimisation with the clipped objective (Schulman et al. 2017)."""

    epochs: int = 10
    """Passes over each rollout. [passes]"""
    minibatches: int = 4
    """Minibatches per pass; environments × rollout_steps must divide by it. [minibatches]"""
    clip_range: float = 0.2
    """ε of the clipped objective."""
    value_clip: bool = False
    """Clip the value's change by clip_range too."""


class PpoBatch(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    log_prob: np.ndarray
    """Of the action under the policy that took it."""
    advantage: np.ndarray
    ret: np.ndarray
    value: np.ndarray
    """Of the observation, under the critic that collected it."""


def synthetic(draw: Draw) -> PpoBatch:
    obs, action = draw.observations(), draw.actions()
    advantage, ret, spread, value = draw.normals()
    # Old log-probabilities around uniform, so that some ratios are clipped and others are not.
    log_prob = (-np.log(draw.spec.network.actions) + 0.3 * spread).astype(draw.dtype)
    return PpoBatch(obs, action, log_prob, advantage, ret, value)


def train(job: Job) -> int:
    hyper: Ppo = job.spec.hyper
    recorder, mark = job.recorder, job.recorder.clock.mark
    updates, together = hyper.epochs * hyper.minibatches, at_once(job.spec)
    put, many = job.learner.put, many_of(job.learner, together)
    update = many or job.learner.update

    rate_at = linear(hyper.learning_rate, hyper.learning_rate_end, hyper.schedule_steps)
    collector = Collector(job)
    handle = None
    while recorder.reason is None and collector.step < recorder.max_steps:
        lr = rate_at(collector.step)
        rollout = collector.collect()
        if rollout is None:
            break
        for _ in range(0, updates, together):
            stacked = minibatches(rollout, shuffled(job.streams.sample, hyper, together), hyper)
            batches = [stacked] if many else list(zip(*stacked))
            mark(STORE)
            for batch in batches:
                placed = put(*batch)
                mark(TRANSFER)
                handle = update(placed, lr)
                now = mark(UPDATE)
        recorder.updates += updates
        if now >= recorder.next_beat:
            beat(job, collector.step, handle)
    return finish(job, collector.step, collector.acts, handle)


def at_once(spec: Spec) -> int:
    """Minibatches that are made at once: those of all epochs where they are small, else those of one."""
    hyper: Ppo = spec.hyper
    pixels = math.prod(spec.network.observation_shape) * np.dtype(spec.network.observation_dtype).itemsize
    epoch_bytes = hyper.environments * hyper.rollout_steps * (pixels + 5 * 4)
    return hyper.minibatches * (hyper.epochs if hyper.epochs * epoch_bytes <= AT_ONCE_BYTES else 1)


def shuffled(random: np.random.Generator, hyper: Ppo, count: int) -> np.ndarray:
    """[count, rows]: so many minibatches of rows; each epoch has every row of a rollout once."""
    size = hyper.environments * hyper.rollout_steps
    orders = [random.permutation(size) for _ in range(count // hyper.minibatches)]
    return np.concatenate(orders).reshape(count, -1)


def minibatches(rollout: Rollout, order: np.ndarray, hyper: Ppo) -> PpoBatch:
    """The rows of a rollout in this order, [count, rows, …]; advantages are normalised in each minibatch."""
    stacked = PpoBatch(*(a.take(order, 0) for a in rollout))
    if hyper.normalise_advantage:
        return stacked._replace(advantage=normalise(stacked.advantage))
    return stacked


ALGORITHM = Algorithm(
    name="ppo",
    title="PPO",
    hyper=Ppo,
    batch=PpoBatch,
    head=lambda hyper: Head(ACTOR_CRITIC, shared=hyper.shared),
    synthetic=synthetic,
    train=train,
    rows=lambda hyper: hyper.environments * hyper.rollout_steps // hyper.minibatches,
    at_once=at_once,
    generic={
        "environments": 8,
        "rollout_steps": 128,
        "minibatches": 4,
        "epochs": 10,
        "learning_rate": 3e-4,
        "learning_rate_end": 3e-4,
        "entropy_coefficient": 0.01,
        "hidden": (64, 64),
        "activation": "tanh",
        "max_grad_norm": 0.5,
    },
    # CleanRL's `ppo_atari.py` (Huang et al. 2022), whose results docs/learning.md quotes. Table 5 of
    # Schulman et al. 2017 has 3 epochs, a value coefficient of 1, and a clip range that falls with the rate.
    atari={
        "environments": 8,
        "rollout_steps": 128,
        "minibatches": 4,
        "epochs": 4,
        "learning_rate": 2.5e-4,
        "learning_rate_end": 0.0,
        "schedule_steps": 10_000_000,
        "clip_range": 0.1,
        "value_clip": True,
        "entropy_coefficient": 0.01,
        "convolutions": CNN_LARGE,
        "hidden": (512,),
        "shared": True,
        "adam_eps": 1e-5,
        "max_grad_norm": 0.5,
    },
    tuned={
        "CartPole-v1": {
            "environments": 8,
            "rollout_steps": 32,
            "learning_rate": 2e-3,
            "learning_rate_end": 0.0,
            "schedule_steps": 150_000,
            "gae_lambda": 0.9,
            "gamma": 0.98,
            "epochs": 10,
            "minibatches": 4,
            "hidden": (64, 64),
            "activation": "tanh",
            "max_grad_norm": 0.5,
        },
    },
    proof=PROOF,
    variants=(
        Variant("shared tanh", {"shared": True, "activation": "tanh"}),
        Variant("value clip", {"value_clip": True, "max_grad_norm": 0.0}),
    ),
)
