"""No agent: a network that learns labels by plain gradient descent. `rldyno nets` times networks with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Tuple

import numpy as np

from rldyno_rig.algorithms.algorithm import Algorithm, Variant
from rldyno_rig.hyper import NETWORKS, Convolutions
from rldyno_rig.spec import SGD, Head, Q
from rldyno_rig.synthetic import Draw

PAPER_ROWS = 128
"""stooke2017 trains on this many images at once."""


@dataclass(frozen=True)
class Classifier:
    learning_rate: float = 1e-3
    convolutions: Convolutions = ()
    hidden: Tuple[int, ...] = (512,)
    activation: str = "relu"
    max_grad_norm: float = 0.0
    clip_eps: float = 1e-6


class ClassifierBatch(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    """The label."""


def synthetic(draw: Draw) -> ClassifierBatch:
    return ClassifierBatch(draw.observations(), draw.actions())


ALGORITHM = Algorithm(
    name="classifier",
    title="classifier",
    hyper=Classifier,
    batch=ClassifierBatch,
    head=lambda hyper: Head(Q),
    synthetic=synthetic,
    rows=lambda hyper: PAPER_ROWS,
    optimiser=SGD,
    image_dtype="float32",
    variants=(Variant("unclipped", {"max_grad_norm": 0.0}, networks=NETWORKS),),
)
