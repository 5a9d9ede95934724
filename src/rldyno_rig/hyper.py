"""Hyper-parameters: one frozen dataclass per algorithm, each field with its unit and meaning.

No number that shapes the computation lives anywhere else. A study overrides a field by name; a list of
values for a field becomes an axis of the study. `defaults` holds the values that were tuned to solve a task.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Sequence, Tuple, Type, Union

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
    """Environment steps over which scheduled values move from start to end, whatever the budget."""
    convolutions: Convolutions = ()
    """(filters, kernel, stride) of each convolution; none for vector observations."""
    hidden: Tuple[int, ...] = (128, 128)
    """Width of each dense hidden layer."""
    activation: str = "relu"
    """relu or tanh, after every hidden layer."""
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_eps: float = 1e-8
    """Added to the root of the bias-corrected second moment."""
    max_grad_norm: float = 10.0
    """Gradients are scaled by min(1, max_grad_norm / (global norm + clip_eps)); 0 turns clipping off."""
    clip_eps: float = 1e-6
    environments: int = 1
    """Environments stepped side by side in one worker."""


@dataclass(frozen=True)
class Replayed(Common):
    """Fields DQN and Rainbow share."""

    batch_size: int = 64
    """Transitions per update."""
    capacity: int = 100_000
    """Transitions kept in the replay memory."""
    learning_starts: int = 1_000
    """Environment steps before the first update."""
    train_every: int = 4
    """Environment steps between two rounds of updates."""
    updates_per_train: int = 1
    """Updates in one round."""
    target_sync: int = 500
    """Environment steps between two copies of the online network onto the target network."""
    n_step: int = 1
    """Rewards summed before the bootstrap."""


@dataclass(frozen=True)
class Dqn(Replayed):
    """Deep Q-network (Mnih et al. 2015), optionally double (van Hasselt et al. 2016)."""

    epsilon_start: float = 1.0
    epsilon_end: float = 0.02
    epsilon_steps: int = 10_000
    """Environment steps over which ε falls linearly."""
    double: bool = False
    """Choose the next action with the online network, value it with the target network."""
    dueling: bool = False
    """Q = V + A − mean A (Wang et al. 2016)."""
    huber_delta: float = 1.0
    """Width of the quadratic part of the loss."""


@dataclass(frozen=True)
class Rainbow(Replayed):
    """Rainbow (Hessel et al. 2018): double, dueling, noisy, distributional, n-step, prioritised."""

    n_step: int = 3
    """Rewards summed before the bootstrap."""
    atoms: int = 51
    """Support points of the return distribution."""
    v_min: float = 0.0
    """Lowest support point."""
    v_max: float = 200.0
    """Highest support point."""
    noisy_sigma: float = 0.5
    """Initial scale of the factorised noise (σ₀ of Fortunato et al. 2018)."""
    priority_exponent: float = 0.5
    """α: sampling probability ∝ priority^α."""
    priority_beta_start: float = 0.4
    """β of the importance weights at the first update."""
    priority_beta_end: float = 1.0
    """β after `schedule_steps`."""
    priority_eps: float = 1e-6
    """Added to every new priority, so that none is zero."""


@dataclass(frozen=True)
class ActorCritic(Common):
    """Fields A2C and PPO share."""

    gae_lambda: float = 0.95
    """λ of generalised advantage estimation; 1 gives n-step returns."""
    rollout_steps: int = 32
    """Steps taken in each environment before updating."""
    value_coefficient: float = 0.5
    """Weight of the value loss."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy bonus."""
    normalise_advantage: bool = True
    """(A − mean) / (population standard deviation + 1e-8), per minibatch, on the host."""
    shared: bool = False
    """One torso for actor and critic instead of one each."""


@dataclass(frozen=True)
class A2c(ActorCritic):
    """Synchronous advantage actor-critic (Mnih et al. 2016)."""


@dataclass(frozen=True)
class Ppo(ActorCritic):
    """Proximal policy optimisation with the clipped objective (Schulman et al. 2017)."""

    epochs: int = 10
    """Passes over each rollout."""
    minibatches: int = 4
    """Minibatches per pass; environments × rollout_steps must divide by it."""
    clip_range: float = 0.2
    """ε of the clipped objective."""
    value_clip: bool = False
    """Clip the value's change by clip_range too."""


@dataclass(frozen=True)
class Classifier:
    """No agent: a network that learns labels by plain gradient descent, to time networks alone."""

    learning_rate: float = 1e-3
    convolutions: Convolutions = ()
    hidden: Tuple[int, ...] = (512,)
    activation: str = "relu"
    max_grad_norm: float = 0.0
    clip_eps: float = 1e-6


Hyper = Union[Dqn, Rainbow, A2c, Ppo]
AnyHyper = Union[Hyper, Classifier]

ALGORITHMS: Dict[str, Type[Any]] = {"dqn": Dqn, "rainbow": Rainbow, "a2c": A2c, "ppo": Ppo}
# Everything a backend can compute.
LEARNERS: Dict[str, Type[Any]] = {**ALGORITHMS, "classifier": Classifier}

# Values tuned on numpy:eager to solve the task (docs/learning.md has the evidence).
TUNED: Dict[Tuple[str, str], Dict[str, Any]] = {
    ("dqn", "CartPole-v1"): {
        "learning_rate": 1e-3,
        "learning_rate_end": 1e-5,
        "batch_size": 64,
        "hidden": (64, 64),
        "activation": "tanh",
        "train_every": 4,
        "target_sync": 250,
        "n_step": 10,
        "epsilon_steps": 5_000,
        "epsilon_end": 0.01,
        "double": True,
    },
    ("dqn", "MountainCar-v0"): {
        "learning_rate": 1e-3,
        "batch_size": 64,
        "train_every": 1,
        "target_sync": 250,
        "epsilon_end": 0.01,
        "double": True,
        "max_grad_norm": 1.0,
    },
    ("rainbow", "CartPole-v1"): {
        "learning_rate": 2e-3,
        "learning_rate_end": 2e-3,
        "batch_size": 32,
        "hidden": (64, 64),
        "target_sync": 100,
        "capacity": 50_000,
        "n_step": 5,
        "schedule_steps": 80_000,
        "noisy_sigma": 0.3,
        "v_max": 100.0,
    },
    ("rainbow", "MountainCar-v0"): {
        "gamma": 0.98,
        "learning_rate": 2e-3,
        "learning_rate_end": 2e-5,
        "adam_eps": 1.5e-4,
        "batch_size": 32,
        "hidden": (64, 64),
        "activation": "tanh",
        "target_sync": 250,
        "capacity": 50_000,
        "n_step": 3,
        "noisy_sigma": 0.3,
        "v_min": -50.0,
        "v_max": 0.0,
    },
    ("a2c", "CartPole-v1"): {
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
    ("ppo", "CartPole-v1"): {
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
}


def defaults(algorithm: str, environment: str) -> Hyper:
    """The shipped values for a pair; the algorithm's own where the pair was not tuned."""
    return ALGORITHMS[algorithm](**TUNED.get((algorithm, environment), {}))


def to_json(hyper: AnyHyper) -> Dict[str, Any]:
    return dataclasses.asdict(hyper)


def from_json(algorithm: str, values: Mapping[str, Any]) -> Hyper:
    """Rebuild from JSON, whose lists become tuples again; a missing or unknown field is an error."""
    return LEARNERS[algorithm](**{name: _tuples(value) for name, value in values.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, (list, tuple)) else value
