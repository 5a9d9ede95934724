"""The forms of an algorithm that are proven: small ones, in which a mistake shows."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Tuple

from rldyno_rig.algorithms import LEARNERS
from rldyno_rig.hyper import CNN
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
