"""What learners in TensorFlow compute: network and losses, as functions of tensors."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import tensorflow as tf

from rldyno_rig.batches import A2cBatch, ClassifierBatch, DqnBatch, PpoBatch, RainbowBatch
from rldyno_rig.reference.losses import support
from rldyno_rig.spec import Network, Spec, convolution_outputs, noise_shapes

Tensors = Dict[str, Any]


def forward(network: Network, weights: Tensors, obs: Any, noise: Any) -> Tensors:
    """Raw head outputs."""
    dtype = next(iter(weights.values())).dtype
    vectors = split_noise(network, noise)
    if network.convolutions:
        # On a CPU TensorFlow convolves NHWC alone; bytes are the cheapest to move.
        obs = tf.transpose(obs, (0, 2, 3, 1))
    obs = tf.cast(obs, dtype)
    if network.observation_dtype == "uint8":
        obs = obs / 255
    activate = tf.nn.relu if network.activation == "relu" else tf.tanh
    features = {}
    for torso in network.torsos:
        x = obs
        for index, (_, _, stride) in enumerate(network.convolutions):
            name = "{}.conv{}".format(torso, index)
            x = tf.nn.conv2d(x, weights[name + ".w"], stride, "VALID")
            x = activate(tf.nn.bias_add(x, weights[name + ".b"]))
        if network.convolutions:
            x = tf.reshape(x, (x.shape[0], -1))
        for index in range(len(network.hidden)):
            x = activate(dense("{}.dense{}".format(torso, index), weights, x, vectors))
        features[torso] = x
    return {name: dense(name, weights, features[torso], vectors) for name, torso, _ in network.heads}


def dense(name: str, weights: Tensors, x: Any, vectors: Tensors) -> Any:
    """y = x·W + b; noisy: W + σ_W ∘ (ε_in ⊗ ε_out), b + σ_b ∘ ε_out."""
    w, b = weights[name + ".w"], weights[name + ".b"]
    if vectors:
        into, out = vectors[name + ".in"], vectors[name + ".out"]
        w = w + weights[name + ".w_sigma"] * (into[:, None] * out)
        b = b + weights[name + ".b_sigma"] * out
    return tf.nn.bias_add(tf.matmul(x, w), b)


def split_noise(network: Network, noise: Any) -> Tensors:
    if noise is None:
        return {}
    shapes = noise_shapes(network)
    vectors = dict(zip(shapes, tf.split(noise, [size for (size,) in shapes.values()])))
    for name in vectors:
        if name.endswith(".in") and follows_convolution(network, name[:-2] + "w"):
            image = tf.reshape(vectors[name], convolution_outputs(network)[-1])
            vectors[name] = tf.reshape(tf.transpose(image, (1, 2, 0)), (-1,))
    return vectors


def follows_convolution(network: Network, name: str) -> bool:
    """Whether this is a matrix whose rows are the flattened features of the last convolution."""
    layer, _, kind = name.rpartition(".")
    if not network.convolutions or kind not in ("w", "w_sigma"):
        return False
    return layer.endswith(".dense0") or (not network.hidden and ".conv" not in layer)


def q_values(network: Network, outputs: Tensors) -> Any:
    """[batch, actions] or, distributional, logits [batch, actions, atoms]. Dueling: Q = V + A − mean A."""

    def shaped(x: Any, actions: int) -> Any:
        return tf.reshape(x, (-1, actions, network.atoms)) if network.atoms > 1 else x

    if not network.dueling:
        return shaped(outputs["q"], network.actions)
    advantage = shaped(outputs["advantage"], network.actions)
    return shaped(outputs["value"], 1) + advantage - tf.reduce_mean(advantage, 1, keepdims=True)


def pick(values: Any, action: Any) -> Any:
    """values[row, action of the row]. A product with one-hot rows: the gradient of a gather is a scatter."""
    hot = tf.one_hot(action, values.shape[1], dtype=values.dtype)
    return tf.reduce_sum(values * (hot if len(values.shape) == 2 else hot[:, :, None]), 1)


def dqn_goal(spec: Spec, weights: Tensors, target: Tensors, batch: DqnBatch) -> Any:
    network = spec.network
    q_next = q_values(network, forward(network, target, batch.next_obs, None))
    if spec.hyper.double:
        chooser = q_values(network, forward(network, weights, batch.next_obs, None))
        return batch.reward + batch.discount * pick(q_next, tf.argmax(chooser, 1))
    return batch.reward + batch.discount * tf.reduce_max(q_next, 1)


def dqn_loss(spec: Spec, weights: Tensors, batch: DqnBatch, goal: Any) -> Tuple[Any, ...]:
    delta = spec.hyper.huber_delta
    q = q_values(spec.network, forward(spec.network, weights, batch.obs, None))
    difference = pick(q, batch.action) - goal
    small = tf.clip_by_value(difference, -delta, delta)
    return (tf.reduce_mean(small * (difference - 0.5 * small)),)


def rainbow_goal(spec: Spec, weights: Tensors, target: Tensors, batch: RainbowBatch) -> Any:
    network, hyper = spec.network, spec.hyper
    _, on_next, on_target = tf.unstack(batch.noise)
    z = tf.constant(support(spec), batch.reward.dtype)
    logits = q_values(network, forward(network, weights, batch.next_obs, on_next))
    best = tf.argmax(tf.reduce_sum(tf.nn.softmax(logits) * z, 2), 1)
    # Pick, then normalise: softmax of one action's atoms instead of all.
    p = tf.nn.softmax(pick(q_values(network, forward(network, target, batch.next_obs, on_target)), best))
    spacing = (hyper.v_max - hyper.v_min) / (hyper.atoms - 1)
    moved = tf.clip_by_value(batch.reward[:, None] + batch.discount[:, None] * z, hyper.v_min, hyper.v_max)
    position = (moved - hyper.v_min) / spacing
    index = tf.range(hyper.atoms, dtype=z.dtype)
    nearness = tf.nn.relu(1 - tf.abs(position[:, None, :] - index[:, None]))
    return tf.linalg.matvec(nearness, p)


def rainbow_loss(spec: Spec, weights: Tensors, batch: RainbowBatch, goal: Any) -> Tuple[Any, ...]:
    on_obs = tf.unstack(batch.noise)[0]
    logits = pick(q_values(spec.network, forward(spec.network, weights, batch.obs, on_obs)), batch.action)
    cross_entropy = tf.nn.softmax_cross_entropy_with_logits(goal, logits)
    return tf.reduce_mean(batch.weight * cross_entropy), cross_entropy


def no_goal(spec: Spec, weights: Tensors, target: Tensors, batch: tuple) -> None:
    return None


def a2c_loss(spec: Spec, weights: Tensors, batch: A2cBatch, goal: None) -> Tuple[Any, ...]:
    outputs = forward(spec.network, weights, batch.obs, None)
    log_p = tf.nn.log_softmax(outputs["policy"])
    policy = -tf.reduce_mean(batch.advantage * pick(log_p, batch.action))
    squares = tf.square(tf.squeeze(outputs["value"], 1) - batch.ret)
    return (policy + value_and_entropy(spec, squares, log_p),)


def ppo_loss(spec: Spec, weights: Tensors, batch: PpoBatch, goal: None) -> Tuple[Any, ...]:
    hyper, near = spec.hyper, spec.hyper.clip_range
    outputs = forward(spec.network, weights, batch.obs, None)
    log_p = tf.nn.log_softmax(outputs["policy"])
    ratio = tf.exp(pick(log_p, batch.action) - batch.log_prob)
    clipped = tf.clip_by_value(ratio, 1 - near, 1 + near)
    policy = -tf.reduce_mean(tf.minimum(ratio * batch.advantage, clipped * batch.advantage))
    value = tf.squeeze(outputs["value"], 1)
    squares = tf.square(value - batch.ret)
    if hyper.value_clip:
        kept = batch.value + tf.clip_by_value(value - batch.value, -near, near)
        squares = tf.maximum(squares, tf.square(kept - batch.ret))
    return (policy + value_and_entropy(spec, squares, log_p),)


def classifier_loss(spec: Spec, weights: Tensors, batch: ClassifierBatch, goal: None) -> Tuple[Any, ...]:
    logits = forward(spec.network, weights, batch.obs, None)["q"]
    return (tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(batch.action, logits)),)


def value_and_entropy(spec: Spec, squares: Any, log_p: Any) -> Any:
    entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(log_p) * log_p, 1))
    return spec.hyper.value_coefficient * tf.reduce_mean(squares) - spec.hyper.entropy_coefficient * entropy


GOALS: Dict = {"dqn": dqn_goal, "rainbow": rainbow_goal}
LOSSES: Dict = {
    "dqn": dqn_loss,
    "rainbow": rainbow_loss,
    "a2c": a2c_loss,
    "ppo": ppo_loss,
    "classifier": classifier_loss,
}
