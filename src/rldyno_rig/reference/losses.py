"""The loss of each algorithm: its value, and its gradient with respect to the network's outputs."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import numpy as np

from rldyno_rig.algorithms.a2c import A2cBatch
from rldyno_rig.algorithms.classifier import ClassifierBatch
from rldyno_rig.algorithms.dqn import DqnBatch
from rldyno_rig.algorithms.ppo import PpoBatch
from rldyno_rig.algorithms.rainbow import RainbowBatch
from rldyno_rig.reference import network
from rldyno_rig.reference.network import Outputs, q_gradients, q_values
from rldyno_rig.spec import CATEGORICAL, QUANTILES, SINGLE, Params, Spec


class Loss(NamedTuple):
    value: float
    grads: Params
    priorities: Optional[np.ndarray]


class Passes(NamedTuple):
    """How a network is run forwards and backwards; another engine may replace the reference's own."""

    forward: Callable[..., Tuple[Outputs, Any]] = network.forward
    backward: Callable[..., Params] = network.backward


REFERENCE = Passes()


def loss_and_grads(
    spec: Spec, params: Params, target: Params, batch: Any, passes: Passes = REFERENCE
) -> Loss:
    """The loss on a batch and its gradients with respect to `params`; `target` is held fixed.

    The forward pass that is differentiated is the last one, so that an engine may reuse its memory.
    """
    return LOSSES[spec.algorithm](spec, params, target, batch, passes)


def dqn(spec: Spec, params: Params, target: Params, batch: DqnBatch, passes: Passes) -> Loss:
    """mean Huber_δ(Q(s,a) − (r + discount · Q⁻(s', a*)));  a* = argmax Q⁻, or argmax Q when double."""
    net, hyper = spec.network, spec.hyper
    rows = np.arange(len(batch.action))
    q_next = q_values(net, passes.forward(net, target, batch.next_obs, None)[0])
    chooser = q_values(net, passes.forward(net, params, batch.next_obs, None)[0]) if hyper.double else q_next
    goal = batch.reward + batch.discount * q_next[rows, chooser.argmax(1)]

    outputs, tape = passes.forward(net, params, batch.obs, None)
    q = q_values(net, outputs)
    difference = q[rows, batch.action] - goal
    small = np.minimum(np.abs(difference), hyper.huber_delta)
    value = float(np.mean(0.5 * small**2 + hyper.huber_delta * (np.abs(difference) - small)))
    g = np.zeros_like(q)
    g[rows, batch.action] = np.clip(difference, -hyper.huber_delta, hyper.huber_delta) / len(rows)
    return Loss(value, passes.backward(params, tape, q_gradients(net, g)), None)


def rainbow(spec: Spec, params: Params, target: Params, batch: RainbowBatch, passes: Passes) -> Loss:
    """mean weight · cross-entropy(Φ(r + discount · z, p⁻(s', a*)), p(s, a));  a* = argmax Σ z · p(s', ·).

    Φ spreads each shifted atom over its two neighbours on the support (Bellemare et al. 2017).
    """
    net = spec.network
    rows = np.arange(len(batch.action))
    on_obs, on_next, on_target = batch.noise
    chooser = expected(spec, q_values(net, passes.forward(net, params, batch.next_obs, on_next)[0]))
    p_next = softmax(q_values(net, passes.forward(net, target, batch.next_obs, on_target)[0]))
    goal = project(spec, batch.reward, batch.discount, p_next[rows, chooser.argmax(1)])

    outputs, tape = passes.forward(net, params, batch.obs, on_obs)
    logits = q_values(net, outputs)
    log_p = log_softmax(logits[rows, batch.action])
    cross_entropy = -(goal * log_p).sum(1)
    g = np.zeros_like(logits)
    g[rows, batch.action] = (np.exp(log_p) - goal) * (batch.weight / len(rows))[:, None]
    grads = passes.backward(params, tape, q_gradients(net, g))
    return Loss(float(np.mean(batch.weight * cross_entropy)), grads, cross_entropy)


def a2c(spec: Spec, params: Params, target: Params, batch: A2cBatch, passes: Passes) -> Loss:
    """mean −A · log π(a|s) + c_v · mean (V − R)² − c_e · mean H(π)."""
    outputs, tape = passes.forward(spec.network, params, batch.obs, None)
    log_prob, _ = _log_prob(outputs, batch.action)
    policy = float(np.mean(-batch.advantage * log_prob))
    difference = outputs["value"][:, 0] - batch.ret
    rest, head_gradients = _shared_terms(
        spec, outputs, batch.action, -batch.advantage, float(np.mean(difference**2)), 2 * difference
    )
    return Loss(policy + rest, passes.backward(params, tape, head_gradients), None)


