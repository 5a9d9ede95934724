"""What the learners in Theano and PyTensor compute, as symbolic graphs.

The two frameworks differ in a few functions: `Model` lists them, its subclasses implement them.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from rldyno_rig.layout import Layout, Native, canonical, torso_layers
from rldyno_rig.reference.losses import support
from rldyno_rig.spec import CATEGORICAL, QUANTILES, SINGLE, Spec, noise_shapes

Symbols = Dict[str, Any]
Batch = Tuple[Any, ...]
Loss = Tuple[Any, List[Any]]  # the loss, and the priorities where the algorithm has them
Updates = List[Tuple[Any, Any]]  # (shared variable, its new value)


class Model:
    """What the functions below need to know of a spec, and what differs between the frameworks."""

    T: Any
    """The framework's module of tensors."""
    native: Native = staticmethod(canonical)
    """How the graph wants the weights."""
    tanh: Any

    def __init__(self, spec: Spec) -> None:
        self.spec, self.network = spec, spec.network
        self.hyper = spec.hyper
        self.loss, self.step = LOSSES[spec.algorithm], OPTIMISERS[spec.optimiser]
        self.expected = EXPECTED[self.network.support]
        self.torsos = tuple((torso, *torso_layers(self.network, torso)) for torso in self.network.torsos)
        self.layout = Layout(self.network, self.native)

    def features(self, weights: Symbols, torso: str, obs: Any) -> Any:
        """[batch, features] of the last convolution, or of the observation where there is none."""
        raise NotImplementedError

    def observation(self) -> Any:
        """An input variable for observations."""
        raise NotImplementedError

    def softmax(self, x: Any) -> Any:
        raise NotImplementedError

    def log_softmax(self, x: Any) -> Any:
        raise NotImplementedError

    def held(self, x: Any) -> Any:
        """x, but the gradient does not flow through it."""
        raise NotImplementedError

    def squares(self, vector: Any) -> Any:
        """Their sum."""
        return self.T.dot(vector, vector)

    def column(self, x: Any) -> Any:
        """[batch, 1], to be added to [batch, n]."""
        return x

    def noise_rows(self, name: str, vector: Any) -> Any:
        """The noise of a layer's inputs, in the order of the rows of its weights."""
        return vector

    def mean_of(self, z: np.ndarray, logits: Any) -> Any:
        """Σ z · softmax(logits): [batch, actions] from [batch, actions, atoms]."""
        return self.T.dot(self.softmax(logits), z)

    def constant(self, value: float, like: Any) -> Any:
        """A Python number would bring the dtype of floatX into the graph."""
        return self.T.constant(np.asarray(value, like.dtype))


def forward(model: Model, weights: Symbols, obs: Any, noise: Optional[Any] = None) -> Symbols:
    """Raw outputs of the heads."""
    vectors = split_noise(model, noise)
    features = {}
    for torso, _, denses in model.torsos:
        x = model.features(weights, torso, obs)
        for name in denses:
            x = activate(model, dense(model, name, weights, x, vectors))
        features[torso] = x
    heads = model.network.heads
    return {name: dense(model, name, weights, features[torso], vectors) for name, torso, _ in heads}


def dense(model: Model, name: str, weights: Symbols, x: Any, vectors: Symbols) -> Any:
    """y = x·W + b; noisy: W + σ_W ∘ (ε_in ⊗ ε_out), b + σ_b ∘ ε_out."""
    w, b = weights[name + ".w"], weights[name + ".b"]
    if vectors:
        e_in, e_out = vectors[name + ".in"], vectors[name + ".out"]
        w = w + weights[name + ".w_sigma"] * model.T.outer(e_in, e_out)
        b = b + weights[name + ".b_sigma"] * e_out
    return model.T.dot(x, w) + b


def activate(model: Model, x: Any) -> Any:
    if model.network.activation == "tanh":
        return model.tanh(x)
    # The order matters: the slope of max(0, x) is 0 where the two are equal, that of max(x, 0) is 1.
    return model.T.maximum(model.constant(0, x), x)


def split_noise(model: Model, noise: Any) -> Symbols:
    """One flat vector → the named noise vectors of each layer; none of a network without noise."""
    vectors, start = {}, 0
    for name, (size,) in noise_shapes(model.network).items():
        vectors[name] = model.noise_rows(name, noise[start : start + size])
        start += size
    return vectors


def q_values(model: Model, weights: Symbols, obs: Any, noise: Optional[Any] = None) -> Any:
    """[batch, actions], or [batch, actions, atoms] of a distribution. Dueling: Q = V + A − mean A."""
    network = model.network
    outputs = forward(model, weights, obs, noise)
    shape = (-1, network.actions, network.atoms) if network.atoms > 1 else (-1, network.actions)
    if not network.dueling:
        return outputs["q"].reshape(shape)
    advantage, value = outputs["advantage"].reshape(shape), outputs["value"]
    value = value.dimshuffle(0, "x", 1) if network.atoms > 1 else model.column(value)
    return value + advantage - advantage.mean(1, keepdims=True)


