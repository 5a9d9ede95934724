"""PyTensor, the living heir of Theano: symbolic graphs, optimised as a whole, compiled by Numba or as C++.

Parameters, moments and gradients are each one flat shared vector that the graph sees through views: Adam is
one fused kernel instead of one per parameter, and one buffer holds the whole gradient.
"""

from __future__ import annotations

import importlib.util
import math
import os
from functools import cached_property
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from rldyno_rig.batches import BATCHES
from rldyno_rig.reference.losses import support
from rldyno_rig.reference.optimiser import step_scalars
from rldyno_rig.spec import Network, Params, Spec, convolution_outputs, noise_shapes, parameter_shapes


def _flags() -> str:
    """Let the C backend use the OpenBLAS inside SciPy's wheel, whose routines carry a prefix.

    Without it the C backend calls NumPy for every product. Numba asks SciPy by itself.
    """
    scipy = importlib.util.find_spec("scipy")
    home = Path(scipy.origin).parents[1] / "scipy.libs" if scipy and scipy.origin else Path()
    # PYTENSOR_FLAGS can hold neither commas nor spaces within a value.
    for library in sorted(home.glob("libscipy_openblas-*.so")):
        if not set(", ") & set(str(library)):
            routines = [kind + name for kind in "sd" for name in ("gemm_", "gemv_", "ger_", "dot_")]
            renamed = " ".join("-D{0}=scipy_{0}".format(routine) for routine in routines)
            return "blas__ldflags=-L{} -l:{},gcc__cxxflags={}".format(home, library.name, renamed)
    return ""


os.environ["PYTENSOR_FLAGS"] = ",".join(filter(None, (os.environ.get("PYTENSOR_FLAGS"), _flags())))

import numba  # noqa: E402
import pytensor  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
from pytensor.compile.mode import Mode, get_mode  # noqa: E402
from pytensor.gradient import disconnected_grad  # noqa: E402
from pytensor.tensor.special import log_softmax, softmax  # noqa: E402

MODES = ("graph-numba", "graph-c")
INDEX_DTYPE = "int64"

Symbols = Dict[str, Any]


