"""What a learner computes: network, loss and optimiser, as one frozen value. Backends add nothing to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, Tuple, Type

import numpy as np

from rldyno_rig.hyper import Convolutions

Params = Dict[str, np.ndarray]

# How the numbers of a precision are stored. tf32: products on a GPU round their float32 factors to 10 bits.
STORED = {"float64": "float64", "float32": "float32", "tf32": "float32"}


Q, ACTOR_CRITIC = "q", "actor_critic"
ADAM, SGD = "adam", "sgd"
SINGLE, CATEGORICAL, QUANTILES = "single", "categorical", "quantiles"


@dataclass(frozen=True)
class Head:
    """What an algorithm decides about its network; the fields of `Network` say what they mean."""

    kind: str
    atoms: int = 1
    support: str = SINGLE
    dueling: bool = False
    noisy: bool = False
    shared: bool = False

    def __post_init__(self) -> None:
        if (self.atoms > 1) != (self.support != SINGLE):
            raise ValueError("a head with support {!r} and atoms = {}".format(self.support, self.atoms))


@dataclass(frozen=True)
class Network:
    """Torsos and heads. Observations are `[batch, *observation_shape]`; images are channel-first."""

    observation_shape: Tuple[int, ...]
    observation_dtype: str
    """float32, or uint8 for images that are divided by 255 on the device."""
    actions: int
    convolutions: Convolutions
    hidden: Tuple[int, ...]
    activation: str
    head: str
    """q: one value per action; actor_critic: a logit per action and one state value."""
    atoms: int = 1
    """Outputs per action: more than 1 describe the distribution of the return."""
    support: str = SINGLE
    """What the outputs of an action are, and so how its value follows from them.

    single: the value itself; categorical: logits, the value is Σ z · softmax(logits) over the fixed points z
    from `v_min` to `v_max`; quantiles: points of equal probability, the value is their mean.
    """
    dueling: bool = False
    noisy: bool = False
    """Dense layers of the heads and hidden layers carry factorised noise."""
    shared: bool = False
    """actor_critic only: one torso for both heads."""

    @property
    def samples(self) -> bool:
        """`act` samples a policy and consumes Gumbel noise, instead of taking the best action."""
        return self.head == ACTOR_CRITIC

    @property
    def act_returns(self) -> Tuple[str, ...]:
        """What `act` returns, one row per observation."""
        return ("action", "log_prob", "value") if self.samples else ("action",)

    @property
    def torsos(self) -> Tuple[str, ...]:
        if self.head == Q or self.shared:
            return ("torso",)
        return ("actor", "critic")

    @property
    def heads(self) -> Tuple[Tuple[str, str, int], ...]:
        """(name, torso that feeds it, outputs) of each head, in canonical order."""
        if self.head == ACTOR_CRITIC:
            actor, critic = ("torso", "torso") if self.shared else ("actor", "critic")
            return (("policy", actor, self.actions), ("value", critic, 1))
        if self.dueling:
            return (("value", "torso", self.atoms), ("advantage", "torso", self.actions * self.atoms))
        return (("q", "torso", self.actions * self.atoms),)


@dataclass(frozen=True)
class Spec:
    """`Algorithm.spec` makes it."""

    algorithm: str
    network: Network
    hyper: Any
    """Of the algorithm's own class."""
    optimiser: str
    """adam, or sgd: p ← p − lr · g, its moments stay zero."""
    batch: Type[Any]
    """NamedTuple of what one update consumes."""


def convolution_outputs(network: Network) -> Tuple[Tuple[int, int, int], ...]:
    """(channels, height, width) after each convolution, valid padding."""
    shapes = []
    if network.convolutions:
        _, height, width = network.observation_shape
        for filters, kernel, stride in network.convolutions:
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            shapes.append((filters, height, width))
    return tuple(shapes)


def parameter_shapes(network: Network) -> Dict[str, Tuple[int, ...]]:
    """Canonical name → shape, in canonical order. Dense weights are [in, out], convolutions HWIO.

    The features after the last convolution are flattened channel-first (C, H, W).
    Noisy dense layers have `w`, `b` (means) and `w_sigma`, `b_sigma`.
    """
    shapes: Dict[str, Tuple[int, ...]] = {}
    width = math.prod(network.observation_shape)
    for torso in network.torsos:
        channels = network.observation_shape[0]
        features = width
        for index, (filters, kernel, _) in enumerate(network.convolutions):
            shapes["{}.conv{}.w".format(torso, index)] = (kernel, kernel, channels, filters)
            shapes["{}.conv{}.b".format(torso, index)] = (filters,)
            channels = filters
        if network.convolutions:
            features = math.prod(convolution_outputs(network)[-1])
        for index, outputs in enumerate(network.hidden):
            shapes.update(_dense("{}.dense{}".format(torso, index), features, outputs, network.noisy))
            features = outputs
    features = network.hidden[-1] if network.hidden else features
    for name, _, outputs in network.heads:
        shapes.update(_dense(name, features, outputs, network.noisy))
    return shapes


def noise_shapes(network: Network) -> Dict[str, Tuple[int, ...]]:
    """Canonical name → shape of the factorised noise vectors, `<layer>.in` and `<layer>.out`."""
    shapes: Dict[str, Tuple[int, ...]] = {}
    if network.noisy:
        for name, shape in parameter_shapes(network).items():
            if name.endswith(".w_sigma"):
                layer = name[: -len(".w_sigma")]
                shapes[layer + ".in"] = (shape[0],)
                shapes[layer + ".out"] = (shape[1],)
    return shapes


def noise_size(network: Network) -> int:
    """Length of the flat noise vector: the vectors of `noise_shapes`, one after the other."""
    return sum(size for (size,) in noise_shapes(network).values())


def _dense(name: str, inputs: int, outputs: int, noisy: bool) -> Dict[str, Tuple[int, ...]]:
    shapes: Dict[str, Tuple[int, ...]] = {name + ".w": (inputs, outputs), name + ".b": (outputs,)}
    if noisy:
        shapes.update({name + ".w_sigma": (inputs, outputs), name + ".b_sigma": (outputs,)})
    return shapes


def draw_params(spec: Spec, rng: np.random.Generator) -> Params:
    """Initial weights in float64: normal of variance gain / fan-in, zero biases; noisy σ = σ₀ / √fan-in.

    gain is 2 after relu, 1 after tanh; the last layers use 1, the policy head 0.01² so that every policy
    starts near uniform.
    """
    network = spec.network
    heads = {name for name, _, _ in network.heads}
    params: Params = {}
    for name, shape in parameter_shapes(network).items():
        layer, _, kind = name.rpartition(".")
        fan_in = math.prod(shape[:-1])
        if kind == "w":
            gain = 1.0 if layer in heads or network.activation == "tanh" else 2.0
            scale = 0.01 if layer == "policy" else 1.0
            params[name] = rng.standard_normal(shape) * (scale * math.sqrt(gain / fan_in))
            noisy_scale = 1.0 / math.sqrt(fan_in)
        elif kind == "b":
            params[name] = np.zeros(shape)
        else:
            params[name] = np.full(shape, spec.hyper.noisy_sigma * noisy_scale)
    return params
