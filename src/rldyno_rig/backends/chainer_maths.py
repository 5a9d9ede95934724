"""What the learner in Chainer computes: network and losses. Its optimisers are those of `in_place`."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import chainer
import chainer.functions as F  # noqa: N812 (its community writes it so)
import numpy as np

from rldyno_rig.backends.in_place import project
from rldyno_rig.layout import Layout, outputs_first, torso_layers
from rldyno_rig.reference import losses
from rldyno_rig.reference import network as reference
from rldyno_rig.spec import CATEGORICAL, QUANTILES, SINGLE, Params, Spec, noise_shapes

Outputs = Dict[str, Any]
Batch = Tuple[np.ndarray, ...]
Loss = Tuple[Any, Optional[np.ndarray]]  # the loss, and the priorities where the algorithm has them


class Model:
    """What the functions below need to know of a spec, computed once, and memory for the gradient."""

    def __init__(self, spec: Spec, dtype: str) -> None:
        network = spec.network
        self.spec, self.network, self.dtype = spec, network, np.dtype(dtype)
        self.hyper = spec.hyper
        self.loss = LOSSES[spec.algorithm]
        self.expected = EXPECTED[network.support]
        self.activate = {"relu": F.relu, "tanh": F.tanh}[network.activation]
        self.torsos = tuple((torso, *torso_layers(network, torso)) for torso in network.torsos)
        self.head_names = [name for name, _, _ in network.heads]
        self.noise_sizes = [size for (size,) in noise_shapes(network).values()]
        self.noisy_layers = [name.rpartition(".")[0] for name in noise_shapes(network)][::2]
        self.layout = Layout(network, outputs_first)
        self.gradient = np.zeros(self.layout.size, dtype)
        self.gradients = self.layout.views(self.gradient)
        self.scratch = np.empty_like(self.gradient)
        self.z = losses.support(spec).astype(dtype) if network.support == CATEGORICAL else np.zeros(0)


class Network(chainer.Chain):
    """The weights of a network, and its layers define-by-run. Parameters share the memory of the views."""

    def __init__(self, model: Model, views: Params) -> None:
        super().__init__()
        self.model = model
        self.tensors = {name: chainer.Parameter(view) for name, view in views.items()}
        with self.init_scope():
            for name, parameter in self.tensors.items():
                setattr(self, name, parameter)

    def forward(self, obs: Any, *noise: Any) -> Tuple[Any, ...]:
        return layers(self.model, self.tensors, obs, noise)


class StaticNetwork(Network):
    @chainer.static_graph
    def forward(self, obs: Any, *noise: Any) -> Tuple[Any, ...]:
        # As arrays: a schedule would compute gradients for its input variables.
        return super().forward(obs.array, *[array.array for array in noise])


def forward(model: Model, weights: Network, obs: np.ndarray, noise: Optional[np.ndarray] = None) -> Outputs:
    """Raw outputs of the heads."""
    x = obs.astype(model.dtype, copy=False)
    if obs.dtype == np.uint8:
        x = x / model.dtype.type(255)
    return dict(zip(model.head_names, weights.forward(x, *split_noise(model, noise))))


def layers(model: Model, tensors: Outputs, obs: Any, noise: Tuple[Any, ...]) -> Tuple[Any, ...]:
    """The outputs of the heads; `noise` holds two arrays, for weights and biases, for each noisy layer."""
    noises = dict(zip(model.noisy_layers, zip(noise[::2], noise[1::2])))
    features = {}
    for torso, convolutions, denses in model.torsos:
        x = obs
        for name, stride in convolutions:
            x = convolve(model, name, tensors, x, stride)
        if convolutions:
            x = F.reshape(x, (len(x), -1))
        for name in denses:
            x = model.activate(dense(model, name, tensors, x, noises))
        features[torso] = x
    heads = model.network.heads
    return tuple([dense(model, name, tensors, features[torso], noises) for name, torso, _ in heads])


def convolve(model: Model, name: str, weights: Outputs, x: Any, stride: int) -> Any:
    return model.activate(F.convolution_2d(x, weights[name + ".w"], weights[name + ".b"], stride))


def dense(model: Model, name: str, weights: Outputs, x: Any, noises: Dict[str, Tuple[Any, Any]]) -> Any:
    """y = x·W + b; noisy: W + σ_W ∘ (ε_in ⊗ ε_out), b + σ_b ∘ ε_out."""
    w, b = weights[name + ".w"], weights[name + ".b"]
    if noises:
        of_weights, of_biases = noises[name]
        w = w + weights[name + ".w_sigma"] * of_weights
        b = b + weights[name + ".b_sigma"] * of_biases
    return F.linear(x, w, b)


def split_noise(model: Model, noise: Any) -> List[np.ndarray]:
    """One flat vector → ε_out ⊗ ε_in and ε_out of each noisy layer; none of a network without noise.

    Whole, because a static schedule writes into the views that it makes of its inputs.
    """
    vectors, start = [], 0
    for size in model.noise_sizes:
        vectors.append(noise[start : start + size])
        start += size
    pairs = zip(vectors[::2], vectors[1::2])
    return [array for e_in, e_out in pairs for array in (np.outer(e_out, e_in), e_out)]


def q_values(model: Model, weights: Network, obs: np.ndarray, noise: Optional[np.ndarray] = None) -> Any:
    """[batch, actions], or [batch, actions, atoms] of a distribution. Dueling: Q = V + A − mean A."""
    network = model.network
    outputs = forward(model, weights, obs, noise)
    shape = (-1, network.actions) + ((network.atoms,) if network.atoms > 1 else ())
    if not network.dueling:
        return F.reshape(outputs["q"], shape) if network.atoms > 1 else outputs["q"]
    value, advantage = outputs["value"], outputs["advantage"]
    if network.atoms > 1:
        value, advantage = F.expand_dims(value, 1), F.reshape(advantage, shape)
    return value + advantage - F.mean(advantage, axis=1, keepdims=True)


def fixed_q_values(
    model: Model, weights: Network, obs: np.ndarray, noise: Optional[np.ndarray] = None
) -> np.ndarray:
    """`q_values` without gradient: what follows the network is NumPy."""
    with chainer.no_backprop_mode():
        outputs = forward(model, weights, obs, noise)
    return reference.q_values(model.network, {name: output.array for name, output in outputs.items()})


def single(model: Model, q: np.ndarray) -> np.ndarray:
    return q


def categorical(model: Model, logits: np.ndarray) -> np.ndarray:
    """Σ z · softmax(logits)."""
    means: np.ndarray = losses.softmax(logits) @ model.z
    return means


def quantiles(model: Model, points: np.ndarray) -> np.ndarray:
    """Their mean."""
    means: np.ndarray = points.mean(2)
    return means


EXPECTED: Dict[str, Callable[..., np.ndarray]] = {
    SINGLE: single,
    CATEGORICAL: categorical,
    QUANTILES: quantiles,
}
"""Support of the head → value of each action, [batch, actions], from `fixed_q_values`."""


def policy_and_value(model: Model, weights: Network, obs: np.ndarray) -> Tuple[Any, Any, Any]:
    """(log-probability of every action, state value [batch, 1], logits)."""
    outputs = forward(model, weights, obs)
    return F.log_softmax(outputs["policy"]), outputs["value"], outputs["policy"]


def action_values(
    model: Model, weights: Network, obs: np.ndarray, noise: Optional[np.ndarray] = None
) -> np.ndarray:
    """[batch, actions]."""
    return model.expected(model, fixed_q_values(model, weights, obs, noise))


def choose(model: Model, weights: Network, obs: np.ndarray, noise: Optional[np.ndarray]) -> Batch:
    """What `act` returns: the greedy action, or a sampled one with its log-probability and the value."""
    if not model.network.samples:
        return (action_values(model, weights, obs, noise).argmax(1),)
    outputs = forward(model, weights, obs)
    # In NumPy from here: 0.85 of the time of Chainer's functions on one row, 0.70 in static mode.
    logits = outputs["policy"].array
    action = (logits + noise).argmax(1)
    log_p = losses.log_softmax(logits)
    return action, log_p[np.arange(len(action)), action], outputs["value"].array[:, 0]


def dqn_loss(model: Model, weights: Network, target: Network, batch: Batch) -> Loss:
    obs, action, reward, discount, next_obs = batch
    best = fixed_q_values(model, target, next_obs)
    if model.hyper.double:
        chosen = fixed_q_values(model, weights, next_obs).argmax(1)
        best = best[np.arange(len(chosen)), chosen]
    else:
        best = best.max(1)
    goal = reward + discount * best
    q = pick(q_values(model, weights, obs), action)
    errors = F.huber_loss(q, goal, model.hyper.huber_delta, reduce="no")
    return F.sum(errors) / len(goal), None


def rainbow_loss(model: Model, weights: Network, target: Network, batch: Batch) -> Loss:
    obs, action, reward, discount, next_obs, weight, noise = batch
    on_obs, on_next, on_target = noise
    rows = np.arange(len(action))
    chosen = model.expected(model, fixed_q_values(model, weights, next_obs, on_next)).argmax(1)
    p_next = losses.softmax(fixed_q_values(model, target, next_obs, on_target)[rows, chosen])
    goal = project(model.spec, reward, discount, p_next)
    log_p = F.log_softmax(pick(q_values(model, weights, obs, on_obs), action))
    cross_entropy = -F.sum(log_p * goal, axis=1)
    return F.sum(cross_entropy * (weight / len(rows))), cross_entropy.array


def a2c_loss(model: Model, weights: Network, target: Network, batch: Batch) -> Loss:
    obs, action, advantage, ret = batch
    log_p, value, _ = policy_and_value(model, weights, obs)
    policy = pick(log_p, action) * (advantage / -len(ret))
    return actor_critic_loss(model, policy, F.square(value - ret[:, None]), log_p), None


def ppo_loss(model: Model, weights: Network, target: Network, batch: Batch) -> Loss:
    """With −A/n as a constant the least of the two becomes the largest, and no mean is left to take.

    Every function costs 60 µs forwards and as much again for each that its gradient calls.
    """
    obs, action, old_log_prob, advantage, ret, old_value = batch
    reach, ret, old_value = model.hyper.clip_range, ret[:, None], old_value[:, None]
    log_p, value, _ = policy_and_value(model, weights, obs)
    ratio = F.exp(pick(log_p, action) - old_log_prob)
    share = advantage / -len(ret)
    policy = F.maximum(ratio * share, F.clip(ratio, 1 - reach, 1 + reach) * share)
    squares = F.square(value - ret)
    if model.hyper.value_clip:
        moved = F.clip(value - old_value, -reach, reach)
        squares = F.maximum(squares, F.square(moved + (old_value - ret)))
    return actor_critic_loss(model, policy, squares, log_p), None


def classifier_loss(model: Model, weights: Network, target: Network, batch: Batch) -> Loss:
    obs, label = batch
    return F.softmax_cross_entropy(q_values(model, weights, obs), label), None


def actor_critic_loss(model: Model, policy_shares: Any, value_losses: Any, log_p: Any) -> Any:
    """Sum of the shares of the policy loss + mean over the rows of c_v · value loss − c_e · H(π)."""
    hyper, size = model.hyper, len(policy_shares)
    total = F.sum(policy_shares) + F.sum(value_losses) * (hyper.value_coefficient / size)
    if hyper.entropy_coefficient:
        total += F.sum(F.exp(log_p) * log_p) * (hyper.entropy_coefficient / size)
    return total


LOSSES: Dict[str, Callable[..., Loss]] = {
    "dqn": dqn_loss,
    "rainbow": rainbow_loss,
    "a2c": a2c_loss,
    "ppo": ppo_loss,
    "classifier": classifier_loss,
}


def pick(x: Any, action: np.ndarray) -> Any:
    """x[row, action[row]] of every row; of atoms a product, for np.add.at in indexing's gradient is slow."""
    if x.ndim == 2:
        return F.select_item(x, action)
    mask = np.zeros(x.shape[:2] + (1,), x.dtype)
    mask[np.arange(len(action)), action] = 1
    return F.sum(x * mask, axis=1)


def gradient(model: Model, weights: Network, target: Network, batch: Batch) -> Loss:
    """The loss, and priorities where the algorithm has them; the gradient is in `model.gradient`."""
    loss, priorities = model.loss(model, weights, target, batch)
    weights.cleargrads()
    loss.backward()
    for name, parameter in weights.tensors.items():
        model.gradients[name][...] = parameter.grad
    return loss, priorities
