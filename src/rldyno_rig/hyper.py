"""Hyper-parameters: what those of several algorithms share, each field with its meaning and its [unit].

An algorithm's own fields, and the values that were tuned to solve a task, are in its file in `algorithms/`.
No number that shapes the computation lives anywhere else. A study overrides a field by name; a list of values
for a field becomes an axis of the study.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Dict, Sequence, Tuple

# Convolutions are (filters, kernel, stride) triples, valid padding.
Convolutions = Tuple[Tuple[int, int, int], ...]

CNN_SMALL: Convolutions = ((16, 8, 4), (32, 4, 2))
CNN_LARGE: Convolutions = ((32, 8, 4), (64, 4, 2), (64, 3, 1))

MLP, CNN = "mlp", "cnn"
NETWORKS = (MLP, CNN)


def network_kind(convolutions: Sequence[Any]) -> str:
    """Proofs, results and claims know two kinds of networks: those with convolutions and those without."""
    return CNN if convolutions else MLP


@dataclass(frozen=True)
class Common:
    """Fields every algorithm has."""

    gamma: float = 0.99
    """Discount per environment step."""
    learning_rate: float = 1e-3
    """Adam step size at the first update."""
    learning_rate_end: float = 1e-3
    """Adam step size after `schedule_steps`; linear in between."""
    schedule_steps: int = 100_000
    """Environment steps over which scheduled values move from start to end, whatever the budget. [steps]"""
    convolutions: Convolutions = ()
    """(filters, kernel, stride) of each convolution; none for vector observations. [filters, pixels]"""
    hidden: Tuple[int, ...] = (128, 128)
    """Width of each dense hidden layer. [units]"""
    activation: str = "relu"
    """relu or tanh, after every hidden layer."""
    adam_beta1: float = 0.9
    """Decay per update of the mean gradient."""
    adam_beta2: float = 0.999
    """Decay per update of the mean squared gradient."""
    adam_eps: float = 1e-8
    """Added to the root of the bias-corrected second moment."""
    max_grad_norm: float = 10.0
    """Gradients are scaled by min(1, max_grad_norm / (global norm + clip_eps)); 0 turns clipping off."""
    clip_eps: float = 1e-6
    """Added to the norm by which gradients are divided."""
    environments: int = 1
    """Environments stepped side by side in one worker. [environments]"""


@dataclass(frozen=True)
class Replayed(Common):
    """Fields of algorithms that learn from a replay memory."""

    batch_size: int = 64
    """Transitions per update. [transitions]"""
    capacity: int = 100_000
    """Transitions kept in the replay memory. [transitions]"""
    learning_starts: int = 1_000
    """Environment steps before the first update. [steps]"""
    train_every: int = 4
    """Environment steps between two rounds of updates. [steps]"""
    updates_per_train: int = 1
    """Updates in one round. [updates]"""
    target_sync: int = 500
    """Environment steps between two copies of the online network onto the target network. [steps]"""
    n_step: int = 1
    """Rewards summed before the bootstrap. [steps]"""


@dataclass(frozen=True)
class ActorCritic(Common):
    """Fields of algorithms that learn from rollouts with an actor and a critic."""

    gae_lambda: float = 0.95
    """λ of generalised advantage estimation; 1 gives n-step returns."""
    rollout_steps: int = 32
    """Steps taken in each environment before updating. [steps]"""
    value_coefficient: float = 0.5
    """Weight of the value loss."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy bonus."""
    normalise_advantage: bool = True
    """(A − mean) / (population standard deviation + 1e-8), per minibatch, on the host."""
    shared: bool = False
    """One torso for actor and critic instead of one each."""


def to_json(values: Any) -> Dict[str, Any]:
    """Fields are scalars and tuples: the deep copies of `asdict` would take five times as long."""
    return {entry.name: getattr(values, entry.name) for entry in dataclasses.fields(values)}


def tuples(value: Any) -> Any:
    """JSON's lists as the tuples they were."""
    return tuple(tuples(item) for item in value) if isinstance(value, (list, tuple)) else value
