"""Synchronous advantage actor-critic: one update on each rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rldyno_rig.algorithms.algorithm import Algorithm, Job, Variant
from rldyno_rig.algorithms.loop import beat, finish
from rldyno_rig.algorithms.rollout import PROOF, Collector
from rldyno_rig.clock import STORE, TRANSFER, UPDATE
from rldyno_rig.hyper import CNN_LARGE, ActorCritic
from rldyno_rig.parts.advantage import normalise
from rldyno_rig.parts.schedules import linear
from rldyno_rig.spec import ACTOR_CRITIC, Head
from rldyno_rig.synthetic import Draw


@dataclass(frozen=True)
class A2c(ActorCritic):
    """Synchronous advantage actor-critic (Mnih et al. 2016)."""


class A2cBatch(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    advantage: np.ndarray
    ret: np.ndarray
    """Target of the value: advantage before normalisation + value."""


def synthetic(draw: Draw) -> A2cBatch:
    obs, action = draw.observations(), draw.actions()
    advantage, ret, _, _ = draw.normals()
    return A2cBatch(obs, action, advantage, ret)


def train(job: Job) -> int:
    hyper: A2c = job.spec.hyper
    learner, recorder, mark = job.learner, job.recorder, job.recorder.clock.mark

    rate_at = linear(hyper.learning_rate, hyper.learning_rate_end, hyper.schedule_steps)
    collector = Collector(job)
    handle = None
    while recorder.reason is None and collector.step < recorder.max_steps:
        lr = rate_at(collector.step)
        rollout = collector.collect()
        if rollout is None:
            break
        advantage = normalise(rollout.advantage) if hyper.normalise_advantage else rollout.advantage
        batch = A2cBatch(rollout.obs, rollout.action, advantage, rollout.ret)
        mark(STORE)
        placed = learner.put(*batch)
        mark(TRANSFER)
        handle = learner.update(placed, lr)
        now = mark(UPDATE)
        recorder.updates += 1
        if now >= recorder.next_beat:
            beat(job, collector.step, handle)
    return finish(job, collector.step, collector.acts, handle)


ALGORITHM = Algorithm(
    name="a2c",
    title="A2C",
    hyper=A2c,
    batch=A2cBatch,
    head=lambda hyper: Head(ACTOR_CRITIC, shared=hyper.shared),
    synthetic=synthetic,
    train=train,
    rows=lambda hyper: hyper.environments * hyper.rollout_steps,
    generic={
        "environments": 8,
        "rollout_steps": 16,
        "learning_rate": 7e-4,
        "learning_rate_end": 7e-4,
        "entropy_coefficient": 0.01,
        "hidden": (64, 64),
        "activation": "tanh",
        "max_grad_norm": 0.5,
        "normalise_advantage": False,
    },
    # A3C (Mnih et al. 2016) as OpenAI Baselines' A2C has it (Dhariwal et al. 2017): 16 games, 5 steps. They
    # use RMSProp, here it is Adam, with the same rate and epsilon.
    atari={
        "environments": 16,
        "rollout_steps": 5,
        "learning_rate": 7e-4,
        "learning_rate_end": 0.0,
        "schedule_steps": 10_000_000,
        "gae_lambda": 1.0,
        "entropy_coefficient": 0.01,
        "convolutions": CNN_LARGE,
        "hidden": (512,),
        "shared": True,
        "adam_eps": 1e-5,
        "max_grad_norm": 0.5,
        "normalise_advantage": False,
    },
    tuned={
        "CartPole-v1": {
            "environments": 8,
            "rollout_steps": 5,
            "learning_rate": 1e-3,
            "learning_rate_end": 0.0,
            "schedule_steps": 300_000,
            "hidden": (64, 64),
            "activation": "tanh",
            "max_grad_norm": 0.5,
            "normalise_advantage": False,
        },
    },
    proof=PROOF,
    variants=(Variant("shared tanh", {"shared": True, "activation": "tanh"}),),
)
