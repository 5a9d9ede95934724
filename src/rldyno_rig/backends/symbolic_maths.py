"""What learners in Theano and PyTensor compute: network, losses, clipping and Adam, as symbolic graphs.

The two speak one language with a few words that differ: `Maths` writes the graphs, its subclasses know them.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from rldyno_rig.reference.losses import support
from rldyno_rig.spec import Network, Spec, noise_shapes, parameter_shapes

Symbols = Dict[str, Any]
Loss = Tuple[Any, List[Any]]  # the loss, and the priorities where the algorithm has them


class Maths:
    """`T` is the framework's module of tensors."""

    T: Any

    def __init__(self, spec: Spec) -> None:
        self.spec, self.network, self.hyper = spec, spec.network, spec.hyper

    def features(self, params: Symbols, torso: str, obs: Any) -> Any:
        """[batch, features] of the last convolution, or of the observation where there is none."""
        raise NotImplementedError

    def native(self, name: str, positions: np.ndarray) -> np.ndarray:
        """A parameter's canonical array, as the graph wants it."""
        raise NotImplementedError

    def observation(self) -> Any:
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

    def layout(self) -> Dict[str, np.ndarray]:
        """Name → positions in the canonical flat vector, in the graph's shapes."""
        layout, start = {}, 0
        for name, shape in parameter_shapes(self.network).items():
            positions = np.arange(start, start + math.prod(shape)).reshape(shape)
            layout[name] = self.native(name, positions)
            start += positions.size
        return layout

    def forward(self, params: Symbols, obs: Any, noise: Optional[Any] = None) -> Symbols:
        """Raw head outputs."""
        vectors = self.split_noise(noise)
        features = {}
        for torso in self.network.torsos:
            x = self.features(params, torso, obs)
            for index in range(len(self.network.hidden)):
                x = self.activate(self.dense("{}.dense{}".format(torso, index), params, x, vectors))
            features[torso] = x
        heads = self.network.heads
        return {name: self.dense(name, params, features[torso], vectors) for name, torso, _ in heads}

    def dense(self, name: str, params: Symbols, x: Any, vectors: Symbols) -> Any:
        """y = x·W + b; noisy: W + σ_W ∘ (ε_in ⊗ ε_out), b + σ_b ∘ ε_out."""
        w, b = params[name + ".w"], params[name + ".b"]
        if vectors:
            given, out = vectors[name + ".in"], vectors[name + ".out"]
            w = w + params[name + ".w_sigma"] * self.T.outer(given, out)
            b = b + params[name + ".b_sigma"] * out
        return self.T.dot(x, w) + b

    def activate(self, x: Any) -> Any:
        if self.network.activation == "tanh":
            return self.T.tanh(x)
        # The order matters: the slope of max(0, x) is 0 where the two are equal, that of max(x, 0) is 1.
        return self.T.maximum(self.constant(0, x), x)

    def split_noise(self, noise: Optional[Any]) -> Symbols:
        vectors, start = {}, 0
        for name, (size,) in noise_shapes(self.network).items():
            vectors[name] = noise[start : start + size]
            start += size
        return vectors

    def q_values(self, params: Symbols, obs: Any, noise: Optional[Any] = None) -> Any:
        return self.q_of(self.forward(params, obs, noise))

    def q_of(self, outputs: Symbols) -> Any:
        """[batch, actions], or logits [batch, actions, atoms]. Dueling: Q = V + A − mean A."""
        network = self.network
        shape = (-1, network.actions, network.atoms) if network.atoms > 1 else (-1, network.actions)
        if not network.dueling:
            return outputs["q"].reshape(shape)
        advantage, value = outputs["advantage"].reshape(shape), outputs["value"]
        value = value.dimshuffle(0, "x", 1) if network.atoms > 1 else self.column(value)
        return value + advantage - advantage.mean(1, keepdims=True)

    def choose(self, outputs: Symbols, noise: Optional[Any]) -> List[Any]:
        """The greedy action, or argmax(logits + Gumbel noise), its log-probability and the value."""
        if self.network.head == "q":
            q = self.q_of(outputs)
            return [self.T.argmax(self.expected(q) if self.network.atoms > 1 else q, 1)]
        action = self.T.argmax(outputs["policy"] + noise, 1)
        return [action, self.pick(self.log_softmax(outputs["policy"]), action), outputs["value"][:, 0]]

    def loss(self, params: Symbols, target: Symbols, batch: Any) -> Loss:
        return getattr(self, self.spec.algorithm)(params, target, batch)

    def dqn(self, params: Symbols, target: Symbols, batch: Any) -> Loss:
        """mean Huber_δ(Q(s,a) − (r + discount · Q⁻(s', a*)));  a* = argmax Q⁻, or argmax Q when double."""
        T = self.T
        q_next = self.q_values(target, batch.next_obs)
        if self.hyper.double:
            best = self.pick(q_next, T.argmax(self.q_values(params, batch.next_obs), 1))
        else:
            best = T.max(q_next, 1)
        goal = self.held(batch.reward + batch.discount * best)
        error = abs(self.pick(self.q_values(params, batch.obs), batch.action) - goal)
        delta = self.constant(self.hyper.huber_delta, error)
        small = T.minimum(error, delta)
        return T.mean(self.constant(0.5, error) * small * small + delta * (error - small)), []

    def rainbow(self, params: Symbols, target: Symbols, batch: Any) -> Loss:
        """mean weight · H(Φ(r + discount · z, p⁻(s', a*)), p(s, a));  a* = argmax Σ z · p(s', ·)."""
        on_obs, on_next, on_target = (batch.noise[row] for row in range(3))
        chooser = self.expected(self.q_values(params, batch.next_obs, on_next))
        next_logits = self.q_values(target, batch.next_obs, on_target)
        p_next = self.softmax(self.pick(next_logits, self.T.argmax(chooser, 1)))
        goal = self.held(self.project(batch.reward, batch.discount, p_next))
        logits = self.q_values(params, batch.obs, on_obs)
        cross_entropy = -(goal * self.log_softmax(self.pick(logits, batch.action))).sum(1)
        return self.T.mean(batch.weight * cross_entropy), [cross_entropy]

    def a2c(self, params: Symbols, target: Symbols, batch: Any) -> Loss:
        """mean −A · log π(a|s) + c_v · mean (V − R)² − c_e · mean H(π)."""
        outputs = self.forward(params, batch.obs)
        log_p = self.log_softmax(outputs["policy"])
        policy = -batch.advantage * self.pick(log_p, batch.action)
        return self.actor_critic(policy, self.T.sqr(outputs["value"][:, 0] - batch.ret), log_p), []

    def ppo(self, params: Symbols, target: Symbols, batch: Any) -> Loss:
        """mean −min(ρ·A, clip(ρ, 1 ± ε)·A) + c_v · value loss − c_e · mean H(π);  ρ = π(a|s) / π_old(a|s).

        value loss = mean (V − R)²; with value_clip the larger of that and (V_old + clip(V − V_old, ±ε) − R)².
        """
        T = self.T
        outputs = self.forward(params, batch.obs)
        log_p = self.log_softmax(outputs["policy"])
        ratio = T.exp(self.pick(log_p, batch.action) - batch.log_prob)
        reach = self.hyper.clip_range
        low, high, reach = (self.constant(bound, ratio) for bound in (1 - reach, 1 + reach, reach))
        policy = -T.minimum(ratio * batch.advantage, T.clip(ratio, low, high) * batch.advantage)
        value = outputs["value"][:, 0]
        squares = T.sqr(value - batch.ret)
        if self.hyper.value_clip:
            kept = batch.value + T.clip(value - batch.value, -reach, reach)
            squares = T.maximum(squares, T.sqr(kept - batch.ret))
        return self.actor_critic(policy, squares, log_p), []

    def classifier(self, params: Symbols, target: Symbols, batch: Any) -> Loss:
        """mean −log softmax(logits)[label]."""
        outputs = self.forward(params, batch.obs)
        return -self.T.mean(self.pick(self.log_softmax(outputs["q"]), batch.action)), []

    def actor_critic(self, policy: Any, squares: Any, log_p: Any) -> Any:
        value_weight = self.constant(self.hyper.value_coefficient, policy)
        entropy_weight = self.constant(self.hyper.entropy_coefficient, policy)
        entropy = -(self.T.exp(log_p) * log_p).sum(1)
        return self.T.mean(policy + value_weight * squares - entropy_weight * entropy)

    def pick(self, values: Any, index: Any) -> Any:
        """values[row, index[row]] as a masked sum, which fuses with its neighbours; indexing calls Python."""
        mask = self.T.eq(self.T.arange(values.shape[1]), index.dimshuffle(0, "x"))
        if values.ndim == 3:
            mask = mask.dimshuffle(0, 1, "x")
        return (mask * values).sum(1)

    def expected(self, logits: Any) -> Any:
        """Σ z · softmax(logits), for each action."""
        return self.T.dot(self.softmax(logits), support(self.spec).astype(logits.dtype))

    def project(self, reward: Any, discount: Any, p: Any) -> Any:
        """Distribution p, moved to reward + discount · z, back on the support (reference.losses.project)."""
        T, hyper = self.T, self.hyper
        z = support(self.spec).astype(p.dtype)
        low, high = self.constant(hyper.v_min, p), self.constant(hyper.v_max, p)
        spacing = self.constant((hyper.v_max - hyper.v_min) / (hyper.atoms - 1), p)
        moved = T.clip(reward.dimshuffle(0, "x") + discount.dimshuffle(0, "x") * z, low, high)
        position = ((moved - low) / spacing).dimshuffle(0, "x", 1)
        index = np.arange(hyper.atoms, dtype=p.dtype)[:, None]
        nearness = T.maximum(self.constant(0, p), self.constant(1, p) - abs(position - index))
        return (nearness * p.dimshuffle(0, "x", 1)).sum(2)

    def clip(self, gradient: Any) -> Any:
        """g · min(1, c / (‖g‖ + clip_eps)); unchanged when c = 0."""
        if not self.hyper.max_grad_norm:
            return gradient
        norm = self.T.sqrt(self.squares(gradient))
        largest, eps = (self.constant(c, norm) for c in (self.hyper.max_grad_norm, self.hyper.clip_eps))
        return gradient * self.T.minimum(self.constant(1, norm), largest / (norm + eps))

    def adam(self, params: Any, m: Any, v: Any, g: Any, step: Any, root: Any) -> List[Tuple[Any, Any]]:
        """m ← β₁m + (1−β₁)g;  v ← β₂v + (1−β₂)g²;  p ← p − step · m / (√v · root + ε)."""
        betas = self.hyper.adam_beta1, self.hyper.adam_beta2
        beta1, beta2, eps = (self.constant(c, g) for c in (*betas, self.hyper.adam_eps))
        rest1, rest2 = (self.constant(1 - beta, g) for beta in betas)
        new_m = beta1 * m + rest1 * g
        new_v = beta2 * v + rest2 * g * g
        return [(params, params - step * new_m / (self.T.sqrt(new_v) * root + eps)), (m, new_m), (v, new_v)]

    def constant(self, value: float, like: Any) -> Any:
        """A Python number would bring the dtype of floatX into the graph."""
        return self.T.constant(np.asarray(value, like.dtype))


def after_convolutions(network: Network) -> Tuple[str, ...]:
    """The dense layers that consume the last convolution."""
    if not network.convolutions:
        return ()
    if network.hidden:
        return tuple(torso + ".dense0" for torso in network.torsos)
    return tuple(name for name, _, _ in network.heads)
