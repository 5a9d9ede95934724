"""The forms of an algorithm that are proven: small ones, in which mistakes show, and shapes of studies."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Tuple

from rldyno_rig import hyper
from rldyno_rig.algorithms import LEARNERS, update_rows
from rldyno_rig.algorithms.ensemble import size_of
from rldyno_rig.hyper import CNN
from rldyno_rig.job_files import ProofSubject
from rldyno_rig.shape import Shape
from rldyno_rig.spec import Spec

# Small enough to prove in seconds, and no two axes of the same length, so that a swapped one shows.
MLP_OBSERVATION: Tuple[int, ...] = (5,)
CNN_OBSERVATION: Tuple[int, ...] = (3, 20, 18)
MLP_HIDDEN, CNN_HIDDEN, CNN_CONVOLUTIONS = (24, 16), (16,), ((6, 4, 2), (8, 3, 1))
# Adam's first step is lr · sign(g) for all but the tiniest gradients, so where rounding decides the sign the
# weights differ by as much as the learning rate: take the one that convolutional agents are trained with.
CNN_LEARNING_RATE = 2.5e-4
ACTIONS = 3
ROWS = 32
LOOP_ONLY = frozenset(
    {
        *("learning_rate", "learning_rate_end", "schedule_steps", "environments"),
        *("batch_size", "capacity", "learning_starts", "train_every", "updates_per_train", "target_sync"),
        *("n_step", "epsilon_start", "epsilon_end", "epsilon_steps", "vote", "mask"),
        *("priority_exponent", "priority_beta_start", "priority_beta_end", "priority_eps"),
        *("gae_lambda", "rollout_steps", "normalise_advantage", "epochs", "minibatches"),
    }
)
"""Hyper-parameters that no learner reads: they belong to the loop, or reach the learner as an argument or as
rows of its arrays. Every other one is part of a shape, those of an unknown algorithm too."""


def forms(subject: ProofSubject) -> List[Tuple[str, Spec]]:
    """(label, spec) of all that one proof is about."""
    if subject.shape is None:
        return variants(subject.algorithm, subject.network)
    return [("", shape_spec(subject.algorithm, subject.shape))]


def variants(name: str, network: str) -> List[Tuple[str, Spec]]:
    """(label, spec) of each form of the algorithm that a study may use, with clipping that changes something.

    Forms other than the plain one are proven too, so that every branch of a backend's loss is.
    """
    algorithm = LEARNERS[name]
    sizes: Dict[str, Any] = {"hidden": MLP_HIDDEN}
    observation, dtype = MLP_OBSERVATION, "float32"
    if network == CNN:
        sizes = {"hidden": CNN_HIDDEN, "convolutions": CNN_CONVOLUTIONS, "learning_rate": CNN_LEARNING_RATE}
        observation, dtype = CNN_OBSERVATION, algorithm.image_dtype
    plain = algorithm.hyper(**{"max_grad_norm": 0.1, **sizes, **algorithm.proof})
    others = [variant for variant in algorithm.variants if network in variant.networks]
    forms = [("", plain)]
    forms += [(other.label + ": ", dataclasses.replace(plain, **other.changes)) for other in others]
    return [(label, algorithm.spec(values, observation, dtype, ACTIONS)) for label, values in forms]


def shape_of(spec: Spec) -> Shape:
    """In which a trial runs this."""
    # An agent of one member has the shape that it had before there were ensembles.
    left_out = LOOP_ONLY if size_of(spec.hyper) > 1 else LOOP_ONLY | {"members"}
    values = hyper.to_json(spec.hyper).items()
    return Shape(
        observation_shape=tuple(spec.network.observation_shape),
        observation_dtype=spec.network.observation_dtype,
        actions=spec.network.actions,
        act_rows=spec.hyper.environments,
        update_rows=update_rows(spec),
        updates=LEARNERS[spec.algorithm].at_once(spec),
        hyper=tuple(sorted((name, value) for name, value in values if name not in left_out)),
    )


def shape_spec(algorithm: str, shape: Shape) -> Spec:
    """What is computed in this shape; the loop's own hyper-parameters do not matter."""
    learner = LEARNERS[algorithm]
    values = learner.hyper_from_json(dict(shape.hyper))
    return learner.spec(values, shape.observation_shape, shape.observation_dtype, shape.actions)