def single(model: Model, q: Any) -> Any:
    return q


def categorical(model: Model, logits: Any) -> Any:
    """Σ z · softmax(logits)."""
    return model.mean_of(support(model.spec).astype(logits.dtype), logits)


def quantiles(model: Model, points: Any) -> Any:
    """Their mean."""
    return points.mean(2)


EXPECTED: Dict[str, Callable[..., Any]] = {SINGLE: single, CATEGORICAL: categorical, QUANTILES: quantiles}
"""Support of the head → value of each action, [batch, actions], from `q_values`."""


def policy_and_value(model: Model, weights: Symbols, obs: Any) -> Tuple[Any, Any, Any]:
    """(log-probability of every action, state value, logits)."""
    outputs = forward(model, weights, obs)
    return model.log_softmax(outputs["policy"]), outputs["value"][:, 0], outputs["policy"]


def action_values(model: Model, weights: Symbols, obs: Any, noise: Optional[Any] = None) -> Any:
    """[batch, actions]."""
    return model.expected(model, q_values(model, weights, obs, noise))


def choose(model: Model, weights: Symbols, obs: Any, noise: Optional[Any] = None) -> List[Any]:
    """What `act` returns: the greedy action, or a sampled one with its log-probability and the value."""
    if not model.network.samples:
        return [model.T.argmax(action_values(model, weights, obs, noise), 1)]
    log_p, value, logits = policy_and_value(model, weights, obs)
    action = model.T.argmax(logits + noise, 1)
    return [action, pick(model, log_p, action), value]


def dqn_loss(model: Model, weights: Symbols, target: Symbols, batch: Batch) -> Loss:
    """mean Huber_δ(Q(s,a) − (r + discount · Q⁻(s', a*)));  a* = argmax Q⁻, or argmax Q when double."""
    T = model.T
    obs, action, reward, discount, next_obs = batch
    q_next = q_values(model, target, next_obs)
    if model.hyper.double:
        best = pick(model, q_next, T.argmax(q_values(model, weights, next_obs), 1))
    else:
        best = T.max(q_next, 1)
    goal = model.held(reward + discount * best)
    error = abs(pick(model, q_values(model, weights, obs), action) - goal)
    delta = model.constant(model.hyper.huber_delta, error)
    small = T.minimum(error, delta)
    return T.mean(model.constant(0.5, error) * small * small + delta * (error - small)), []


def rainbow_loss(model: Model, weights: Symbols, target: Symbols, batch: Batch) -> Loss:
    """mean weight · H(Φ(r + discount · z, p⁻(s', a*)), p(s, a));  a* = argmax Σ z · p(s', ·)."""
    obs, action, reward, discount, next_obs, weight, noise = batch
    on_obs, on_next, on_target = (noise[row] for row in range(3))
    chooser = model.expected(model, q_values(model, weights, next_obs, on_next))
    next_logits = q_values(model, target, next_obs, on_target)
    p_next = model.softmax(pick(model, next_logits, model.T.argmax(chooser, 1)))
    goal = model.held(project(model, reward, discount, p_next))
    logits = q_values(model, weights, obs, on_obs)
    cross_entropy = -(goal * model.log_softmax(pick(model, logits, action))).sum(1)
    return model.T.mean(weight * cross_entropy), [cross_entropy]


def project(model: Model, reward: Any, discount: Any, p: Any) -> Any:
    """Distribution p, moved to reward + discount · z, back on the support (Bellemare et al. 2017)."""
    T, hyper = model.T, model.hyper
    z = support(model.spec).astype(p.dtype)
    low, high = model.constant(hyper.v_min, p), model.constant(hyper.v_max, p)
    spacing = model.constant((hyper.v_max - hyper.v_min) / (hyper.atoms - 1), p)
    moved = T.clip(reward.dimshuffle(0, "x") + discount.dimshuffle(0, "x") * z, low, high)
    position = ((moved - low) / spacing).dimshuffle(0, "x", 1)
    index = np.arange(hyper.atoms, dtype=p.dtype)[:, None]
    nearness = T.maximum(model.constant(0, p), model.constant(1, p) - abs(position - index))
    return (nearness * p.dimshuffle(0, "x", 1)).sum(2)


def a2c_loss(model: Model, weights: Symbols, target: Symbols, batch: Batch) -> Loss:
    """mean −A · log π(a|s) + c_v · mean (V − R)² − c_e · mean H(π)."""
    obs, action, advantage, ret = batch
    log_p, value, _ = policy_and_value(model, weights, obs)
    policy = -advantage * pick(model, log_p, action)
    return actor_critic_loss(model, policy, model.T.sqr(value - ret), log_p), []