def facts() -> Dict[str, Any]:
    return {
        "versions": {"pytensor": pytensor.__version__, "numba": numba.__version__},
        "device": "cpu",
        "blas": {
            "graph-numba": "scipy",
            "graph-c": pytensor.config.blas__ldflags.rpartition("-l")[2] or "numpy",
        },
        "fastmath": pytensor.config.numba__fastmath,
        "threads": os.environ.get("OPENBLAS_NUM_THREADS", "all"),
        "transfer": "none: graphs read host arrays",
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> Learner:
    assert device == "cpu"
    return Learner(spec, params, mode, dtype)


class Learner:
    def __init__(self, spec: Spec, params: Params, mode: str, dtype: str) -> None:
        self.spec, self.dtype = spec, dtype
        # The C mode keeps its intermediate arrays from call to call (no garbage collection).
        self.mode = {"graph-numba": get_mode("NUMBA"), "graph-c": Mode("cvm_nogc", "fast_run")}[mode]
        # An update takes 88 µs this way and 111 the other, for Numba copies what BLAS multiplies; C 180, 163.
        self.squares = {"graph-numba": lambda g: pt.sqr(g).sum(), "graph-c": lambda g: pt.dot(g, g)}[mode]
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.params, self.target, self.m, self.v = (
            pytensor.shared(self._flat(arrays), borrow=True) for arrays in (params, params, zeros, zeros)
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
        clipped = _clip(self.spec.hyper, gradient, self.squares)
        step, root = (pt.scalar(name, dtype=self.dtype) for name in ("step", "root"))
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
        return self._function(inputs, [loss, gradient, _clip(self.spec.hyper, gradient, self.squares)])

    def _loss_and_gradient(self, inputs: List[Any]) -> Tuple[Any, List[Any], Any]:
        params, batch = self._views(self.params), BATCHES[self.spec.algorithm](*inputs)
        loss, priorities = _LOSSES[self.spec.algorithm](self.spec, params, self._views(self.target), batch)
        grads = pt.grad(loss, list(params.values()))
        return loss, priorities, pt.concatenate([g.flatten() for g in grads])

    def _function(self, inputs: List[Any], outputs: List[Any], updates: Any = ()) -> Any:
        function = pytensor.function(
            inputs, outputs, updates=updates, mode=self.mode, on_unused_input="ignore"
        )
        function.trust_input = True
        return function

    def _acting_inputs(self, network_only: bool = False) -> List[Any]:
        network = self.spec.network
        inputs = [_observation(network)]
        if network.noisy:
            inputs.append(pt.vector("noise", dtype=self.dtype))
        elif network.head == "actor_critic" and not network_only:
            inputs.append(pt.matrix("noise", dtype=self.dtype))
        return inputs

    def _batch_inputs(self) -> List[Any]:
        kinds = {
            "obs": lambda name: _observation(self.spec.network),
            "next_obs": lambda name: _observation(self.spec.network),
            "action": lambda name: pt.vector(name, dtype=INDEX_DTYPE),
            "noise": lambda name: pt.matrix(name, dtype=self.dtype),
        }
        fields = BATCHES[self.spec.algorithm]._fields
        return [kinds.get(name, lambda name: pt.vector(name, dtype=self.dtype))(name) for name in fields]

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
    """Name → positions in the canonical flat vector, in the graph's shapes.

    Convolutions are matrices that multiply what `_windows` makes; dense layers after them take features
    channel-last.
    """
    layout, start = {}, 0
    after_convolutions = _after_convolutions(network)
    for name, shape in parameter_shapes(network).items():
        positions = np.arange(start, start + math.prod(shape)).reshape(shape)
        start += positions.size
        if len(shape) == 4:
            _, kernel, stride = network.convolutions[int(name.split(".conv")[1].split(".")[0])]
            block = math.gcd(kernel, stride)
            count = kernel // block
            positions = positions.reshape(count, block, count, block, *shape[2:])
            positions = positions.transpose(5, 0, 2, 1, 3, 4).reshape(shape[3], -1)
        elif len(shape) == 2 and name.rpartition(".")[0] in after_convolutions:
            channels, height, width = convolution_outputs(network)[-1]
            positions = positions.reshape(channels, height, width, -1).transpose(1, 2, 0, 3).reshape(shape)
        layout[name] = positions
    return layout


def _after_convolutions(network: Network) -> Tuple[str, ...]:
    """The dense layers that consume the last convolution."""
    if not network.convolutions:
        return ()
    if network.hidden:
        return tuple(torso + ".dense0" for torso in network.torsos)
    return tuple(name for name, _, _ in network.heads)


def _observation(network: Network) -> Any:
    return pt.tensor(dtype=network.observation_dtype, shape=(None, *network.observation_shape))


def _forward(network: Network, params: Symbols, obs: Any, noise: Optional[Any]) -> Symbols:
    """Raw head outputs."""
    dtype = next(iter(params.values())).dtype
    vectors = _split_noise(network, noise)
    features = {}
    for torso in network.torsos:
        x = _features(network, params, torso, obs) if network.convolutions else obs.astype(dtype)
        for index in range(len(network.hidden)):
            x = _activate(network, _dense("{}.dense{}".format(torso, index), params, x, vectors))
        features[torso] = x
    return {name: _dense(name, params, features[torso], vectors) for name, torso, _ in network.heads}


def _features(network: Network, params: Symbols, torso: str, obs: Any) -> Any:
    """Convolutions as products of windows and weights: PyTensor has no strided convolution of batches."""
    dtype = next(iter(params.values())).dtype
    channels = network.observation_shape[0]
    x = obs
    for index, (filters, kernel, stride) in enumerate(network.convolutions):
        _, rows, columns = convolution_outputs(network)[index]
        block = math.gcd(kernel, stride)
        used = ((rows - 1) * stride + kernel, (columns - 1) * stride + kernel)
        tall, wide = used[0] // block, used[1] // block
        # Pixels of a block become channels, so that fewer and longer pieces make up a window.
        if index == 0:
            x = x[:, :, : used[0], : used[1]].reshape((-1, channels, tall, block, wide, block))
            x = x.dimshuffle(0, 2, 4, 3, 5, 1).astype(dtype)
            if network.observation_dtype == "uint8":
                x = x / _constant(255, x)
        else:
            x = x[:, : used[0], : used[1]].reshape((-1, tall, block, wide, block, channels))
            x = x.dimshuffle(0, 1, 3, 2, 4, 5)
        x = x.reshape((-1, tall, wide, block * block * channels))
        windows = _windows(x, kernel // block, stride // block, rows, columns)
        name = "{}.conv{}".format(torso, index)
        # Weights are [out, in] here: Numba copies what is transposed, and so it is never the windows.
        y = _activate(network, pt.dot(windows, params[name + ".w"].T) + params[name + ".b"])
        x, channels = y.reshape((-1, rows, columns, filters)), filters
    return x.reshape((-1, rows * columns * channels))


def _windows(x: Any, kernel: int, stride: int, rows: int, columns: int) -> Any:
    """[batch · rows · columns, kernel · kernel · channels]: the neighbourhood of every output.

    One gather of pixels: joined slices made Numba's update take 129 ms instead of 88, and minutes to compile.
    """
    tall, wide, channels = x.type.shape[1:]
    corners = stride * (wide * np.arange(rows)[:, None] + np.arange(columns))
    within = wide * np.arange(kernel)[:, None] + np.arange(kernel)
    pixels = (corners.reshape(-1, 1) + within.ravel()).ravel()
    index = pt.arange(x.shape[0])[:, None] * (tall * wide) + pixels
    return x.reshape((-1, channels))[index.flatten()].reshape((-1, kernel * kernel * channels))


def _dense(name: str, params: Symbols, x: Any, vectors: Symbols) -> Any:
    """y = x·W + b; noisy: W + σ_W ∘ (ε_in ⊗ ε_out), b + σ_b ∘ ε_out."""
    w, b = params[name + ".w"], params[name + ".b"]
    if vectors:
        given, out = vectors[name + ".in"], vectors[name + ".out"]
        w = w + params[name + ".w_sigma"] * pt.outer(given, out)
        b = b + params[name + ".b_sigma"] * out
    return pt.dot(x, w) + b


def _activate(network: Network, x: Any) -> Any:
    # The order matters: the slope of max(0, x) is 0 where the two are equal, that of max(x, 0) is 1.
    return pt.maximum(_constant(0, x), x) if network.activation == "relu" else pt.tanh(x)


def _split_noise(network: Network, noise: Optional[Any]) -> Symbols:
    vectors, start = {}, 0
    for name, (size,) in noise_shapes(network).items():
        vector = noise[start : start + size]
        if name in [layer + ".in" for layer in _after_convolutions(network)]:
            vector = vector.reshape(convolution_outputs(network)[-1]).dimshuffle(1, 2, 0).flatten()
        vectors[name] = vector
        start += size
    return vectors


def _q_values(network: Network, outputs: Symbols) -> Any:
    """[batch, actions] or, distributional, logits [batch, actions, atoms]. Dueling: Q = V + A − mean A."""
    shape = (-1, network.actions, network.atoms) if network.atoms > 1 else (-1, network.actions)
    if not network.dueling:
        return outputs["q"].reshape(shape)
    advantage = outputs["advantage"].reshape(shape)
    value = outputs["value"].dimshuffle(0, "x", 1) if network.atoms > 1 else outputs["value"]
    return value + advantage - advantage.mean(1, keepdims=True)


def _choose(spec: Spec, outputs: Symbols, noise: Optional[Any]) -> List[Any]:
    """The greedy action, or argmax(logits + Gumbel noise) with its log-probability and the state's value."""
    if spec.network.head == "q":
        q = _q_values(spec.network, outputs)
        return [pt.argmax(_expected(spec, q) if spec.network.atoms > 1 else q, 1)]
    action = pt.argmax(outputs["policy"] + noise, 1)
    return [action, _pick(log_softmax(outputs["policy"], -1), action), outputs["value"][:, 0]]


def _dqn(spec: Spec, params: Symbols, target: Symbols, batch: Any) -> Tuple[Any, List[Any]]:
    """mean Huber_δ(Q(s,a) − (r + discount · Q⁻(s', a*)));  a* = argmax Q⁻, or argmax Q when double."""
    network = spec.network
    q_next = _q_values(network, _forward(network, target, batch.next_obs, None))
    if spec.hyper.double:
        chooser = _q_values(network, _forward(network, params, batch.next_obs, None))
        best = _pick(q_next, pt.argmax(chooser, 1))
    else:
        best = pt.max(q_next, 1)
    goal = disconnected_grad(batch.reward + batch.discount * best)
    q = _q_values(network, _forward(network, params, batch.obs, None))
    error = abs(_pick(q, batch.action) - goal)
    delta = _constant(spec.hyper.huber_delta, error)
    small = pt.minimum(error, delta)
    return pt.mean(_constant(0.5, error) * small * small + delta * (error - small)), []


def _rainbow(spec: Spec, params: Symbols, target: Symbols, batch: Any) -> Tuple[Any, List[Any]]:
    """mean weight · cross-entropy(Φ(r + discount · z, p⁻(s', a*)), p(s, a));  a* = argmax Σ z · p(s', ·)."""
    network = spec.network
    on_obs, on_next, on_target = (batch.noise[row] for row in range(3))
    chooser = _expected(spec, _q_values(network, _forward(network, params, batch.next_obs, on_next)))
    next_logits = _q_values(network, _forward(network, target, batch.next_obs, on_target))
    p_next = softmax(_pick(next_logits, pt.argmax(chooser, 1)), -1)
    goal = disconnected_grad(_project(spec, batch.reward, batch.discount, p_next))
    logits = _q_values(network, _forward(network, params, batch.obs, on_obs))
    cross_entropy = -(goal * log_softmax(_pick(logits, batch.action), -1)).sum(1)
    return pt.mean(batch.weight * cross_entropy), [cross_entropy]


def _a2c(spec: Spec, params: Symbols, target: Symbols, batch: Any) -> Tuple[Any, List[Any]]:
    """mean −A · log π(a|s) + c_v · mean (V − R)² − c_e · mean H(π)."""
    outputs = _forward(spec.network, params, batch.obs, None)
    log_p = log_softmax(outputs["policy"], -1)
    policy = -batch.advantage * _pick(log_p, batch.action)
    return _actor_critic(spec, policy, pt.sqr(outputs["value"][:, 0] - batch.ret), log_p), []


def _ppo(spec: Spec, params: Symbols, target: Symbols, batch: Any) -> Tuple[Any, List[Any]]:
    """mean −min(ρ·A, clip(ρ, 1 ± ε)·A) + c_v · value loss − c_e · mean H(π);  ρ = π(a|s) / π_old(a|s).

    value loss = mean (V − R)²; with value_clip the larger of that and (V_old + clip(V − V_old, ±ε) − R)².
    """
    outputs = _forward(spec.network, params, batch.obs, None)
    log_p = log_softmax(outputs["policy"], -1)
    ratio = pt.exp(_pick(log_p, batch.action) - batch.log_prob)
    reach = spec.hyper.clip_range
    low, high, reach = (_constant(bound, ratio) for bound in (1 - reach, 1 + reach, reach))
    policy = -pt.minimum(ratio * batch.advantage, pt.clip(ratio, low, high) * batch.advantage)
    value = outputs["value"][:, 0]
    squares = pt.sqr(value - batch.ret)
    if spec.hyper.value_clip:
        kept = batch.value + pt.clip(value - batch.value, -reach, reach)
        squares = pt.maximum(squares, pt.sqr(kept - batch.ret))
    return _actor_critic(spec, policy, squares, log_p), []


def _classifier(spec: Spec, params: Symbols, target: Symbols, batch: Any) -> Tuple[Any, List[Any]]:
    """mean −log softmax(logits)[label]."""
    outputs = _forward(spec.network, params, batch.obs, None)
    return -pt.mean(_pick(log_softmax(outputs["q"], -1), batch.action)), []


def _actor_critic(spec: Spec, policy: Any, squares: Any, log_p: Any) -> Any:
    value_weight = _constant(spec.hyper.value_coefficient, policy)
    entropy_weight = _constant(spec.hyper.entropy_coefficient, policy)
    entropy = -(pt.exp(log_p) * log_p).sum(1)
    return pt.mean(policy + value_weight * squares - entropy_weight * entropy)


_LOSSES: Dict[str, Any] = {
    "dqn": _dqn,
    "rainbow": _rainbow,
    "a2c": _a2c,
    "ppo": _ppo,
    "classifier": _classifier,
}


def _pick(values: Any, index: Any) -> Any:
    """values[row, index[row]], as a masked sum, which fuses with its neighbours."""
    index = index.dimshuffle(0, "x")
    mask = pt.eq(pt.arange(values.shape[1]), index)
    if values.ndim == 3:
        mask = mask.dimshuffle(0, 1, "x")
    return (mask * values).sum(1)


def _expected(spec: Spec, logits: Any) -> Any:
    """Σ z · softmax(logits), for each action."""
    return pt.dot(softmax(logits, -1), support(spec).astype(logits.dtype))


def _project(spec: Spec, reward: Any, discount: Any, p: Any) -> Any:
    """Distribution p, moved to reward + discount · z, back on the support (reference.losses.project)."""
    hyper = spec.hyper
    z = support(spec).astype(p.dtype)
    low, high = _constant(hyper.v_min, p), _constant(hyper.v_max, p)
    spacing = _constant((hyper.v_max - hyper.v_min) / (hyper.atoms - 1), p)
    moved = pt.clip(reward.dimshuffle(0, "x") + discount.dimshuffle(0, "x") * z, low, high)
    position = ((moved - low) / spacing).dimshuffle(0, "x", 1)
    index = np.arange(hyper.atoms, dtype=p.dtype)[:, None]
    nearness = pt.maximum(_constant(0, p), _constant(1, p) - abs(position - index))
    return (nearness * p.dimshuffle(0, "x", 1)).sum(2)


def _clip(hyper: Any, gradient: Any, squares: Callable[[Any], Any]) -> Any:
    """g · min(1, c / (‖g‖ + clip_eps)); unchanged when c = 0."""
    if not hyper.max_grad_norm:
        return gradient
    norm = pt.sqrt(squares(gradient))
    largest, eps = _constant(hyper.max_grad_norm, norm), _constant(hyper.clip_eps, norm)
    return gradient * pt.minimum(_constant(1, norm), largest / (norm + eps))


def _adam(hyper: Any, params: Any, m: Any, v: Any, g: Any, step: Any, root: Any) -> List[Tuple[Any, Any]]:
    """m ← β₁m + (1−β₁)g;  v ← β₂v + (1−β₂)g²;  p ← p − step · m / (√v · root + ε)."""
    beta1, beta2, eps = (_constant(c, g) for c in (hyper.adam_beta1, hyper.adam_beta2, hyper.adam_eps))
    rest1, rest2 = (_constant(1 - beta, g) for beta in (hyper.adam_beta1, hyper.adam_beta2))
    new_m = beta1 * m + rest1 * g
    new_v = beta2 * v + rest2 * g * g
    return [(params, params - step * new_m / (pt.sqrt(new_v) * root + eps)), (m, new_m), (v, new_v)]


def _constant(value: float, like: Any) -> Any:
    """A Python number would bring the dtype of floatX into the graph."""
    return pt.constant(np.asarray(value, like.dtype))
