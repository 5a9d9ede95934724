"""What NumPy and Chainer share: projection; clipping, Adam and descent on flat NumPy vectors, in place."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Protocol

import numpy as np

from rldyno_rig.reference.losses import support
from rldyno_rig.reference.optimiser import adam_scalars
from rldyno_rig.spec import Spec


class Model(Protocol):
    """What a backend's own model must have."""

    hyper: Any
    scratch: np.ndarray
    """As long as the gradient, for anything."""


def project(spec: Spec, reward: np.ndarray, discount: np.ndarray, p: np.ndarray) -> np.ndarray:
    """reference.losses.project, but each moved atom touches its two neighbours only.

    51 atoms: 0.14 of the time of the sum over all pairs of atoms with 32 rows, 0.03 with 128.
    """
    hyper, atoms = spec.hyper, spec.hyper.atoms
    z = support(spec).astype(p.dtype)
    spacing = (hyper.v_max - hyper.v_min) / (atoms - 1)
    moved = np.minimum(np.maximum(reward[:, None] + discount[:, None] * z, hyper.v_min), hyper.v_max)
    position = (moved - hyper.v_min) / spacing
    below = np.minimum(np.floor(position), atoms - 2)
    above = p * (position - below)
    place = (below.astype(np.int64) + atoms * np.arange(len(p))[:, None]).ravel()
    spread = np.bincount(place, (p - above).ravel(), p.size)
    spread[1:] += np.bincount(place, above.ravel(), p.size)[:-1]
    return spread.reshape(p.shape).astype(p.dtype)


def clip(model: Model, gradient: np.ndarray) -> None:
    """g · min(1, c / (‖g‖ + clip_eps)); unchanged when c = 0."""
    hyper = model.hyper
    if hyper.max_grad_norm:
        norm = math.sqrt(float(np.dot(gradient, gradient)))
        if norm + hyper.clip_eps > hyper.max_grad_norm:
            gradient *= hyper.max_grad_norm / (norm + hyper.clip_eps)


def adam(
    model: Model, flat: np.ndarray, m: np.ndarray, v: np.ndarray, gradient: np.ndarray, t: int, lr: float
) -> None:
    """reference.optimiser.adam with its constants in three scalars.

    `m` and `v` are kept without their factors (1 − β), which saves two passes over memory.
    """
    hyper, scratch = model.hyper, model.scratch
    step, root = adam_scalars(hyper, t, lr)
    root *= math.sqrt(1 - hyper.adam_beta2)
    m *= hyper.adam_beta1
    m += gradient
    np.multiply(gradient, gradient, out=scratch)
    v *= hyper.adam_beta2
    v += scratch
    np.sqrt(v, out=scratch)
    scratch += hyper.adam_eps / root
    np.divide(m, scratch, out=scratch)
    scratch *= step * (1 - hyper.adam_beta1) / root
    flat -= scratch


def sgd(
    model: Model, flat: np.ndarray, m: np.ndarray, v: np.ndarray, gradient: np.ndarray, t: int, lr: float
) -> None:
    """p ← p − lr · g."""
    np.multiply(gradient, lr, out=model.scratch)
    flat -= model.scratch


OPTIMISERS: Dict[str, Callable[..., None]] = {"adam": adam, "sgd": sgd}
