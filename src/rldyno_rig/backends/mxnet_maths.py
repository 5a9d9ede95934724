"""What the learner in MXNet computes, written for its `F` (mx.nd or mx.sym), as `hybrid_forward` is.

A graph takes every array that it works on as an input. The functions at the end take plain sequences of
arrays or symbols, name them, and call the functions before them.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Tuple

import mxnet as mx
from mxnet import autograd

from rldyno_rig.layout import torso_layers
from rldyno_rig.spec import CATEGORICAL, QUANTILES, SINGLE, Spec, noise_shapes, parameter_shapes

Tensors = Dict[str, Any]
Batch = Tuple[Any, ...]
Loss = List[Any]  # the loss, and the priorities where the algorithm has them


class Model:
    """What the functions below need to know of a spec, computed once."""

    def __init__(self, F: Any, spec: Spec, dtype: str) -> None:
        network = spec.network
        self.F, self.spec, self.network, self.dtype = F, spec, network, dtype
        self.hyper = spec.hyper
        self.loss = LOSSES[spec.algorithm]
        self.expected = EXPECTED[network.support]
        self.batch_size = len(spec.batch._fields)
        self.torsos = tuple((torso, *torso_layers(network, torso)) for torso in network.torsos)
        self.names = list(parameter_shapes(network))
        # Support and index of the atoms travel with the weights: they are inputs of the graph too.
        self.input_names = [*(("z", "atom") if network.support == CATEGORICAL else ()), *self.names]
        self.shapes = parameter_shapes(network)


def named(model: Model, inputs: Batch) -> Tuple[Tensors, Tensors]:
    """(weights with the constants, target weights), from all of them in a row."""
    size = len(model.input_names)
    return dict(zip(model.input_names, inputs)), dict(zip(model.names, inputs[size:]))


def forward(model: Model, weights: Tensors, obs: Any, noise: Any = None) -> Tensors:
    """Raw outputs of the heads; `noise` is one row."""
    F, network = model.F, model.network
    vectors = split_noise(model, noise)
    if network.observation_dtype != model.dtype:
        obs = F.cast(obs, dtype=model.dtype)
    if network.observation_dtype == "uint8":
        obs = obs / 255
    features = {}
    for torso, convolutions, denses in model.torsos:
        x = obs
        for name, stride in convolutions:
            x = convolve(model, name, weights, x, stride)
        if convolutions:
            x = F.flatten(x)
        for name in denses:
            x = F.Activation(dense(model, name, weights, x, vectors), act_type=network.activation)
        features[torso] = x
    return {name: dense(model, name, weights, features[torso], vectors) for name, torso, _ in network.heads}


def convolve(model: Model, name: str, weights: Tensors, x: Any, stride: int) -> Any:
    kernel, _, _, filters = model.shapes[name + ".w"]
    y = model.F.Convolution(
        x,
        weights[name + ".w"],
        weights[name + ".b"],
        kernel=(kernel, kernel),
        stride=(stride, stride),
        num_filter=filters,
    )
    return model.F.Activation(y, act_type=model.network.activation)


def dense(model: Model, name: str, weights: Tensors, x: Any, vectors: Tensors) -> Any:
    """y = x·W + b; noisy: W + σ_W ∘ (ε_in ⊗ ε_out), b + σ_b ∘ ε_out."""
    F, w, b = model.F, weights[name + ".w"], weights[name + ".b"]
    if vectors:
        e_in, e_out = vectors[name + ".in"], vectors[name + ".out"]
        outer = F.dot(e_out, e_in, transpose_a=True)
        w = F.elemwise_add(w, F.elemwise_mul(weights[name + ".w_sigma"], outer))
        b = F.elemwise_add(b, F.elemwise_mul(weights[name + ".b_sigma"], F.reshape(e_out, shape=(-1,))))
    return F.FullyConnected(x, w, b, num_hidden=model.shapes[name + ".w"][1])


def split_noise(model: Model, noise: Any) -> Tensors:
    """One row → the named noise vectors of each layer, as rows; none of a network without noise."""
    vectors, start = {}, 0
    for name, (size,) in noise_shapes(model.network).items():
        vectors[name] = model.F.slice_axis(noise, axis=1, begin=start, end=start + size)
        start += size
    return vectors


def q_values(model: Model, weights: Tensors, obs: Any, noise: Any = None) -> Any:
    """[batch, actions], or [batch, actions, atoms] of a distribution. Dueling: Q = V + A − mean A."""
    F, network = model.F, model.network
    outputs = forward(model, weights, obs, noise)
    shape = (-1, network.actions) + ((network.atoms,) if network.atoms > 1 else ())
    if not network.dueling:
        return F.reshape(outputs["q"], shape=shape) if network.atoms > 1 else outputs["q"]
    advantage, value = outputs["advantage"], outputs["value"]
    if network.atoms > 1:
        advantage, value = F.reshape(advantage, shape=shape), F.expand_dims(value, axis=1)
    return F.broadcast_add(advantage, F.elemwise_sub(value, F.mean(advantage, axis=1, keepdims=True)))


def single(model: Model, weights: Tensors, q: Any) -> Any:
    return q


def categorical(model: Model, weights: Tensors, logits: Any) -> Any:
    """Σ z · softmax(logits)."""
    return model.F.dot(model.F.softmax(logits), weights["z"])


def quantiles(model: Model, weights: Tensors, points: Any) -> Any:
    """Their mean."""
    return model.F.mean(points, axis=2)


EXPECTED: Dict[str, Callable[..., Any]] = {SINGLE: single, CATEGORICAL: categorical, QUANTILES: quantiles}
"""Support of the head → value of each action, [batch, actions], from `q_values`."""


def policy_and_value(model: Model, weights: Tensors, obs: Any) -> Tuple[Any, Any, Any]:
    """(log-probability of every action, state value, logits)."""
    outputs = forward(model, weights, obs)
    value = model.F.reshape(outputs["value"], shape=(-1,))
    return model.F.log_softmax(outputs["policy"]), value, outputs["policy"]


def action_values(model: Model, weights: Tensors, obs: Any, noise: Any = None) -> Any:
    """[batch, actions]."""
    return model.expected(model, weights, q_values(model, weights, obs, noise))


def choose(model: Model, weights: Tensors, obs: Any, noise: Any = None) -> List[Any]:
    """What `act` returns: the greedy action, or a sampled one with its log-probability and the value."""
    F, network = model.F, model.network
    if not network.samples:
        return [F.argmax(action_values(model, weights, obs, noise), axis=1)]
    log_p, value, logits = policy_and_value(model, weights, obs)
    action = F.argmax(F.elemwise_add(logits, noise), axis=1)
    return [action, F.pick(log_p, action, axis=1), value]


def dqn_loss(model: Model, weights: Tensors, target: Tensors, batch: Batch) -> Loss:
    F, hyper = model.F, model.hyper
    obs, action, reward, discount, next_obs = batch
    with autograd.pause(train_mode=True):
        q_next = q_values(model, target, next_obs)
        if hyper.double:
            best = pick(model, q_next, F.argmax(q_values(model, weights, next_obs), axis=1))
        else:
            best = F.max(q_next, axis=1)
        goal = held(model, F.elemwise_add(reward, F.elemwise_mul(discount, best)))
    q = pick(model, q_values(model, weights, obs), action)
    # smooth_l1 with σ² = 1/δ is Huber's loss over δ.
    errors = F.smooth_l1(F.elemwise_sub(q, goal), scalar=1 / math.sqrt(hyper.huber_delta))
    return [mean(model, errors, hyper.huber_delta)]


def rainbow_loss(model: Model, weights: Tensors, target: Tensors, batch: Batch) -> Loss:
    F = model.F
    obs, action, reward, discount, next_obs, weight, noise = batch
    on_obs, on_next, on_target = (F.slice_axis(noise, axis=0, begin=i, end=i + 1) for i in range(3))
    with autograd.pause(train_mode=True):
        chooser = model.expected(model, weights, q_values(model, weights, next_obs, on_next))
        p_next = F.softmax(q_values(model, target, next_obs, on_target))
        p = pick_atoms(model, p_next, F.argmax(chooser, axis=1))
        goal = held(model, project(model, weights, reward, discount, p))
    logits = pick_atoms(model, q_values(model, weights, obs, on_obs), action)
    cross_entropy = F.negative(F.sum(F.elemwise_mul(goal, F.log_softmax(logits)), axis=1))
    return [mean(model, F.elemwise_mul(weight, cross_entropy)), held(model, cross_entropy)]


def project(model: Model, weights: Tensors, reward: Any, discount: Any, p: Any) -> Any:
    """Distribution p, moved to reward + discount · z, back on the support (Bellemare et al. 2017)."""
    F, hyper = model.F, model.hyper
    moved = F.broadcast_add(
        F.expand_dims(reward, axis=1),
        F.dot(F.expand_dims(discount, axis=1), F.expand_dims(weights["z"], axis=0)),
    )
    spacing = (hyper.v_max - hyper.v_min) / (hyper.atoms - 1)
    position = (bounded(model, moved, hyper.v_min, hyper.v_max) - hyper.v_min) / spacing
    nearness = F.relu(1 - F.abs(F.broadcast_sub(F.expand_dims(position, axis=1), weights["atom"])))
    return F.reshape(F.batch_dot(nearness, F.expand_dims(p, axis=2)), shape=(-1, hyper.atoms))


def a2c_loss(model: Model, weights: Tensors, target: Tensors, batch: Batch) -> Loss:
    F = model.F
    obs, action, advantage, ret = batch
    log_p, value, _ = policy_and_value(model, weights, obs)
    policy = F.negative(F.elemwise_mul(advantage, pick(model, log_p, action)))
    return [actor_critic_loss(model, policy, F.square(F.elemwise_sub(value, ret)), log_p)]


def ppo_loss(model: Model, weights: Tensors, target: Tensors, batch: Batch) -> Loss:
    F, reach = model.F, model.hyper.clip_range
    obs, action, old_log_prob, advantage, ret, old_value = batch
    log_p, value, _ = policy_and_value(model, weights, obs)
    ratio = F.exp(F.elemwise_sub(pick(model, log_p, action), old_log_prob))
    clipped_ratio = bounded(model, ratio, 1 - reach, 1 + reach)
    policy = F.minimum(F.elemwise_mul(ratio, advantage), F.elemwise_mul(clipped_ratio, advantage))
    squares = F.square(F.elemwise_sub(value, ret))
    if model.hyper.value_clip:
        moved = bounded(model, F.elemwise_sub(value, old_value), -reach, reach)
        kept = F.elemwise_sub(F.elemwise_add(old_value, moved), ret)
        squares = F.maximum(squares, F.square(kept))
    return [actor_critic_loss(model, F.negative(policy), squares, log_p)]


def classifier_loss(model: Model, weights: Tensors, target: Tensors, batch: Batch) -> Loss:
    obs, label = batch
    log_p = model.F.log_softmax(q_values(model, weights, obs))
    return [mean(model, pick(model, log_p, label), -1.0)]


def actor_critic_loss(model: Model, policy_losses: Any, value_losses: Any, log_p: Any) -> Any:
    """Mean over the rows of policy loss + c_v · value loss − c_e · H(π)."""
    F, hyper = model.F, model.hyper
    terms = F.elemwise_add(policy_losses, value_losses * hyper.value_coefficient)
    if hyper.entropy_coefficient:
        negative_entropy = F.sum(F.elemwise_mul(F.exp(log_p), log_p), axis=1)
        terms = F.elemwise_add(terms, negative_entropy * hyper.entropy_coefficient)
    return mean(model, terms)


LOSSES: Dict[str, Callable[..., Loss]] = {
    "dqn": dqn_loss,
    "rainbow": rainbow_loss,
    "a2c": a2c_loss,
    "ppo": ppo_loss,
    "classifier": classifier_loss,
}


def pick(model: Model, x: Any, action: Any) -> Any:
    """x[row, action[row]] of every row."""
    return model.F.pick(x, action, axis=1)


def pick_atoms(model: Model, x: Any, action: Any) -> Any:
    """x[row, action[row], :] as a product, which has the fastest gradient."""
    F, network = model.F, model.network
    chosen = F.one_hot(action, depth=network.actions, dtype=model.dtype)
    return F.reshape(F.batch_dot(F.expand_dims(chosen, axis=1), x), shape=(-1, network.atoms))


def held(model: Model, x: Any) -> Any:
    """No gradient flows back; ops on arrays are not recorded under autograd.pause anyway."""
    return model.F.BlockGrad(x) if model.F is mx.sym else x.detach()


def bounded(model: Model, x: Any, low: float, high: float) -> Any:
    """F.clip rounds its bounds to single precision."""
    return model.F.minimum(model.F.maximum(x, low), high)


def mean(model: Model, x: Any, factor: float = 1.0) -> Any:
    average = model.F.mean(x)
    return average if factor == 1 else average * factor


def clip(model: Model, gradient: Any, one: Any) -> Any:
    """min(1, c / (‖g‖ + clip_eps)) as a 1×1 matrix, to multiply the gradient with."""
    F, hyper = model.F, model.hyper
    if hyper.max_grad_norm == 0:
        return one
    # As vectors: the product of a row and a column takes 17 µs longer.
    flat = F.reshape(gradient, shape=(-1,))
    norm = F.sqrt(F.reshape(F.dot(flat, flat), shape=(1, 1)))
    return F.minimum(hyper.max_grad_norm / (norm + hyper.clip_eps), 1.0)


def adam(
    model: Model, flat: Any, m: Any, v: Any, gradient: Any, step: Any, eps: Any, one: Any, **into: Any
) -> List[Any]:
    """reference.optimiser.adam with step = lr / (1 − β₁ᵗ) / root and eps = ε / root; it clips first.

    gemm on rows is MXNet's only fused x·a + y·b: it scales, decays and adds in one pass.
    """
    F, hyper = model.F, model.hyper
    gemm, scale = F.linalg.gemm, clip(model, gradient, one)
    in_flat, in_m, in_v = [{"out": array} for array in into.get("out", ())] or [{}, {}, {}]
    beta1, beta2 = hyper.adam_beta1, hyper.adam_beta2
    m = gemm(scale, gradient, m, alpha=1 - beta1, beta=beta1, **in_m)
    v = gemm(F.square(scale), F.square(gradient), v, alpha=1 - beta2, beta=beta2, **in_v)
    direction = F.elemwise_div(m, F.broadcast_add(F.sqrt(v), eps))
    return [gemm(step, direction, flat, alpha=-1.0, beta=1.0, **in_flat), m, v]


def sgd(
    model: Model, flat: Any, m: Any, v: Any, gradient: Any, step: Any, eps: Any, one: Any, **into: Any
) -> List[Any]:
    """p ← p − step · g; it clips first."""
    gemm, scale = model.F.linalg.gemm, clip(model, gradient, one)
    in_flat = {"out": into["out"][0]} if into.get("out") else {}
    return [gemm(model.F.elemwise_mul(step, scale), gradient, flat, alpha=-1.0, beta=1.0, **in_flat)]


OPTIMISERS: Dict[str, Callable[..., List[Any]]] = {"adam": adam, "sgd": sgd}


# What is run, as functions of sequences of arrays.


def run_forward(model: Model, *inputs: Any) -> List[Any]:
    obs, noise, rest = acting_inputs(model, inputs, model.network.noisy)
    return list(forward(model, named(model, rest)[0], obs, noise).values())


def run_choose(model: Model, *inputs: Any) -> List[Any]:
    network = model.network
    obs, noise, rest = acting_inputs(model, inputs, network.noisy or network.samples)
    return choose(model, named(model, rest)[0], obs, noise)


def run_values(model: Model, *inputs: Any) -> List[Any]:
    obs, noise, rest = acting_inputs(model, inputs, model.network.noisy)
    return [action_values(model, named(model, rest)[0], obs, noise)]


def run_loss(model: Model, *inputs: Any) -> Loss:
    size = model.batch_size
    return model.loss(model, *named(model, inputs[size:]), inputs[:size])


def run_clip(model: Model, gradient: Any, one: Any) -> List[Any]:
    return [model.F.dot(clip(model, gradient, one), gradient)]


def acting_inputs(model: Model, inputs: Batch, with_noise: bool) -> Tuple[Any, Any, Batch]:
    if not with_noise:
        return inputs[0], None, inputs[1:]
    noise = model.F.expand_dims(inputs[1], axis=0) if model.network.noisy else inputs[1]
    return inputs[0], noise, inputs[2:]
