"""Theano: symbolic graphs, optimised as a whole and compiled to C++.

Parameters, moments and gradients are each one flat shared vector that the graph sees through views: Adam is
three fused kernels instead of three per parameter, and one buffer holds the whole gradient.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import math
import os
from functools import cached_property
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from rldyno_rig.batches import BATCHES
from rldyno_rig.reference.losses import support
from rldyno_rig.reference.optimiser import step_scalars
from rldyno_rig.spec import Network, Params, Spec, noise_shapes, parameter_shapes


def _blas_flags() -> str:
    """The OpenBLAS inside SciPy's wheel, else the system's; without one Theano calls NumPy for products."""
    scipy = importlib.util.find_spec("scipy")
    home = Path(scipy.origin).parents[1] / "scipy.libs" if scipy and scipy.origin else Path()
    # THEANO_FLAGS can hold neither commas nor spaces within a value.
    for library in sorted(home.glob("libopenblas*.so")):
        if not set(", ") & set(str(library)):
            return "-L{} -l:{}".format(home, library.name)
    return "-lopenblas" if ctypes.util.find_library("openblas") else ""


os.environ["THEANO_FLAGS"] = "{},blas.ldflags={}".format(os.environ.get("THEANO_FLAGS", ""), _blas_flags())

import theano  # noqa: E402
import theano.tensor as T  # noqa: E402, N812

MODES = ("graph",)
INDEX_DTYPE = "int64"

Symbols = Dict[str, Any]


def facts() -> Dict[str, Any]:
    return {
        "versions": {"theano": theano.__version__},
        "device": "cpu",
        "blas": theano.config.blas.ldflags.rpartition("-l")[2] or "numpy",
        "threads": os.environ.get("OPENBLAS_NUM_THREADS", "all"),
        "transfer": "none: graphs read host arrays",
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> Learner:
    assert (mode, device) == ("graph", "cpu")
    return Learner(spec, params, dtype)


class Learner:
    def __init__(self, spec: Spec, params: Params, dtype: str) -> None:
        self.spec, self.dtype = spec, dtype
        # Intermediate arrays are kept from call to call (no garbage collection).
        self.mode = theano.Mode("cvm_nogc", "fast_run")
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.params, self.target, self.m, self.v = (
            theano.shared(self._flat(arrays), borrow=True) for arrays in (params, params, zeros, zeros)
        )
        self.vectors = {"params": self.params, "target": self.target, "m": self.m, "v": self.v}
        self.t = 0

    def put(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        return arrays

    def act(self, obs: np.ndarray, noise: Optional[np.ndarray] = None) -> Tuple[np.ndarray, ...]:
        return tuple(self._act(obs) if noise is None else self._act(obs, noise))

    def update(self, batch: tuple, lr: float) -> List[np.ndarray]:
        self.t += 1
        step, root = step_scalars(self.spec, self.t, lr)
        return self._update(*batch, np.array(step, self.dtype), np.array(root, self.dtype))

    def read(self, handle: List[np.ndarray]) -> Tuple[float, Optional[np.ndarray]]:
        return float(handle[0]), handle[1] if len(handle) > 1 else None

    def sync_target(self) -> None:
        np.copyto(self.target.get_value(borrow=True), self.params.get_value(borrow=True))

    def drain(self) -> None:
        pass

    def state(self) -> Dict[str, Any]:
        host = {key: vector.get_value(borrow=True) for key, vector in self.vectors.items()}
        return {**{key: self._canonical(flat) for key, flat in host.items()}, "t": self.t}

    def load(self, state: Dict[str, Any]) -> None:
        for key, vector in self.vectors.items():
            vector.set_value(self._flat(state[key]), borrow=True)
        self.t = state["t"]

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        outputs = self._forward(obs) if noise is None else self._forward(obs, noise)
        return dict(zip((name for name, _, _ in self.spec.network.heads), outputs))

    def grads(self, batch: tuple) -> Tuple[float, Params, Params]:
        loss, raw, clipped = self._grads(*batch)
        return float(loss), self._canonical(raw), self._canonical(clipped)

    # Each function compiles when it is first used: proofs need all of them, training only two.

    @cached_property
    def _act(self) -> Any:
        inputs = self._acting_inputs()
        obs, noise = (*inputs, None)[:2]
        network = self.spec.network
        outputs = _forward(network, self._views(self.params), obs, noise if network.noisy else None)
        return self._function(inputs, _choose(self.spec, outputs, noise))

    @cached_property
    def _update(self) -> Any:
        inputs = self._batch_inputs()
        loss, priorities, gradient = self._loss_and_gradient(inputs)
        clipped = _clip(self.spec.hyper, gradient)
        step, root = (T.scalar(name, dtype=self.dtype) for name in ("step", "root"))
        if self.spec.optimiser == "sgd":
            updates = [(self.params, self.params - step * clipped)]
        else:
            updates = _adam(self.spec.hyper, self.params, self.m, self.v, clipped, step, root)
        return self._function([*inputs, step, root], [loss, *priorities], updates)

    @cached_property
    def _forward(self) -> Any:
        inputs = self._acting_inputs(network_only=True)
        outputs = _forward(self.spec.network, self._views(self.params), *(*inputs, None)[:2])
        return self._function(inputs, list(outputs.values()))

    @cached_property
    def _grads(self) -> Any:
        inputs = self._batch_inputs()
        loss, _, gradient = self._loss_and_gradient(inputs)
        return self._function(inputs, [loss, gradient, _clip(self.spec.hyper, gradient)])

    def _loss_and_gradient(self, inputs: List[Any]) -> Tuple[Any, List[Any], Any]:
        params, batch = self._views(self.params), BATCHES[self.spec.algorithm](*inputs)
        loss, priorities = _LOSSES[self.spec.algorithm](self.spec, params, self._views(self.target), batch)
        grads = T.grad(loss, list(params.values()))
        return loss, priorities, T.concatenate([g.flatten() for g in grads])

    def _function(self, inputs: List[Any], outputs: List[Any], updates: Any = ()) -> Any:
        function = theano.function(inputs, outputs, updates=updates, mode=self.mode, on_unused_input="ignore")
        function.trust_input = True
        return function

    def _acting_inputs(self, network_only: bool = False) -> List[Any]:
        network = self.spec.network
        inputs = [_observation(network)]
        if network.noisy:
            inputs.append(T.vector("noise", self.dtype))
        elif network.head == "actor_critic" and not network_only:
            inputs.append(T.matrix("noise", self.dtype))
        return inputs

    def _batch_inputs(self) -> List[Any]:
        kinds = {
            "obs": lambda name: _observation(self.spec.network),
            "next_obs": lambda name: _observation(self.spec.network),
            "action": lambda name: T.vector(name, INDEX_DTYPE),
            "noise": lambda name: T.matrix(name, self.dtype),
        }
        fields = BATCHES[self.spec.algorithm]._fields
        return [kinds.get(name, lambda name: T.vector(name, self.dtype))(name) for name in fields]

    def _views(self, flat: Any) -> Symbols:
        views, start = {}, 0
        for name, positions in _layout(self.spec.network).items():
            views[name] = flat[start : start + positions.size].reshape(positions.shape)
            start += positions.size
        return views

    def _flat(self, arrays: Params) -> np.ndarray:
        order = np.concatenate([positions.ravel() for positions in _layout(self.spec.network).values()])
        return np.concatenate([array.ravel() for array in arrays.values()])[order].astype(self.dtype)

    def _canonical(self, flat: np.ndarray) -> Params:
        order = np.concatenate([positions.ravel() for positions in _layout(self.spec.network).values()])
        canonical = np.empty_like(flat)
        canonical[order] = flat
        shapes = parameter_shapes(self.spec.network)
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
        parts = np.split(canonical, ends[:-1])
        return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts)}


def _layout(network: Network) -> Dict[str, np.ndarray]:
    """Name → positions in the canonical flat vector, in the graph's shapes: convolutions are OIHW."""
    layout, start = {}, 0
    for name, shape in parameter_shapes(network).items():
        positions = np.arange(start, start + math.prod(shape)).reshape(shape)
        layout[name] = positions.transpose(3, 2, 0, 1) if len(shape) == 4 else positions
        start += positions.size
    return layout


