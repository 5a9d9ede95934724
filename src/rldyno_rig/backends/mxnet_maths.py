"""What learners in MXNet compute, written for its `F` (mx.nd or mx.sym), as `hybrid_forward` is."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Tuple

import mxnet as mx
from mxnet import autograd

from rldyno_rig.batches import BATCHES
from rldyno_rig.spec import Params, Spec, noise_shapes

Tensors = Dict[str, Any]


class Maths:
    """Every computation, for one spec. Functions take and return plain sequences of arrays or of symbols."""

    def __init__(self, F: Any, spec: Spec, params: Params, dtype: str) -> None:
        self.F, self.spec, self.dtype = F, spec, dtype
        self.names = list(params)
        self.widths = {name: p.shape[-1] for name, p in params.items()}

    # -- what is run

    def heads(self, *inputs: Any) -> List[Any]:
        obs, noise, rest = self._acting(inputs, self.spec.network.noisy)
        return list(self._forward(self._named(rest), obs, noise).values())

    def choose(self, *inputs: Any) -> List[Any]:
        """The greedy action, or a sampled one with its log-probability and the value."""
        F, network = self.F, self.spec.network
        obs, noise, rest = self._acting(inputs, network.noisy or network.head == "actor_critic")
        if network.head == "q":
            outputs = self._forward(self._named(rest), obs, noise if network.noisy else None)
            q = self._q_values(outputs)
            return [F.argmax(self._expectations(q, rest) if network.atoms > 1 else q, axis=1)]
        outputs = self._forward(self._named(rest), obs, None)
        action = F.argmax(F.elemwise_add(outputs["policy"], noise), axis=1)
        log_prob = F.pick(F.log_softmax(outputs["policy"]), action, axis=1)
        return [action, log_prob, F.reshape(outputs["value"], shape=(-1,))]

    def loss(self, *inputs: Any) -> List[Any]:
        """The loss and, for rainbow, the priorities."""
        kind = BATCHES[self.spec.algorithm]
        size = len(kind._fields)
        return getattr(self, "_" + self.spec.algorithm)(kind(*inputs[:size]), inputs[size:])

    def clipped(self, g: Any, one: Any) -> List[Any]:
        return [self.F.dot(self._scale(g, one), g)]

    def adam(self, w: Any, g: Any, m: Any, v: Any, step: Any, floor: Any, one: Any, **into: Any) -> List[Any]:
        """reference.optimiser.adam with step = lr / (1 − β₁ᵗ) / root and floor = ε / root.

        gemm on rows is MXNet's only fused x·a + y·b: it scales, decays and adds in one pass.
        """
        F, hyper = self.F, self.spec.hyper
        gemm, scale = F.linalg.gemm, self._scale(g, one)
        in_w, in_m, in_v = [{"out": array} for array in into.get("out", ())] or [{}, {}, {}]
        m = gemm(scale, g, m, alpha=1 - hyper.adam_beta1, beta=hyper.adam_beta1, **in_m)
        v = gemm(F.square(scale), F.square(g), v, alpha=1 - hyper.adam_beta2, beta=hyper.adam_beta2, **in_v)
        direction = F.elemwise_div(m, F.broadcast_add(F.sqrt(v), floor))
        return [gemm(step, direction, w, alpha=-1.0, beta=1.0, **in_w), m, v]

    def sgd(self, w: Any, g: Any, m: Any, v: Any, step: Any, floor: Any, one: Any, **into: Any) -> List[Any]:
        gemm, scale = self.F.linalg.gemm, self._scale(g, one)
        in_w = {"out": into["out"][0]} if into.get("out") else {}
        return [gemm(self.F.elemwise_mul(step, scale), g, w, alpha=-1.0, beta=1.0, **in_w)]

    def _scale(self, g: Any, one: Any) -> Any:
        """min(1, c / (‖g‖ + clip_eps)) as a 1×1 matrix."""
        hyper = self.spec.hyper
        if hyper.max_grad_norm == 0:
            return one
        # As vectors: the product of a row and a column takes 17 µs longer.
        flat = self.F.reshape(g, shape=(-1,))
        norm = self.F.sqrt(self.F.reshape(self.F.dot(flat, flat), shape=(1, 1)))
        return self.F.minimum(hyper.max_grad_norm / (norm + hyper.clip_eps), 1.0)

    # -- losses

    def _dqn(self, batch: Any, rest: Any) -> List[Any]:
        F, hyper = self.F, self.spec.hyper
        with autograd.pause(train_mode=True):
            q_next = self._q_values(self._forward(self._named(rest, target=True), batch.next_obs, None))
            if hyper.double:
                chooser = self._q_values(self._forward(self._named(rest), batch.next_obs, None))
                best = F.pick(q_next, F.argmax(chooser, axis=1), axis=1)
            else:
                best = F.max(q_next, axis=1)
            goal = self._held(F.elemwise_add(batch.reward, F.elemwise_mul(batch.discount, best)))
        q = F.pick(self._q_values(self._forward(self._named(rest), batch.obs, None)), batch.action, axis=1)
        # smooth_l1 with σ² = 1/δ is Huber's loss over δ.
        errors = F.smooth_l1(F.elemwise_sub(q, goal), scalar=1 / math.sqrt(hyper.huber_delta))
        return [self._mean(errors, hyper.huber_delta)]

    def _rainbow(self, batch: Any, rest: Any) -> List[Any]:
        F = self.F
        params, target = self._named(rest), self._named(rest, target=True)
        on_obs, on_next, on_target = (F.slice_axis(batch.noise, axis=0, begin=i, end=i + 1) for i in range(3))
        with autograd.pause(train_mode=True):
            chooser = self._expectations(self._q_values(self._forward(params, batch.next_obs, on_next)), rest)
            p_next = F.softmax(self._q_values(self._forward(target, batch.next_obs, on_target)))
            p = self._of_action(p_next, F.argmax(chooser, axis=1))
            goal = self._held(self._project(batch.reward, batch.discount, p, rest))
        logits = self._of_action(self._q_values(self._forward(params, batch.obs, on_obs)), batch.action)
        cross_entropy = F.negative(F.sum(F.elemwise_mul(goal, F.log_softmax(logits)), axis=1))
        loss = self._mean(F.elemwise_mul(batch.weight, cross_entropy))
        return [loss, self._held(cross_entropy)]

    def _a2c(self, batch: Any, rest: Any) -> List[Any]:
        F = self.F
        outputs = self._forward(self._named(rest), batch.obs, None)
        log_p = F.log_softmax(outputs["policy"])
        policy = F.elemwise_mul(batch.advantage, F.pick(log_p, batch.action, axis=1))
        squares = F.square(F.elemwise_sub(F.reshape(outputs["value"], shape=(-1,)), batch.ret))
        return [self._actor_critic(F.negative(policy), squares, log_p)]

    def _ppo(self, batch: Any, rest: Any) -> List[Any]:
        F, hyper = self.F, self.spec.hyper
        outputs = self._forward(self._named(rest), batch.obs, None)
        log_p = F.log_softmax(outputs["policy"])
        ratio = F.exp(F.elemwise_sub(F.pick(log_p, batch.action, axis=1), batch.log_prob))
        clipped = self._clip(ratio, 1 - hyper.clip_range, 1 + hyper.clip_range)
        policy = F.minimum(F.elemwise_mul(ratio, batch.advantage), F.elemwise_mul(clipped, batch.advantage))
        value = F.reshape(outputs["value"], shape=(-1,))
        squares = F.square(F.elemwise_sub(value, batch.ret))
        if hyper.value_clip:
            moved = self._clip(F.elemwise_sub(value, batch.value), -hyper.clip_range, hyper.clip_range)
            kept = F.elemwise_sub(F.elemwise_add(batch.value, moved), batch.ret)
            squares = F.maximum(squares, F.square(kept))
        return [self._actor_critic(F.negative(policy), squares, log_p)]

    def _classifier(self, batch: Any, rest: Any) -> List[Any]:
        F = self.F
        log_p = F.log_softmax(self._forward(self._named(rest), batch.obs, None)["q"])
        return [self._mean(F.pick(log_p, batch.action, axis=1), -1.0)]

    def _actor_critic(self, policy: Any, squares: Any, log_p: Any) -> Any:
        """mean policy + c_v · mean squares − c_e · mean entropy."""
        F, hyper = self.F, self.spec.hyper
        terms = F.elemwise_add(policy, squares * hyper.value_coefficient)
        if hyper.entropy_coefficient:
            negative_entropy = F.sum(F.elemwise_mul(F.exp(log_p), log_p), axis=1)
            terms = F.elemwise_add(terms, negative_entropy * hyper.entropy_coefficient)
        return self._mean(terms)

    # -- network

    def _forward(self, params: Tensors, obs: Any, noise: Any) -> Tensors:
        """Head name → output; `noise` is one row."""
        F, network = self.F, self.spec.network
        vectors = self._vectors(noise)
        if network.observation_dtype != self.dtype:
            obs = F.cast(obs, dtype=self.dtype)
        if network.observation_dtype == "uint8":
            obs = obs / 255
        features = {}
        for torso in network.torsos:
            x = obs
            for index, (filters, kernel, stride) in enumerate(network.convolutions):
                name = "{}.conv{}".format(torso, index)
                x = F.Convolution(
                    x,
                    params[name + ".w"],
                    params[name + ".b"],
                    kernel=(kernel, kernel),
                    stride=(stride, stride),
                    num_filter=filters,
                )
                x = F.Activation(x, act_type=network.activation)
            if network.convolutions:
                x = F.flatten(x)
            for index in range(len(network.hidden)):
                x = self._dense("{}.dense{}".format(torso, index), params, x, vectors)
                x = F.Activation(x, act_type=network.activation)
            features[torso] = x
        return {name: self._dense(name, params, features[torso], vectors) for name, torso, _ in network.heads}

    def _dense(self, name: str, params: Tensors, x: Any, vectors: Tensors) -> Any:
        F, w, b = self.F, params[name + ".w"], params[name + ".b"]
        if vectors:
            into, out = vectors[name + ".in"], vectors[name + ".out"]
            outer = F.dot(out, into, transpose_a=True)
            w = F.elemwise_add(w, F.elemwise_mul(params[name + ".w_sigma"], outer))
            b = F.elemwise_add(b, F.elemwise_mul(params[name + ".b_sigma"], F.reshape(out, shape=(-1,))))
        return F.FullyConnected(x, w, b, num_hidden=self.widths[name + ".w"])

    def _vectors(self, noise: Any) -> Tensors:
        vectors, start = {}, 0
        for name, (size,) in noise_shapes(self.spec.network).items():
            vectors[name] = self.F.slice_axis(noise, axis=1, begin=start, end=start + size)
            start += size
        return vectors

    def _q_values(self, outputs: Tensors) -> Any:
        """[batch, actions], or logits [batch, actions, atoms]. Dueling: Q = V + A − mean A."""
        F, network = self.F, self.spec.network
        shape = (-1, network.actions) + ((network.atoms,) if network.atoms > 1 else ())
        if not network.dueling:
            return F.reshape(outputs["q"], shape=shape) if network.atoms > 1 else outputs["q"]
        advantage, value = outputs["advantage"], outputs["value"]
        if network.atoms > 1:
            advantage, value = F.reshape(advantage, shape=shape), F.expand_dims(value, axis=1)
        return F.broadcast_add(advantage, F.elemwise_sub(value, F.mean(advantage, axis=1, keepdims=True)))

    def _expectations(self, logits: Any, rest: Any) -> Any:
        """Σ z · p over the atoms: [batch, actions]."""
        return self.F.dot(self.F.softmax(logits), rest[0])

    def _of_action(self, x: Any, action: Any) -> Any:
        """x[row, action[row], :] as a product, which has the fastest gradient."""
        F, network = self.F, self.spec.network
        chosen = F.one_hot(action, depth=network.actions, dtype=self.dtype)
        return F.reshape(F.batch_dot(F.expand_dims(chosen, axis=1), x), shape=(-1, network.atoms))

    def _project(self, reward: Any, discount: Any, p: Any, rest: Any) -> Any:
        """reference.losses.project."""
        F, hyper = self.F, self.spec.hyper
        z, index = rest[:2]
        spacing = (hyper.v_max - hyper.v_min) / (hyper.atoms - 1)
        moved = F.broadcast_add(
            F.expand_dims(reward, axis=1), F.dot(F.expand_dims(discount, axis=1), F.expand_dims(z, axis=0))
        )
        position = (self._clip(moved, hyper.v_min, hyper.v_max) - hyper.v_min) / spacing
        nearness = F.relu(1 - F.abs(F.broadcast_sub(F.expand_dims(position, axis=1), index)))
        return F.reshape(F.batch_dot(nearness, F.expand_dims(p, axis=2)), shape=(-1, hyper.atoms))

    # -- inputs and outputs

    def _acting(self, inputs: Any, with_noise: bool) -> Tuple[Any, Any, Any]:
        if not with_noise:
            return inputs[0], None, inputs[1:]
        noise = self.F.expand_dims(inputs[1], axis=0) if self.spec.network.noisy else inputs[1]
        return inputs[0], noise, inputs[2:]

    def _named(self, rest: Any, target: bool = False) -> Tensors:
        """Name → parameter, from constants, weights and target weights in a row."""
        start = 2 * self.spec.network.noisy + target * len(self.names)
        return dict(zip(self.names, rest[start:]))

    def _held(self, x: Any) -> Any:
        """No gradient flows back; ops on arrays are not recorded under autograd.pause anyway."""
        return self.F.BlockGrad(x) if self.F is mx.sym else x.detach()

    def _clip(self, x: Any, low: float, high: float) -> Any:
        """F.clip rounds its bounds to single precision."""
        return self.F.minimum(self.F.maximum(x, low), high)

    def _mean(self, x: Any, factor: float = 1.0) -> Any:
        mean = self.F.mean(x)
        return mean if factor == 1 else mean * factor