def ppo_loss(model: Model, weights: Symbols, target: Symbols, batch: Batch) -> Loss:
    """mean −min(ρ·A, clip(ρ, 1 ± ε)·A) + c_v · value loss − c_e · mean H(π);  ρ = π(a|s) / π_old(a|s).

    value loss = mean (V − R)²; with value_clip the larger of that and (V_old + clip(V − V_old, ±ε) − R)².
    """
    T = model.T
    obs, action, old_log_prob, advantage, ret, old_value = batch
    log_p, value, _ = policy_and_value(model, weights, obs)
    ratio = T.exp(pick(model, log_p, action) - old_log_prob)
    reach = model.hyper.clip_range
    low, high, reach = (model.constant(bound, ratio) for bound in (1 - reach, 1 + reach, reach))
    policy = -T.minimum(ratio * advantage, T.clip(ratio, low, high) * advantage)
    squares = T.sqr(value - ret)
    if model.hyper.value_clip:
        kept = old_value + T.clip(value - old_value, -reach, reach)
        squares = T.maximum(squares, T.sqr(kept - ret))
    return actor_critic_loss(model, policy, squares, log_p), []


def classifier_loss(model: Model, weights: Symbols, target: Symbols, batch: Batch) -> Loss:
    """mean −log softmax(logits)[label]."""
    obs, label = batch
    outputs = forward(model, weights, obs)
    return -model.T.mean(pick(model, model.log_softmax(outputs["q"]), label)), []


def actor_critic_loss(model: Model, policy_losses: Any, value_losses: Any, log_p: Any) -> Any:
    """Mean over the rows of policy loss + c_v · value loss − c_e · H(π)."""
    value_weight = model.constant(model.hyper.value_coefficient, policy_losses)
    entropy_weight = model.constant(model.hyper.entropy_coefficient, policy_losses)
    entropy = -(model.T.exp(log_p) * log_p).sum(1)
    return model.T.mean(policy_losses + value_weight * value_losses - entropy_weight * entropy)


LOSSES: Dict[str, Callable[..., Loss]] = {
    "dqn": dqn_loss,
    "rainbow": rainbow_loss,
    "a2c": a2c_loss,
    "ppo": ppo_loss,
    "classifier": classifier_loss,
}


def pick(model: Model, x: Any, action: Any) -> Any:
    """x[row, action[row]] as a masked sum, which fuses with its neighbours; indexing calls Python."""
    mask = model.T.eq(model.T.arange(x.shape[1]), action.dimshuffle(0, "x"))
    if x.ndim == 3:
        mask = mask.dimshuffle(0, 1, "x")
    return (mask * x).sum(1)


def gradient(model: Model, weights: Symbols, target: Symbols, batch: Batch) -> Tuple[List[Any], Any]:
    """([loss, priorities where the algorithm has them], flat gradient)."""
    loss, priorities = model.loss(model, weights, target, batch)
    pieces = model.T.grad(loss, list(weights.values()))
    return [loss, *priorities], model.T.concatenate([piece.flatten() for piece in pieces])


def clip(model: Model, gradient: Any) -> Any:
    """g · min(1, c / (‖g‖ + clip_eps)); unchanged when c = 0."""
    if not model.hyper.max_grad_norm:
        return gradient
    norm = model.T.sqrt(model.squares(gradient))
    largest, eps = (model.constant(c, norm) for c in (model.hyper.max_grad_norm, model.hyper.clip_eps))
    return gradient * model.T.minimum(model.constant(1, norm), largest / (norm + eps))


def adam(model: Model, flat: Any, m: Any, v: Any, gradient: Any, step: Any, root: Any) -> Updates:
    """m ← β₁m + (1−β₁)g;  v ← β₂v + (1−β₂)g²;  p ← p − step · m / (√v · root + ε)."""
    g, betas = gradient, (model.hyper.adam_beta1, model.hyper.adam_beta2)
    beta1, beta2, eps = (model.constant(c, g) for c in (*betas, model.hyper.adam_eps))
    rest1, rest2 = (model.constant(1 - beta, g) for beta in betas)
    new_m = beta1 * m + rest1 * g
    new_v = beta2 * v + rest2 * g * g
    return [(flat, flat - step * new_m / (model.T.sqrt(new_v) * root + eps)), (m, new_m), (v, new_v)]


def sgd(model: Model, flat: Any, m: Any, v: Any, gradient: Any, step: Any, root: Any) -> Updates:
    """p ← p − step · g."""
    return [(flat, flat - step * gradient)]


OPTIMISERS: Dict[str, Callable[..., Updates]] = {"adam": adam, "sgd": sgd}