def _observation(network: Network) -> Any:
    return T.TensorType(network.observation_dtype, (False,) * (1 + len(network.observation_shape)))()


def _forward(network: Network, params: Symbols, obs: Any, noise: Optional[Any]) -> Symbols:
    """Raw head outputs."""
    dtype = next(iter(params.values())).dtype
    vectors = _split_noise(network, noise)
    features = {}
    for torso in network.torsos:
        x = obs.astype(dtype)
        if network.observation_dtype == "uint8":
            x = x / _constant(255, x)
        for index, (_, _, stride) in enumerate(network.convolutions):
            name = "{}.conv{}".format(torso, index)
            y = T.nnet.conv2d(x, params[name + ".w"], subsample=(stride, stride), filter_flip=False)
            x = _activate(network, y + params[name + ".b"].dimshuffle("x", 0, "x", "x"))
        x = x.flatten(2)
        for index in range(len(network.hidden)):
            x = _activate(network, _dense("{}.dense{}".format(torso, index), params, x, vectors))
        features[torso] = x
    return {name: _dense(name, params, features[torso], vectors) for name, torso, _ in network.heads}


def _dense(name: str, params: Symbols, x: Any, vectors: Symbols) -> Any:
    """y = x·W + b; noisy: W + σ_W ∘ (ε_in ⊗ ε_out), b + σ_b ∘ ε_out."""
    w, b = params[name + ".w"], params[name + ".b"]
    if vectors:
        given, out = vectors[name + ".in"], vectors[name + ".out"]
        w = w + params[name + ".w_sigma"] * T.outer(given, out)
        b = b + params[name + ".b_sigma"] * out
    return T.dot(x, w) + b


