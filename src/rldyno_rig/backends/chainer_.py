"""Chainer: define-by-run, or the network's schedule recorded once by `static_graph` and replayed.

Chainer's arrays on the CPU are NumPy's, so what needs no gradient is NumPy, as in Chainer's own examples.
All parameters are views of one flat vector on which the optimiser works in place. Static mode covers the
network: a loss's backward holds arrays of the batch in its function nodes, which a schedule would not renew.
"""

from __future__ import annotations

import math
import os
from typing import Any, Dict, List, Optional, Tuple

import chainer
import chainer.functions as F  # noqa: N812 (its community writes it so)
import numpy as np

from rldyno_rig.batches import BATCHES, A2cBatch, ClassifierBatch, DqnBatch, PpoBatch, RainbowBatch
from rldyno_rig.reference.losses import project, support
from rldyno_rig.reference.optimiser import adam_scalars, moment_scales
from rldyno_rig.spec import Network, Params, Spec, noise_shapes

MODES = ("eager", "static")
INDEX_DTYPE = "int32"

# Types are checked on every call of every function otherwise.
chainer.global_config.type_check = False


def facts() -> Dict[str, Any]:
    return {
        "versions": {"chainer": chainer.__version__, "numpy": np.__version__},
        "device": "cpu",
        "threads": os.environ.get("OPENBLAS_NUM_THREADS"),
        "transfer": "none: the framework's arrays are NumPy's",
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> Learner:
    assert mode in MODES
    assert device == "cpu"
    return Learner(spec, params, mode, dtype)


class Learner:
    def __init__(self, spec: Spec, params: Params, mode: str, dtype: str) -> None:
        self.spec = spec
        self.dtype = np.dtype(dtype)
        self.shapes = {name: _native(p).shape for name, p in params.items()}
        self.weights, self.target, self.gradient, self.m_sum, self.v_sum, self.scratch = (
            np.zeros(sum(p.size for p in params.values()), dtype) for _ in range(6)
        )
        kind = Online if mode == "eager" else Static
        self.online = kind(spec.network, self._views(self.weights))
        self.fixed = kind(spec.network, self._views(self.target))
        self.gradient_views = self._views(self.gradient)
        self.support = support(spec).astype(dtype) if spec.network.atoms > 1 else None
        self.loss = getattr(self, "_" + spec.algorithm)
        self.m_scale, self.v_scale = moment_scales(spec)
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.load({"params": params, "target": params, "m": zeros, "v": zeros, "t": 0})

    def put(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        return arrays

    def act(self, obs: np.ndarray, noise: Optional[np.ndarray] = None) -> Tuple[np.ndarray, ...]:
        with chainer.no_backprop_mode():
            if self.spec.network.head == "q":
                return (self._values(self.online, obs, noise).argmax(1),)
            policy, value = self.online.forward(self._floats(obs))
            action = (policy.array + noise).argmax(1)
            log_prob = F.select_item(F.log_softmax(policy), action)
            return action, log_prob.array, value.array[:, 0]

    def update(self, batch: tuple, lr: float) -> Tuple[Any, Optional[np.ndarray]]:
        handle = self._gradients(batch)
        self._clip()
        self._descend(lr)
        return handle

    def read(self, handle: Tuple[Any, Optional[np.ndarray]]) -> Tuple[float, Optional[np.ndarray]]:
        return float(handle[0].array), handle[1]

    def sync_target(self) -> None:
        self.target[:] = self.weights

    def drain(self) -> None:
        pass

    def state(self) -> Dict[str, Any]:
        return {
            "params": self._canonical(self.weights),
            "target": self._canonical(self.target),
            "m": self._canonical(self.m_sum * self.m_scale),
            "v": self._canonical(self.v_sum * self.v_scale),
            "t": self.t,
        }

    def load(self, state: Dict[str, Any]) -> None:
        self._fill(self.weights, state["params"], 1.0)
        self._fill(self.target, state["target"], 1.0)
        self._fill(self.m_sum, state["m"], self.m_scale)
        self._fill(self.v_sum, state["v"], self.v_scale)
        self.t = state["t"]

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Dict[str, np.ndarray]:
        with chainer.no_backprop_mode():
            outputs = self.online.forward(self._floats(obs), *self._noise(noise))
        return {name: y.array for (name, _, _), y in zip(self.spec.network.heads, outputs)}

    def grads(self, batch: tuple) -> Tuple[float, Params, Params]:
        loss, _ = self.read(self._gradients(batch))
        raw = self._canonical(self.gradient)
        self._clip()
        return loss, raw, self._canonical(self.gradient)

    def _gradients(self, batch: tuple) -> Tuple[Any, Optional[np.ndarray]]:
        loss, priorities = self.loss(BATCHES[self.spec.algorithm](*batch))
        self.online.cleargrads()
        loss.backward()
        for view, parameter in zip(self.gradient_views.values(), self.online.tensors.values()):
            view[...] = parameter.grad
        return loss, priorities

    def _clip(self) -> None:
        hyper = self.spec.hyper
        if hyper.max_grad_norm:
            norm = math.sqrt(float(np.dot(self.gradient, self.gradient)))
            if norm + hyper.clip_eps > hyper.max_grad_norm:
                self.gradient *= hyper.max_grad_norm / (norm + hyper.clip_eps)

    def _descend(self, lr: float) -> None:
        self.t += 1
        if self.spec.optimiser == "sgd":
            np.multiply(self.gradient, lr, out=self.scratch)
            self.weights -= self.scratch
        else:
            self._adam(lr)

    def _adam(self, lr: float) -> None:
        """reference.optimiser.adam on moments without their (1 − β) factors: two passes over memory less.

        Chainer's own adds ε to the uncorrected root, and goes through Python once per parameter.
        """
        hyper, g, scratch = self.spec.hyper, self.gradient, self.scratch
        step, root = adam_scalars(hyper, self.t, lr)
        root *= math.sqrt(1 - hyper.adam_beta2)
        self.m_sum *= hyper.adam_beta1
        self.m_sum += g
        np.multiply(g, g, out=scratch)
        self.v_sum *= hyper.adam_beta2
        self.v_sum += scratch
        np.sqrt(self.v_sum, out=scratch)
        scratch += hyper.adam_eps / root
        np.divide(self.m_sum, scratch, out=scratch)
        scratch *= step * (1 - hyper.adam_beta1) / root
        self.weights -= scratch

    # -- losses

    def _dqn(self, batch: DqnBatch) -> Tuple[Any, None]:
        hyper = self.spec.hyper
        with chainer.no_backprop_mode():
            q_next = self._values(self.fixed, batch.next_obs, None)
            if hyper.double:
                chosen = self._values(self.online, batch.next_obs, None).argmax(1)
                best = q_next[np.arange(len(chosen)), chosen]
            else:
                best = q_next.max(1)
        goal = batch.reward + batch.discount * best
        q = F.select_item(self._q_values(self.online.forward(self._floats(batch.obs))), batch.action)
        errors = F.huber_loss(q, goal, hyper.huber_delta, reduce="no")
        return F.sum(errors) / len(goal), None

    def _rainbow(self, batch: RainbowBatch) -> Tuple[Any, np.ndarray]:
        on_obs, on_next, on_target = batch.noise
        rows = np.arange(len(batch.action))
        with chainer.no_backprop_mode():
            chosen = self._values(self.online, batch.next_obs, on_next).argmax(1)
            outputs = self.fixed.forward(self._floats(batch.next_obs), *self._noise(on_target))
            p_next = F.softmax(self._q_values(outputs), axis=2).array[rows, chosen]
        goal = project(self.spec, batch.reward, batch.discount, p_next)
        logits = self._q_values(self.online.forward(self._floats(batch.obs), *self._noise(on_obs)))
        # A product, because the gradient of indexing goes through np.add.at, which is slow.
        picked = np.zeros(logits.shape[:2] + (1,), self.dtype)
        picked[rows, batch.action] = 1
        log_p = F.log_softmax(F.sum(logits * picked, axis=1))
        cross_entropy = -F.sum(log_p * goal, axis=1)
        return F.sum(cross_entropy * batch.weight) / len(rows), cross_entropy.array

    def _a2c(self, batch: A2cBatch) -> Tuple[Any, None]:
        logits, value = self.online.forward(self._floats(batch.obs))
        log_p = F.log_softmax(logits)
        policy = F.select_item(log_p, batch.action) * -batch.advantage
        return self._actor_critic(policy, F.square(value[:, 0] - batch.ret), log_p), None

    def _ppo(self, batch: PpoBatch) -> Tuple[Any, None]:
        clip_range = self.spec.hyper.clip_range
        logits, value = self.online.forward(self._floats(batch.obs))
        log_p = F.log_softmax(logits)
        ratio = F.exp(F.select_item(log_p, batch.action) - batch.log_prob)
        clipped = F.clip(ratio, 1 - clip_range, 1 + clip_range)
        policy = -F.minimum(ratio * batch.advantage, clipped * batch.advantage)
        value = value[:, 0]
        squares = F.square(value - batch.ret)
        if self.spec.hyper.value_clip:
            moved = F.clip(value - batch.value, -clip_range, clip_range)
            squares = F.maximum(squares, F.square(moved + (batch.value - batch.ret)))
        return self._actor_critic(policy, squares, log_p), None

    def _classifier(self, batch: ClassifierBatch) -> Tuple[Any, None]:
        (logits,) = self.online.forward(self._floats(batch.obs))
        return F.softmax_cross_entropy(logits, batch.action), None

    def _actor_critic(self, policy: Any, squares: Any, log_p: Any) -> Any:
        """mean policy + c_v · mean squares − c_e · mean entropy."""
        hyper = self.spec.hyper
        total = F.sum(policy + squares * hyper.value_coefficient)
        if hyper.entropy_coefficient:
            total += F.sum(F.exp(log_p) * log_p) * hyper.entropy_coefficient
        return total / len(policy)

    def _values(self, network: Online, obs: np.ndarray, noise: Optional[np.ndarray]) -> np.ndarray:
        """[batch, actions]: the values, or the means of their distributions. Without gradient."""
        q = self._q_values(network.forward(self._floats(obs), *self._noise(noise)))
        if self.spec.network.atoms == 1:
            return q.array
        return F.softmax(q, axis=2).array @ self.support

    def _q_values(self, outputs: Tuple[Any, ...]) -> Any:
        """[batch, actions], or logits [batch, actions, atoms]. Dueling: Q = V + A − mean A."""
        network = self.spec.network
        shape = (-1, network.actions) + ((network.atoms,) if network.atoms > 1 else ())
        if not network.dueling:
            return F.reshape(outputs[0], shape) if network.atoms > 1 else outputs[0]
        value, advantage = outputs
        if network.atoms > 1:
            value, advantage = F.expand_dims(value, 1), F.reshape(advantage, shape)
        return value + advantage - F.mean(advantage, axis=1, keepdims=True)

    # -- arrays

    def _floats(self, obs: np.ndarray) -> np.ndarray:
        x = obs.astype(self.dtype, copy=False)
        return x / self.dtype.type(255) if obs.dtype == np.uint8 else x

    def _noise(self, noise: Optional[np.ndarray]) -> List[np.ndarray]:
        """The flat vector as ε_out ⊗ ε_in and ε_out of each noisy layer, in canonical order.

        Whole, because a static schedule writes into the views that it makes of its inputs.
        """
        vectors, start = [], 0
        for (size,) in noise_shapes(self.spec.network).values():
            vectors.append(noise[start : start + size])
            start += size
        pairs = zip(vectors[::2], vectors[1::2])
        return [array for into, out in pairs for array in (np.outer(out, into), out)]

    def _views(self, flat: np.ndarray) -> Params:
        views, start = {}, 0
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            views[name] = flat[start : start + size].reshape(shape)
            start += size
        return views

    def _fill(self, flat: np.ndarray, arrays: Params, factor: float) -> None:
        for name, view in self._views(flat).items():
            view[...] = _native(arrays[name]) / factor

    def _canonical(self, flat: np.ndarray) -> Params:
        return {name: _canonical(view) for name, view in self._views(flat).items()}


class Online(chainer.Chain):
    """The network, define-by-run. Its parameters share the memory of the given views."""

    def __init__(self, network: Network, views: Params) -> None:
        super().__init__()
        self.network = network
        self.noisy = [name.rpartition(".")[0] for name in noise_shapes(network)][::2]
        self.tensors = {name: chainer.Parameter(view) for name, view in views.items()}
        with self.init_scope():
            for name, parameter in self.tensors.items():
                setattr(self, name, parameter)

    def forward(self, obs: Any, *noise: Any) -> Tuple[Any, ...]:
        """Head outputs; `noise` holds two arrays, for weights and biases, for each noisy layer."""
        network, tensors = self.network, self.tensors
        noises = dict(zip(self.noisy, zip(noise[::2], noise[1::2])))
        activate = F.relu if network.activation == "relu" else F.tanh
        features = {}
        for torso in network.torsos:
            x = obs
            for index, (_, _, stride) in enumerate(network.convolutions):
                name = "{}.conv{}".format(torso, index)
                x = activate(F.convolution_2d(x, tensors[name + ".w"], tensors[name + ".b"], stride))
            if network.convolutions:
                x = F.reshape(x, (len(x), -1))
            for index in range(len(network.hidden)):
                x = activate(self._dense("{}.dense{}".format(torso, index), x, noises))
            features[torso] = x
        return tuple([self._dense(name, features[torso], noises) for name, torso, _ in network.heads])

    def _dense(self, name: str, x: Any, noises: Dict[str, Tuple[Any, Any]]) -> Any:
        w, b = self.tensors[name + ".w"], self.tensors[name + ".b"]
        if noises:
            of_weights, of_biases = noises[name]
            w = w + self.tensors[name + ".w_sigma"] * of_weights
            b = b + self.tensors[name + ".b_sigma"] * of_biases
        return F.linear(x, w, b)


class Static(Online):
    @chainer.static_graph
    def forward(self, obs: Any, *noise: Any) -> Tuple[Any, ...]:
        # As arrays: a schedule would compute gradients for its input variables.
        return super().forward(obs.array, *[array.array for array in noise])


def _native(array: np.ndarray) -> np.ndarray:
    """Convolutions HWIO → OIHW, dense [in, out] → [out, in]."""
    return array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T


def _canonical(array: np.ndarray) -> np.ndarray:
    return np.array(array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T, order="C")
