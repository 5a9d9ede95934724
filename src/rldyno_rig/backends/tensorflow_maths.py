"""What the learner in TensorFlow computes: network, losses, clipping and optimisers on tensors."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import tensorflow as tf

from rldyno_rig.layout import Layout, after_convolutions, channels_last, torso_layers
from rldyno_rig.reference.losses import support
from rldyno_rig.spec import CATEGORICAL, QUANTILES, SINGLE, Spec, convolution_outputs, noise_shapes

Tensors = Dict[str, Any]
Batch = Tuple[Any, ...]
Loss = Tuple[Any, ...]  # the loss, and the priorities where the algorithm has them
LossOf = Callable[[Tensors], Loss]


class Model:
    """What the functions below need to know of a spec, computed once.

    Numbers are kept as tensors: a Python number or list is converted again by every eager operation.
    """

    def __init__(self, spec: Spec, dtype: str) -> None:
        network = spec.network
        self.spec, self.network, self.dtype = spec, network, np.dtype(dtype)
        self.hyper = spec.hyper
        self.layout = Layout(network, channels_last)
        self.loss, self.step = LOSSES[spec.algorithm], OPTIMISERS[spec.optimiser]
        self.moved = FUNCTIONAL_OPTIMISERS[spec.optimiser]
        self.expected = EXPECTED[network.support]
        self.activate = {"relu": tf.nn.relu, "tanh": tf.tanh}[network.activation]
        self.torsos = tuple((torso, *torso_layers(network, torso)) for torso in network.torsos)
        self.noise_names = tuple(noise_shapes(network))
        self.noise_sizes = [size for (size,) in noise_shapes(network).values()]
        self.after_image = {layer + ".in" for layer in after_convolutions(network)}
        betas = (self.hyper.adam_beta1, self.hyper.adam_beta2) if spec.optimiser == "adam" else (0.0, 0.0)
        self.zero, self.beta1, self.beta2 = (tf.constant(value, dtype) for value in (0.0, *betas))
        self.sizes = tf.constant(self.layout.sizes)
        self.shapes = [tf.constant(shape) for shape in self.layout.shapes.values()]
        self.vector = tf.constant([-1])


def named(model: Model, flat: Any) -> Tensors:
    """The weights as parts of the flat vector."""
    parts: List[Any] = tf.split(flat, model.sizes, num=len(model.shapes))
    shaped = [tf.reshape(part, shape) for part, shape in zip(parts, model.shapes)]
    return dict(zip(model.layout.shapes, shaped))


def forward(model: Model, weights: Tensors, obs: Any, noise: Any = None) -> Tensors:
    """Raw outputs of the heads."""
    network = model.network
    vectors = split_noise(model, noise)
    if network.convolutions:
        # On a CPU TensorFlow convolves NHWC alone; bytes are the cheapest to move.
        obs = tf.transpose(obs, (0, 2, 3, 1))
    obs = tf.cast(obs, model.dtype)
    if network.observation_dtype == "uint8":
        obs = obs / 255
    features = {}
    for torso, convolutions, denses in model.torsos:
        x = obs
        for name, stride in convolutions:
            x = convolve(model, name, weights, x, stride)
        if convolutions:
            x = tf.reshape(x, (x.shape[0], -1))
        for name in denses:
            x = model.activate(dense(model, name, weights, x, vectors))
        features[torso] = x
    return {name: dense(model, name, weights, features[torso], vectors) for name, torso, _ in network.heads}


def convolve(model: Model, name: str, weights: Tensors, x: Any, stride: int) -> Any:
    y = tf.nn.conv2d(x, weights[name + ".w"], stride, "VALID")
    return model.activate(tf.nn.bias_add(y, weights[name + ".b"]))


def dense(model: Model, name: str, weights: Tensors, x: Any, vectors: Tensors) -> Any:
    """y = x·W + b; noisy: W + σ_W ∘ (ε_in ⊗ ε_out), b + σ_b ∘ ε_out."""
    w, b = weights[name + ".w"], weights[name + ".b"]
    if vectors:
        e_in, e_out = vectors[name + ".in"], vectors[name + ".out"]
        w = w + weights[name + ".w_sigma"] * (e_in[:, None] * e_out)
        b = b + weights[name + ".b_sigma"] * e_out
    return tf.nn.bias_add(tf.matmul(x, w), b)


def split_noise(model: Model, noise: Any) -> Tensors:
    """One flat vector → the named noise vectors of each layer; none of a network without noise."""
    if noise is None:
        return {}
    vectors = dict(zip(model.noise_names, tf.split(noise, model.noise_sizes)))
    for name in model.after_image:
        image = tf.reshape(vectors[name], convolution_outputs(model.network)[-1])
        vectors[name] = tf.reshape(tf.transpose(image, (1, 2, 0)), (-1,))
    return vectors


def q_values(model: Model, weights: Tensors, obs: Any, noise: Any = None) -> Any:
    """[batch, actions], or [batch, actions, atoms] of a distribution. Dueling: Q = V + A − mean A."""
    network = model.network
    outputs = forward(model, weights, obs, noise)

    def shaped(x: Any, actions: int) -> Any:
        return tf.reshape(x, (-1, actions, network.atoms)) if network.atoms > 1 else x

    if not network.dueling:
        return shaped(outputs["q"], network.actions)
    advantage = shaped(outputs["advantage"], network.actions)
    return shaped(outputs["value"], 1) + advantage - tf.reduce_mean(advantage, 1, keepdims=True)


def single(model: Model, q: Any) -> Any:
    return q


def categorical(model: Model, logits: Any) -> Any:
    """Σ z · softmax(logits)."""
    return tf.reduce_sum(tf.nn.softmax(logits) * tf.constant(support(model.spec), model.dtype), 2)


def quantiles(model: Model, points: Any) -> Any:
    """Their mean."""
    return tf.reduce_mean(points, 2)


EXPECTED: Dict[str, Callable[..., Any]] = {SINGLE: single, CATEGORICAL: categorical, QUANTILES: quantiles}
"""Support of the head → value of each action, [batch, actions], from `q_values`."""


def policy_and_value(model: Model, weights: Tensors, obs: Any) -> Tuple[Any, Any, Any]:
    """(log-probability of every action, state value, logits)."""
    outputs = forward(model, weights, obs)
    return tf.nn.log_softmax(outputs["policy"]), tf.squeeze(outputs["value"], 1), outputs["policy"]


def action_values(model: Model, weights: Tensors, obs: Any, noise: Any = None) -> Any:
    """[batch, actions]."""
    return model.expected(model, q_values(model, weights, obs, noise))


def choose(model: Model, weights: Tensors, obs: Any, noise: Any = None) -> Batch:
    """What `act` returns: the greedy action, or a sampled one with its log-probability and the value."""
    if not model.network.samples:
        return (tf.argmax(action_values(model, weights, obs, noise), 1),)
    log_p, value, logits = policy_and_value(model, weights, obs)
    action = tf.argmax(logits + noise, 1)
    return action, pick(log_p, action), value


# Each loss first computes what it holds fixed, outside of the tape, and returns the loss as a function of
# the weights alone.


def dqn_loss(model: Model, weights: Tensors, target: Tensors, batch: Batch) -> LossOf:
    obs, action, reward, discount, next_obs = batch
    q_next = q_values(model, target, next_obs)
    if model.hyper.double:
        best = pick(q_next, tf.argmax(q_values(model, weights, next_obs), 1))
    else:
        best = tf.reduce_max(q_next, 1)
    goal = reward + discount * best
    delta = model.hyper.huber_delta

    def loss(online: Tensors) -> Loss:
        difference = pick(q_values(model, online, obs), action) - goal
        small = tf.clip_by_value(difference, -delta, delta)
        return (tf.reduce_mean(small * (difference - 0.5 * small)),)

    return loss


def rainbow_loss(model: Model, weights: Tensors, target: Tensors, batch: Batch) -> LossOf:
    obs, action, reward, discount, next_obs, weight, noise = batch
    on_obs, on_next, on_target = tf.unstack(noise)
    best = tf.argmax(model.expected(model, q_values(model, weights, next_obs, on_next)), 1)
    # Pick, then normalise: softmax of one action's atoms instead of all.
    p_next = tf.nn.softmax(pick(q_values(model, target, next_obs, on_target), best))
    goal = project(model, reward, discount, p_next)

    def loss(online: Tensors) -> Loss:
        logits = pick(q_values(model, online, obs, on_obs), action)
        cross_entropy = tf.nn.softmax_cross_entropy_with_logits(goal, logits)
        return tf.reduce_mean(weight * cross_entropy), cross_entropy

    return loss


def project(model: Model, reward: Any, discount: Any, p: Any) -> Any:
    """Distribution p, moved to reward + discount · z, back on the support (Bellemare et al. 2017)."""
    low, high = model.hyper.v_min, model.hyper.v_max
    z = tf.constant(support(model.spec), model.dtype)
    moved = tf.clip_by_value(reward[:, None] + discount[:, None] * z, low, high)
    position = (moved - low) / ((high - low) / (model.hyper.atoms - 1))
    index = tf.range(model.hyper.atoms, dtype=z.dtype)
    nearness = tf.nn.relu(1 - tf.abs(position[:, None, :] - index[:, None]))
    return tf.linalg.matvec(nearness, p)


def a2c_loss(model: Model, weights: Tensors, target: Tensors, batch: Batch) -> LossOf:
    obs, action, advantage, ret = batch

    def loss(online: Tensors) -> Loss:
        log_p, value, _ = policy_and_value(model, online, obs)
        policy_loss = -tf.reduce_mean(advantage * pick(log_p, action))
        return (actor_critic_loss(model, policy_loss, tf.reduce_mean(tf.square(value - ret)), log_p),)

    return loss


def ppo_loss(model: Model, weights: Tensors, target: Tensors, batch: Batch) -> LossOf:
    obs, action, old_log_prob, advantage, ret, old_value = batch
    reach = model.hyper.clip_range

    def loss(online: Tensors) -> Loss:
        log_p, value, _ = policy_and_value(model, online, obs)
        ratio = tf.exp(pick(log_p, action) - old_log_prob)
        clipped = tf.clip_by_value(ratio, 1 - reach, 1 + reach)
        policy_loss = -tf.reduce_mean(tf.minimum(ratio * advantage, clipped * advantage))
        squares = tf.square(value - ret)
        if model.hyper.value_clip:
            kept = old_value + tf.clip_by_value(value - old_value, -reach, reach)
            squares = tf.maximum(squares, tf.square(kept - ret))
        return (actor_critic_loss(model, policy_loss, tf.reduce_mean(squares), log_p),)

    return loss


def classifier_loss(model: Model, weights: Tensors, target: Tensors, batch: Batch) -> LossOf:
    obs, label = batch

    def loss(online: Tensors) -> Loss:
        logits = q_values(model, online, obs)
        return (tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits)),)

    return loss


def actor_critic_loss(model: Model, policy_loss: Any, value_loss: Any, log_p: Any) -> Any:
    """Policy loss + c_v · value loss − c_e · mean H(π)."""
    hyper = model.hyper
    entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(log_p) * log_p, 1))
    return policy_loss + (hyper.value_coefficient * value_loss - hyper.entropy_coefficient * entropy)


LOSSES: Dict[str, Callable[..., LossOf]] = {
    "dqn": dqn_loss,
    "rainbow": rainbow_loss,
    "a2c": a2c_loss,
    "ppo": ppo_loss,
    "classifier": classifier_loss,
}


def pick(x: Any, action: Any) -> Any:
    """x[row, action[row]]. A product with one-hot rows: the gradient of a gather is a scatter."""
    hot = tf.one_hot(action, x.shape[1], dtype=x.dtype)
    return tf.reduce_sum(x * (hot if len(x.shape) == 2 else hot[:, :, None]), 1)


def gradient(model: Model, weights: Tensors, target: Tensors, batch: Batch) -> Tuple[Loss, Any]:
    """((loss, priorities where the algorithm has them), flat gradient)."""
    loss_of = model.loss(model, weights, target, batch)
    watched = list(weights.values())
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(watched)
        report = loss_of(weights)
    pieces = tape.gradient(report[0], watched)
    return report, tf.concat([tf.reshape(piece, model.vector) for piece in pieces], 0)


def clip(model: Model, gradient: Any) -> Any:
    """g · min(1, c / (‖g‖ + clip_eps)); unchanged when c = 0."""
    most = model.hyper.max_grad_norm
    if not most:
        return gradient
    norm = tf.sqrt(2 * tf.nn.l2_loss(gradient))
    return gradient * tf.minimum(tf.cast(1, gradient.dtype), most / (norm + model.hyper.clip_eps))


def adam(model: Model, flat: Any, m: Any, v: Any, gradient: Any, step: Any, eps: Any) -> None:
    """torch's Adam, step/root · m / (√v + ε/root), by TensorFlow's fused one.

    That one adds ε to the uncorrected root; it gets ε·√(1−β₂ᵗ) as its ε, the corrected step as its rate,
    and no powers of its own.
    """
    tf.raw_ops.ResourceApplyAdam(
        var=flat.handle,
        m=m.handle,
        v=v.handle,
        beta1_power=model.zero,
        beta2_power=model.zero,
        lr=step,
        beta1=model.beta1,
        beta2=model.beta2,
        epsilon=eps,
        grad=gradient,
    )


def sgd(model: Model, flat: Any, m: Any, v: Any, gradient: Any, step: Any, eps: Any) -> None:
    """p ← p − step · g."""
    tf.raw_ops.ResourceApplyGradientDescent(var=flat.handle, alpha=step, delta=gradient)


OPTIMISERS: Dict[str, Callable[..., None]] = {"adam": adam, "sgd": sgd}


# The same as functions of vectors, for XLA, which fuses them.


def moved_by_adam(
    model: Model, flat: Any, m: Any, v: Any, gradient: Any, step: Any, eps: Any
) -> Tuple[Any, Any, Any]:
    """m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², p ← p − step · m / (√v + ε)."""
    beta1, beta2 = model.hyper.adam_beta1, model.hyper.adam_beta2
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * tf.square(gradient)
    return flat - step * m / (tf.sqrt(v) + eps), m, v


def moved_by_sgd(
    model: Model, flat: Any, m: Any, v: Any, gradient: Any, step: Any, eps: Any
) -> Tuple[Any, Any, Any]:
    return flat - step * gradient, m, v


FUNCTIONAL_OPTIMISERS: Dict[str, Callable[..., Tuple[Any, Any, Any]]] = {
    "adam": moved_by_adam,
    "sgd": moved_by_sgd,
}
