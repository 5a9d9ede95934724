"""Synchronous advantage actor-critic: one update on each rollout."""

from __future__ import annotations

from rldyno_rig.algorithms import Job
from rldyno_rig.algorithms.rollout import Collector
from rldyno_rig.batches import A2cBatch
from rldyno_rig.clock import OTHER, READ, STORE, TRANSFER, UPDATE
from rldyno_rig.parts.advantage import normalise
from rldyno_rig.parts.schedules import linear


def train(job: Job) -> int:
    learner, recorder, hyper = job.learner, job.recorder, job.spec.hyper
    mark = recorder.clock.mark

    collector = Collector(job)
    handle = None
    while recorder.reason is None and collector.step < recorder.max_steps:
        lr = linear(hyper.learning_rate, hyper.learning_rate_end, hyper.schedule_steps, collector.step)
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
