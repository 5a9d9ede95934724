"""What the learners in JAX compute: network, losses, gradients and Adam, as pure functions.

Each runs op by op and inside `jax.jit`. Every array and index carries its type, because 64 bits are enabled.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rldyno_rig.layout import Layout, after_convolutions, channels_last, torso_layers
from rldyno_rig.reference.losses import support
from rldyno_rig.spec import CATEGORICAL, QUANTILES, SINGLE, Spec, convolution_outputs, noise_shapes

Weights = Dict[str, Array]
Batch = Tuple[Any, ...]
Noises = Dict[str, Tuple[Array, Array]]
Given = Tuple[Array, Noises]
Loss = Tuple[Array, Optional[Array]]  # the loss, and the priorities where the algorithm has them
LossOf = Callable[[Weights], Loss]
Vectors = Tuple[Array, Array, Array]  # weights and moments, each flat


class Model:
    """What the functions below need to know of a spec, computed once."""

    def __init__(self, spec: Spec, dtype: str) -> None:
        network = spec.network
        self.spec, self.network, self.dtype = spec, network, np.dtype(dtype)
        self.hyper = spec.hyper
        self.layout = Layout(network, channels_last)
        self.shapes, self.sizes = self.layout.shapes, self.layout.sizes
        # Each noisy layer has two vectors in a row, `.in` and `.out`.
        self.noisy_layers = tuple(
            name[: -len(".in")] for name in noise_shapes(network) if name.endswith(".in")
        )
        self.noise_sizes = [size for (size,) in noise_shapes(network).values()]
        self.loss, self.step = LOSSES[spec.algorithm], OPTIMISERS[spec.optimiser]
        self.expected = EXPECTED[network.support]
        self.convolve = convolve
        self.activate = {"relu": relu, "tanh": jnp.tanh}[network.activation]
        self.torsos = tuple((torso, *torso_layers(network, torso)) for torso in network.torsos)
        self.image = convolution_outputs(network)[-1] if network.convolutions else ()
        self.after_image = after_convolutions(network)
        if network.support == CATEGORICAL:
            self.z = support(spec).astype(dtype)
            self.atom = np.arange(network.atoms, dtype=dtype)


def named(model: Model, flat: Array) -> Weights:
    """The weights as pieces of the flat vector."""
    pieces = zip(model.shapes.items(), lax.split(flat, model.sizes))
    return {name: piece.reshape(shape) for (name, shape), piece in pieces}


def forward(model: Model, weights: Weights, given: Given) -> Weights:
    """Raw outputs of the heads."""
    inputs, noises = given
    features = {}
    for torso, convolutions, denses in model.torsos:
        x = inputs
        for name, stride in convolutions:
            x = model.activate(model.convolve(x, weights[name + ".w"], stride) + weights[name + ".b"])
        x = x.reshape(len(x), -1)
        for name in denses:
            x = model.activate(dense(model, name, weights, x, noises))
        features[torso] = x
    return {
        name: dense(model, name, weights, features[torso], noises) for name, torso, _ in model.network.heads
    }


def prepare(model: Model, obs: Array, noise: Optional[Array] = None) -> Given:
    """What a forward pass needs besides weights: the inputs, and (ε_in ⊗ ε_out, ε_out) of noisy layers."""
    inputs = obs.astype(model.dtype)
    if model.network.observation_dtype == "uint8":
        inputs = inputs / 255
    if model.network.convolutions:
        # NHWC: 1.05 to 1.2 times as fast as NCHW on a CPU, the same on a GPU.
        inputs = inputs.transpose(0, 2, 3, 1)
    return inputs, split_noise(model, noise)


def convolve(x: Array, w: Array, stride: int) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (stride, stride), "VALID", dimension_numbers=layout)


def convolve_by_product(x: Array, w: Array, stride: int) -> Array:
    """The same as one matrix product: on an H200 an update takes 214 µs, not 318, and an act 77, not 134.

    Blocks of pixels, as long as kernel and stride have in common, become channels first: a window is then
    made of few, long pieces. On a CPU convolutions are faster.
    """
    kernel, channels, filters = w.shape[0], w.shape[2], w.shape[3]
    block = math.gcd(kernel, stride)
    count, step = kernel // block, stride // block
    rows, columns = ((size - kernel) // stride + 1 for size in x.shape[1:3])
    tall, wide = (rows - 1) * step + count, (columns - 1) * step + count
    x = x[:, : tall * block, : wide * block].reshape(-1, tall, block, wide, block, channels)
    x = x.transpose(0, 1, 3, 2, 4, 5).reshape(-1, tall, wide, block * block * channels)
    down, right = (rows - 1) * step + 1, (columns - 1) * step + 1
    pieces = [x[:, i : i + down : step, j : j + right : step] for i in range(count) for j in range(count)]
    windows = jnp.concatenate(pieces, 3).reshape(-1, count * count * block * block * channels)
    w = w.reshape(count, block, count, block, channels, filters).transpose(0, 2, 1, 3, 4, 5)
    return (windows @ w.reshape(-1, filters)).reshape(-1, rows, columns, filters)


def dense(model: Model, name: str, weights: Weights, x: Array, noises: Noises) -> Array:
    """y = x·W + b; noisy: W + σ_W ∘ (ε_in ⊗ ε_out), b + σ_b ∘ ε_out."""
    w, b = weights[name + ".w"], weights[name + ".b"]
    if noises:
        outer, e_out = noises[name]
        w = w + weights[name + ".w_sigma"] * outer
        b = b + weights[name + ".b_sigma"] * e_out
    return x @ w + b


def split_noise(model: Model, noise: Any) -> Noises:
    """One flat vector → (ε_in ⊗ ε_out, ε_out) of each noisy layer; none of a network without noise."""
    if not model.noisy_layers:
        return {}
    vectors = lax.split(noise, model.noise_sizes)
    noises = {}
    for layer, canonical_in, e_out in zip(model.noisy_layers, vectors[::2], vectors[1::2]):
        e_in = canonical_in
        if layer in model.after_image:
            e_in = canonical_in.reshape(model.image).transpose(1, 2, 0).ravel()
        noises[layer] = (e_in[:, None] * e_out, e_out)
    return noises


def q_values(model: Model, weights: Weights, given: Given) -> Array:
    """[batch, actions], or [batch, actions, atoms] of a distribution. Dueling: Q = V + A − mean A."""
    network = model.network
    outputs = forward(model, weights, given)
    q = outputs["advantage" if network.dueling else "q"]
    if network.atoms > 1:
        q = q.reshape(-1, network.actions, network.atoms)
    if network.dueling:
        value = outputs["value"][:, None] if network.atoms > 1 else outputs["value"]
        q = value + q - q.mean(1, keepdims=True)
    return q


def single(model: Model, q: Array) -> Array:
    return q


def categorical(model: Model, logits: Array) -> Array:
    """Σ z · softmax(logits)."""
    return jax.nn.softmax(logits) @ model.z


def quantiles(model: Model, points: Array) -> Array:
    """Their mean."""
    return points.mean(2)


EXPECTED: Dict[str, Callable[..., Array]] = {SINGLE: single, CATEGORICAL: categorical, QUANTILES: quantiles}
"""Support of the head → value of each action, [batch, actions], from `q_values`."""


def policy_and_value(model: Model, weights: Weights, given: Given) -> Tuple[Array, Array, Array]:
    """(log-probability of every action, state value, logits)."""
    outputs = forward(model, weights, given)
    return jax.nn.log_softmax(outputs["policy"]), outputs["value"].squeeze(1), outputs["policy"]


def action_values(model: Model, weights: Weights, obs: Array, noise: Optional[Array] = None) -> Array:
    """[batch, actions]."""
    return model.expected(model, q_values(model, weights, prepare(model, obs, noise)))


def choose(model: Model, weights: Weights, obs: Array, noise: Optional[Array]) -> Array:
    """What `act` returns, in one array so that one copy reads it.

    [batch]: greedy actions, or [3, batch]: sampled actions, their log-probabilities, values.
    """
    if not model.network.samples:
        return best(action_values(model, weights, obs, noise))
    log_p, value, logits = policy_and_value(model, weights, prepare(model, obs, noise))
    action = best(logits + noise)
    return jnp.stack((action.astype(model.dtype), pick(log_p, taken(model, action)), value))


# Each loss first computes what it holds fixed and returns the loss as a function of the weights alone.
# In eager mode an operation on fixed arrays inside a differentiated function would leak (18 KB per update).


def dqn_loss(model: Model, weights: Weights, target: Weights, batch: Batch) -> LossOf:
    obs, action, reward, discount, next_obs = batch
    given, given_next, mask = prepare(model, obs), prepare(model, next_obs), taken(model, action)
    q_next = q_values(model, target, given_next)
    if model.hyper.double:
        value_next = pick(q_next, taken(model, best(q_values(model, weights, given_next))))
    else:
        value_next = q_next.max(1)
    goal = reward + discount * value_next

    def loss(online: Weights) -> Loss:
        size = jnp.abs(pick(q_values(model, online, given), mask) - goal)
        small = jnp.minimum(size, model.hyper.huber_delta)
        return jnp.mean(0.5 * small * small + model.hyper.huber_delta * (size - small)), None

    return loss


def rainbow_loss(model: Model, weights: Weights, target: Weights, batch: Batch) -> LossOf:
    obs, action, reward, discount, next_obs, weight, noise = batch
    on_obs, on_next, on_target = noise
    given, mask = prepare(model, obs, on_obs), taken(model, action)
    chosen = best(model.expected(model, q_values(model, weights, prepare(model, next_obs, on_next))))
    logits_next = pick(q_values(model, target, prepare(model, next_obs, on_target)), taken(model, chosen))
    goal = project(model, reward, discount, jax.nn.softmax(logits_next))

    def loss(online: Weights) -> Loss:
        log_p = jax.nn.log_softmax(pick(q_values(model, online, given), mask))
        cross_entropy = -(goal * log_p).sum(1)
        return jnp.mean(weight * cross_entropy), cross_entropy

    return loss


def project(model: Model, reward: Array, discount: Array, p: Array) -> Array:
    """Distribution p, moved to reward + discount · z, back on the support (Bellemare et al. 2017)."""
    low, high = model.hyper.v_min, model.hyper.v_max
    moved = jnp.clip(reward[:, None] + discount[:, None] * model.z, low, high)
    position = (moved - low) / ((high - low) / (model.hyper.atoms - 1))
    nearness = jnp.maximum(0, 1 - jnp.abs(position[:, None, :] - model.atom[:, None]))
    return jnp.einsum("bij,bj->bi", nearness, p)


def a2c_loss(model: Model, weights: Weights, target: Weights, batch: Batch) -> LossOf:
    obs, action, advantage, ret = batch
    given, mask = prepare(model, obs), taken(model, action)

    def loss(online: Weights) -> Loss:
        log_p, value, _ = policy_and_value(model, online, given)
        policy_loss = -jnp.mean(advantage * pick(log_p, mask))
        return actor_critic_loss(model, policy_loss, jnp.mean((value - ret) ** 2), log_p), None

    return loss


def ppo_loss(model: Model, weights: Weights, target: Weights, batch: Batch) -> LossOf:
    obs, action, old_log_prob, advantage, ret, old_value = batch
    given, mask = prepare(model, obs), taken(model, action)
    reach = model.hyper.clip_range

    def loss(online: Weights) -> Loss:
        log_p, value, _ = policy_and_value(model, online, given)
        ratio = jnp.exp(pick(log_p, mask) - old_log_prob)
        clipped = jnp.clip(ratio, 1 - reach, 1 + reach)
        policy_loss = -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
        squares = (value - ret) ** 2
        if model.hyper.value_clip:
            kept = old_value + jnp.clip(value - old_value, -reach, reach)
            squares = jnp.maximum(squares, (kept - ret) ** 2)
        return actor_critic_loss(model, policy_loss, jnp.mean(squares), log_p), None

    return loss


def classifier_loss(model: Model, weights: Weights, target: Weights, batch: Batch) -> LossOf:
    obs, label = batch
    given, mask = prepare(model, obs), taken(model, label)

    def loss(online: Weights) -> Loss:
        log_p = jax.nn.log_softmax(q_values(model, online, given))
        return -jnp.mean(pick(log_p, mask)), None

    return loss


def actor_critic_loss(model: Model, policy_loss: Array, value_loss: Array, log_p: Array) -> Array:
    """Policy loss + c_v · value loss − c_e · mean H(π)."""
    loss = model.hyper.value_coefficient * value_loss
    if model.hyper.entropy_coefficient:
        loss = loss + model.hyper.entropy_coefficient * jnp.mean((jnp.exp(log_p) * log_p).sum(1))
    return policy_loss + loss


LOSSES: Dict[str, Callable[..., LossOf]] = {
    "dqn": dqn_loss,
    "rainbow": rainbow_loss,
    "a2c": a2c_loss,
    "ppo": ppo_loss,
    "classifier": classifier_loss,
}


def relu(x: Array) -> Array:
    """jax.nn.relu, gradient 0 at 0 included, but 1.2 times as fast in eager mode; no difference in jit."""
    return jnp.where(x > 0, x, 0)


def best(scores: Array) -> Array:
    return lax.argmax(scores, 1, np.int32)


def taken(model: Model, action: Array) -> Array:
    """Which action each row took, as a mask that fits `q_values`."""
    mask = action[:, None] == np.arange(model.network.actions, dtype=np.int32)
    return mask if model.network.atoms == 1 else mask[:, :, None]


def pick(x: Array, mask: Array) -> Array:
    """The masked entry of every row. It fuses, where the gradient of a gather is a scatter."""
    return jnp.where(mask, x, 0).sum(1)


def gradient(model: Model, weights: Weights, target: Weights, batch: Batch) -> Tuple[Array, Array]:
    """(report, flat gradient).

    Taken with respect to the weights and then joined; taken through the split of the flat vector it would be
    a sum of padded vectors: 145 µs instead of 125.
    """
    loss_of = model.loss(model, weights, target, batch)
    (loss, priorities), pieces = jax.value_and_grad(loss_of, has_aux=True)(weights)
    return report(loss, priorities), lax.concatenate([pieces[name].ravel() for name in model.shapes], 0)


def report(loss: Array, priorities: Optional[Array]) -> Array:
    """One vector, so that one copy reads it: the loss, then the priorities."""
    return loss[None] if priorities is None else jnp.append(loss, priorities)


def clip(model: Model, gradient: Array) -> Array:
    """g · min(1, c / (‖g‖ + clip_eps)); unchanged when c = 0."""
    most = model.hyper.max_grad_norm
    if most == 0:
        return gradient
    norm = jnp.sqrt(jnp.vdot(gradient, gradient))
    return gradient * jnp.minimum(1, most / (norm + model.hyper.clip_eps))


def adam(model: Model, flat: Array, m: Array, v: Array, gradient: Array, scalars: Any) -> Vectors:
    """reference.optimiser.adam; optax corrects bias in the precision of the weights, which drifts."""
    hyper = model.hyper
    step, root = scalars[0], scalars[1]
    m = hyper.adam_beta1 * m + (1 - hyper.adam_beta1) * gradient
    v = hyper.adam_beta2 * v + (1 - hyper.adam_beta2) * gradient * gradient
    return flat - step * m / (jnp.sqrt(v) * root + hyper.adam_eps), m, v


def sgd(model: Model, flat: Array, m: Array, v: Array, gradient: Array, scalars: Any) -> Vectors:
    """p ← p − lr · g; `scalars` begin with the learning rate."""
    return flat - scalars[0] * gradient, m, v


OPTIMISERS: Dict[str, Callable[..., Vectors]] = {"adam": adam, "sgd": sgd}