def _activate(network: Network, x: Any) -> Any:
    # The order matters: the slope of max(0, x) is 0 where the two are equal, that of max(x, 0) is 1.
    return T.maximum(_constant(0, x), x) if network.activation == "relu" else T.tanh(x)


def _split_noise(network: Network, noise: Optional[Any]) -> Symbols:
    vectors, start = {}, 0
    for name, (size,) in noise_shapes(network).items():
        vectors[name] = noise[start : start + size]
        start += size
    return vectors


def _q_values(network: Network, outputs: Symbols) -> Any:
    """[batch, actions] or, distributional, logits [batch, actions, atoms]. Dueling: Q = V + A − mean A."""
    shape = (-1, network.actions, network.atoms) if network.atoms > 1 else (-1, network.actions)
    if not network.dueling:
        return outputs["q"].reshape(shape)
    advantage = outputs["advantage"].reshape(shape)
    value = outputs["value"].dimshuffle(0, "x", 1) if network.atoms > 1 else outputs["value"]
    if network.atoms == 1:
        value = T.addbroadcast(value, 1)
    return value + advantage - advantage.mean(1, keepdims=True)


def _choose(spec: Spec, outputs: Symbols, noise: Optional[Any]) -> List[Any]:
    """The greedy action, or argmax(logits + Gumbel noise) with its log-probability and the state's value."""
    if spec.network.head == "q":
        q = _q_values(spec.network, outputs)
        return [T.argmax(_expected(spec, q) if spec.network.atoms > 1 else q, 1)]
    action = T.argmax(outputs["policy"] + noise, 1)
    return [action, _pick(T.nnet.logsoftmax(outputs["policy"]), action), outputs["value"][:, 0]]


