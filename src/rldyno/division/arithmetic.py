"""How much arithmetic one environment step asks for, whatever the loop around it."""

from __future__ import annotations

from rldyno.limits.floor import ACT, UPDATE, flops
from rldyno_rig.spec import Spec


def step_flops(spec: Spec) -> float:
    """FLOPs of acting once and of the share of updates that falls on one environment step.

    Products of the network alone, as `limits.floor` counts them; environment, noise and Adam are not in it.
    """
    return flops(spec, 1, ACT) + learned_rows(spec) * flops(spec, 1, UPDATE)


def learned_rows(spec: Spec) -> float:
    """Rows of updates per environment step: epochs, 1, or batches from the memory.

    One round of updates at most follows a step of all environments.
    """
    hyper = spec.hyper
    if spec.algorithm == "dqn":
        every = max(hyper.train_every, hyper.environments)
        return float(hyper.updates_per_train * hyper.batch_size / every)
    return float(getattr(hyper, "epochs", 1))
