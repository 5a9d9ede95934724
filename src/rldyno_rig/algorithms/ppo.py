"""Proximal policy optimisation: collect a rollout, then several epochs of minibatches over it."""

from __future__ import annotations

from typing import Iterator, Tuple

import numpy as np

from rldyno_rig.algorithms import Job
from rldyno_rig.algorithms.rollout import Collector
from rldyno_rig.batches import PpoBatch
from rldyno_rig.clock import OTHER, READ, STORE, TRANSFER, UPDATE
from rldyno_rig.hyper import Ppo
from rldyno_rig.parts.advantage import normalise
from rldyno_rig.parts.schedules import linear


def train(job: Job) -> int:
    learner, recorder, hyper = job.learner, job.recorder, job.spec.hyper
    put, update, mark = learner.put, learner.update, recorder.clock.mark
    size = hyper.environments * hyper.rollout_steps
    permutation = job.streams.sample.permutation

    collector = Collector(job)
    handle = None
    while recorder.reason is None and collector.step < recorder.max_steps:
        lr = linear(hyper.learning_rate, hyper.learning_rate_end, hyper.schedule_steps, collector.step)
        rollout = collector.collect()
        if rollout is None:
            break
        for _ in range(hyper.epochs):
            for batch in minibatches(rollout, permutation(size), hyper):
                mark(STORE)
                placed = put(*batch)
                mark(TRANSFER)
                handle = update(placed, lr)
                now = mark(UPDATE)
        recorder.updates += hyper.epochs * hyper.minibatches
        if now >= recorder.next_beat:
            loss = learner.read(handle)[0]
            recorder.reads += 1
            recorder.beat(mark(READ), collector.step, loss)
            mark(OTHER)

    learner.drain()
    mark(UPDATE)
    loss = None if handle is None else learner.read(handle)[0]
    recorder.reads += handle is not None
    recorder.acts = collector.acts
    recorder.close(mark(READ), collector.step, loss)
    return collector.step


def minibatches(rollout: PpoBatch, order: np.ndarray, hyper: Ppo) -> Iterator[Tuple[np.ndarray, ...]]:
    """The rollout in this order, cut into minibatches; advantages are normalised within each."""
    rows = len(order) // hyper.minibatches
    shuffled = PpoBatch(*(a.take(order, 0) for a in rollout))
    if hyper.normalise_advantage:
        advantage = normalise(shuffled.advantage.reshape(hyper.minibatches, rows)).ravel()
        shuffled = shuffled._replace(advantage=advantage)
    for start in range(0, len(order), rows):
        yield tuple(a[start : start + rows] for a in shuffled)