def _dqn(spec: Spec, params: Symbols, target: Symbols, batch: Any) -> Tuple[Any, List[Any]]:
    """mean Huber_δ(Q(s,a) − (r + discount · Q⁻(s', a*)));  a* = argmax Q⁻, or argmax Q when double."""
    network = spec.network
    q_next = _q_values(network, _forward(network, target, batch.next_obs, None))
    if spec.hyper.double:
        chooser = _q_values(network, _forward(network, params, batch.next_obs, None))
        best = _pick(q_next, T.argmax(chooser, 1))
    else:
        best = T.max(q_next, 1)
    goal = theano.gradient.disconnected_grad(batch.reward + batch.discount * best)
    q = _q_values(network, _forward(network, params, batch.obs, None))
    error = abs(_pick(q, batch.action) - goal)
    delta = _constant(spec.hyper.huber_delta, error)
    small = T.minimum(error, delta)
    return T.mean(_constant(0.5, error) * small * small + delta * (error - small)), []


def _rainbow(spec: Spec, params: Symbols, target: Symbols, batch: Any) -> Tuple[Any, List[Any]]:
    """mean weight · cross-entropy(Φ(r + discount · z, p⁻(s', a*)), p(s, a));  a* = argmax Σ z · p(s', ·)."""
    network = spec.network
    on_obs, on_next, on_target = (batch.noise[row] for row in range(3))
    chooser = _expected(spec, _q_values(network, _forward(network, params, batch.next_obs, on_next)))
    next_logits = _q_values(network, _forward(network, target, batch.next_obs, on_target))
    p_next = T.nnet.softmax(_pick(next_logits, T.argmax(chooser, 1)))
    goal = theano.gradient.disconnected_grad(_project(spec, batch.reward, batch.discount, p_next))
    logits = _q_values(network, _forward(network, params, batch.obs, on_obs))
    cross_entropy = -(goal * T.nnet.logsoftmax(_pick(logits, batch.action))).sum(1)
    return T.mean(batch.weight * cross_entropy), [cross_entropy]


def _a2c(spec: Spec, params: Symbols, target: Symbols, batch: Any) -> Tuple[Any, List[Any]]:
    """mean −A · log π(a|s) + c_v · mean (V − R)² − c_e · mean H(π)."""
    outputs = _forward(spec.network, params, batch.obs, None)
    log_p = T.nnet.logsoftmax(outputs["policy"])
    policy = -batch.advantage * _pick(log_p, batch.action)
    return _actor_critic(spec, policy, T.sqr(outputs["value"][:, 0] - batch.ret), log_p), []


def _ppo(spec: Spec, params: Symbols, target: Symbols, batch: Any) -> Tuple[Any, List[Any]]:
    """mean −min(ρ·A, clip(ρ, 1 ± ε)·A) + c_v · value loss − c_e · mean H(π);  ρ = π(a|s) / π_old(a|s).

    value loss = mean (V − R)²; with value_clip the larger of that and (V_old + clip(V − V_old, ±ε) − R)².
    """
    outputs = _forward(spec.network, params, batch.obs, None)
    log_p = T.nnet.logsoftmax(outputs["policy"])
    ratio = T.exp(_pick(log_p, batch.action) - batch.log_prob)
    reach = spec.hyper.clip_range
    low, high, reach = (_constant(bound, ratio) for bound in (1 - reach, 1 + reach, reach))
    policy = -T.minimum(ratio * batch.advantage, T.clip(ratio, low, high) * batch.advantage)
    value = outputs["value"][:, 0]
    squares = T.sqr(value - batch.ret)
    if spec.hyper.value_clip:
        kept = batch.value + T.clip(value - batch.value, -reach, reach)
        squares = T.maximum(squares, T.sqr(kept - batch.ret))
    return _actor_critic(spec, policy, squares, log_p), []