def ppo(spec: Spec, params: Params, target: Params, batch: PpoBatch, passes: Passes) -> Loss:
    """mean −min(ρ·A, clip(ρ, 1 ± ε)·A) + c_v · value loss − c_e · mean H(π);  ρ = π(a|s) / π_old(a|s).

    value loss = mean (V − R)²; with value_clip the larger of that and (V_old + clip(V − V_old, ±ε) − R)².
    """
    hyper = spec.hyper
    outputs, tape = passes.forward(spec.network, params, batch.obs, None)
    log_prob, _ = _log_prob(outputs, batch.action)
    ratio = np.exp(log_prob - batch.log_prob)
    plain = ratio * batch.advantage
    clipped = np.clip(ratio, 1 - hyper.clip_range, 1 + hyper.clip_range) * batch.advantage
    policy = float(np.mean(-np.minimum(plain, clipped)))
    # min picks the unclipped branch, or the clipped one where the two are equal and so is the gradient.
    per_log_prob = np.where(plain <= clipped, -plain, 0)

    value = outputs["value"][:, 0]
    difference = value - batch.ret
    squares, slopes = difference**2, 2 * difference
    if hyper.value_clip:
        moved = value - batch.value
        kept = batch.value + np.clip(moved, -hyper.clip_range, hyper.clip_range) - batch.ret
        inside = np.abs(moved) <= hyper.clip_range
        slopes = np.where(squares >= kept**2, slopes, 2 * kept * inside)
        squares = np.maximum(squares, kept**2)
    rest, head_gradients = _shared_terms(
        spec, outputs, batch.action, per_log_prob, float(np.mean(squares)), slopes
    )
    return Loss(policy + rest, passes.backward(params, tape, head_gradients), None)


def classifier(spec: Spec, params: Params, target: Params, batch: ClassifierBatch, passes: Passes) -> Loss:
    """Softmax cross entropy, mean −log p(label)."""
    outputs, tape = passes.forward(spec.network, params, batch.obs, None)
    rows = np.arange(len(batch.action))
    log_p = log_softmax(outputs["q"])
    g = np.exp(log_p)
    g[rows, batch.action] -= 1
    value = float(np.mean(-log_p[rows, batch.action]))
    return Loss(value, passes.backward(params, tape, {"q": g / len(rows)}), None)


def _shared_terms(
    spec: Spec,
    outputs: Outputs,
    action: np.ndarray,
    per_log_prob: np.ndarray,
    value_loss: float,
    value_slopes: np.ndarray,
) -> Tuple[float, Outputs]:
    """Value and entropy terms, and ∂loss/∂heads from n·∂policy loss/∂log π(a|s) and n·∂value loss/∂V."""
    hyper, size = spec.hyper, len(action)
    log_p = log_softmax(outputs["policy"])
    p = np.exp(log_p)
    entropy = -(p * log_p).sum(1)
    chosen = np.zeros_like(p)
    chosen[np.arange(size), action] = 1
    # ∂ log π(a)/∂logits = 1[a] − π;  ∂H/∂logits = −π (log π + H)
    g_policy = per_log_prob[:, None] * (chosen - p) + hyper.entropy_coefficient * p * (
        log_p + entropy[:, None]
    )
    g_value = hyper.value_coefficient * value_slopes[:, None]
    rest = hyper.value_coefficient * value_loss - hyper.entropy_coefficient * float(np.mean(entropy))
    return rest, {"policy": g_policy / size, "value": g_value / size}


def _log_prob(outputs: Outputs, action: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    log_p = log_softmax(outputs["policy"])
    return log_p[np.arange(len(action)), action], log_p


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(-1, keepdims=True)
    result: np.ndarray = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def softmax(x: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.exp(log_softmax(x))
    return result


def expected(spec: Spec, q: np.ndarray) -> np.ndarray:
    """[batch, actions]: the value of each action, from `q_values`, by the support of the head."""
    return EXPECTED[spec.network.support](spec, q)


def single(spec: Spec, q: np.ndarray) -> np.ndarray:
    return q


def categorical(spec: Spec, logits: np.ndarray) -> np.ndarray:
    """Σ z · softmax(logits)."""
    means: np.ndarray = softmax(logits) @ support(spec).astype(logits.dtype)
    return means


def quantiles(spec: Spec, points: np.ndarray) -> np.ndarray:
    """Their mean: each of them stands for the same probability."""
    means: np.ndarray = points.mean(2)
    return means


EXPECTED = {SINGLE: single, CATEGORICAL: categorical, QUANTILES: quantiles}


def support(spec: Spec) -> np.ndarray:
    """The points z of a categorical return distribution, float64."""
    return np.linspace(spec.hyper.v_min, spec.hyper.v_max, spec.hyper.atoms)


def project(spec: Spec, reward: np.ndarray, discount: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Distribution p, moved to reward + discount · z, back on the support.

    With b the moved atom's position in units of Δz, atom i receives Σ_j p_j · max(0, 1 − |b_j − i|).
    """
    hyper = spec.hyper
    z = support(spec).astype(p.dtype)
    spacing = (hyper.v_max - hyper.v_min) / (hyper.atoms - 1)
    moved = np.clip(reward[:, None] + discount[:, None] * z, hyper.v_min, hyper.v_max)
    position = (moved - hyper.v_min) / spacing
    index = np.arange(hyper.atoms, dtype=p.dtype)
    nearness = np.maximum(0, 1 - np.abs(position[:, None, :] - index[:, None]))
    moved_back: np.ndarray = (nearness * p[:, None, :]).sum(2)
    return moved_back


LOSSES: Dict[str, Callable[[Spec, Params, Params, Any, Passes], Loss]] = {
    "dqn": dqn,
    "rainbow": rainbow,
    "a2c": a2c,
    "ppo": ppo,
    "classifier": classifier,
}