def _classifier(spec: Spec, params: Symbols, target: Symbols, batch: Any) -> Tuple[Any, List[Any]]:
    """mean −log softmax(logits)[label]."""
    outputs = _forward(spec.network, params, batch.obs, None)
    return -T.mean(_pick(T.nnet.logsoftmax(outputs["q"]), batch.action)), []


def _actor_critic(spec: Spec, policy: Any, squares: Any, log_p: Any) -> Any:
    value_weight = _constant(spec.hyper.value_coefficient, policy)
    entropy_weight = _constant(spec.hyper.entropy_coefficient, policy)
    entropy = -(T.exp(log_p) * log_p).sum(1)
    return T.mean(policy + value_weight * squares - entropy_weight * entropy)


_LOSSES: Dict[str, Any] = {
    "dqn": _dqn,
    "rainbow": _rainbow,
    "a2c": _a2c,
    "ppo": _ppo,
    "classifier": _classifier,
}


def _pick(values: Any, index: Any) -> Any:
    """values[row, index[row]], as a masked sum: it fuses with its neighbours, where indexing calls Python."""
    index = index.dimshuffle(0, "x")
    mask = T.eq(T.arange(values.shape[1]), index)
    if values.ndim == 3:
        mask = mask.dimshuffle(0, 1, "x")
    return (mask * values).sum(1)


def _expected(spec: Spec, logits: Any) -> Any:
    """Σ z · softmax(logits), for each action."""
    flat = T.nnet.softmax(logits.reshape((-1, spec.hyper.atoms)))
    return T.dot(flat, support(spec).astype(flat.dtype)).reshape((-1, spec.network.actions))


def _project(spec: Spec, reward: Any, discount: Any, p: Any) -> Any:
    """Distribution p, moved to reward + discount · z, back on the support (reference.losses.project)."""
    hyper = spec.hyper
    z = support(spec).astype(p.dtype)
    low, high = _constant(hyper.v_min, p), _constant(hyper.v_max, p)
    spacing = _constant((hyper.v_max - hyper.v_min) / (hyper.atoms - 1), p)
    moved = T.clip(reward.dimshuffle(0, "x") + discount.dimshuffle(0, "x") * z, low, high)
    position = ((moved - low) / spacing).dimshuffle(0, "x", 1)
    index = np.arange(hyper.atoms, dtype=p.dtype)[:, None]
    nearness = T.maximum(_constant(0, p), _constant(1, p) - abs(position - index))
    return (nearness * p.dimshuffle(0, "x", 1)).sum(2)


def _clip(hyper: Any, gradient: Any) -> Any:
    """g · min(1, c / (‖g‖ + clip_eps)); unchanged when c = 0."""
    if not hyper.max_grad_norm:
        return gradient
    norm = T.sqrt(T.dot(gradient, gradient))
    largest, eps = _constant(hyper.max_grad_norm, norm), _constant(hyper.clip_eps, norm)
    return gradient * T.minimum(_constant(1, norm), largest / (norm + eps))


def _adam(hyper: Any, params: Any, m: Any, v: Any, g: Any, step: Any, root: Any) -> List[Tuple[Any, Any]]:
    """m ← β₁m + (1−β₁)g;  v ← β₂v + (1−β₂)g²;  p ← p − step · m / (√v · root + ε)."""
    beta1, beta2, eps = (_constant(c, g) for c in (hyper.adam_beta1, hyper.adam_beta2, hyper.adam_eps))
    rest1, rest2 = (_constant(1 - beta, g) for beta in (hyper.adam_beta1, hyper.adam_beta2))
    new_m = beta1 * m + rest1 * g
    new_v = beta2 * v + rest2 * g * g
    return [(params, params - step * new_m / (T.sqrt(new_v) * root + eps)), (m, new_m), (v, new_v)]


def _constant(value: float, like: Any) -> Any:
    """A Python number would bring the dtype of floatX into the graph."""
    return T.constant(np.asarray(value, like.dtype))
