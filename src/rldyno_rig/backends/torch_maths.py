"""What the learners in PyTorch compute: network, losses, gradients and Adam.

Each function runs as it stands, under the autograd tape, traced by a compiler or captured as a graph.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import torch
import torch.nn.functional as F  # noqa: N812 (its community writes it so)
from torch import Tensor

from rldyno_rig.backends.torch_products import product_on_cpu
from rldyno_rig.layout import Layout, filters_first, torso_layers
from rldyno_rig.reference.losses import support
from rldyno_rig.spec import CATEGORICAL, QUANTILES, SINGLE, Spec, noise_shapes

Weights = Dict[str, Tensor]
Batch = Tuple[Tensor, ...]
Loss = Tuple[Tensor, Tuple[Tensor, ...]]  # the loss, and the priorities where the algorithm has them


class Model:
    """What the functions below need to know of a spec, computed once."""

    def __init__(self, spec: Spec, device: torch.device, dtype: str) -> None:
        network = spec.network
        self.spec, self.network = spec, network
        self.hyper = spec.hyper
        self.layout = Layout(network, filters_first)
        self.shapes, self.sizes = self.layout.shapes, self.layout.sizes
        self.noise_names = tuple(noise_shapes(network))
        self.noise_sizes = [size for (size,) in noise_shapes(network).values()]
        self.loss, self.step = LOSSES[spec.algorithm], OPTIMISERS[spec.optimiser]
        self.expected = EXPECTED[network.support]
        self.activate = {"relu": torch.relu, "tanh": torch.tanh}[network.activation]
        self.convolve = convolve
        on_cpu = device.type == "cpu" and dtype == "float32" and torch.backends.mkldnn.is_available()
        self.product = product_on_cpu if on_cpu else torch.addmm
        self.dtype = getattr(torch, dtype)
        self.torsos = tuple((torso, *torso_layers(network, torso)) for torso in network.torsos)
        self.heads = network.heads
        if network.support == CATEGORICAL:
            self.z = torch.from_numpy(support(spec)).to(device, self.dtype)
            self.atom = torch.arange(network.atoms, device=device, dtype=self.dtype)


def named(model: Model, flat: Tensor) -> Weights:
    """The weights as views of the flat vector."""
    pieces = zip(model.shapes.items(), flat.split(model.sizes))
    return {name: piece.view(shape) for (name, shape), piece in pieces}


def forward(model: Model, weights: Weights, obs: Tensor, noise: Optional[Tensor] = None) -> Weights:
    """Raw outputs of the heads."""
    vectors = split_noise(model, noise)
    inputs = scaled(model, obs)
    features = {}
    for torso, convolutions, denses in model.torsos:
        x = inputs
        for name, stride in convolutions:
            x = model.convolve(model, x, weights[name + ".w"], weights[name + ".b"], stride)
        if convolutions:
            x = x.flatten(1)
        for name in denses:
            x = model.activate(dense(model, name, weights, x, vectors))
        features[torso] = x
    return {name: dense(model, name, weights, features[torso], vectors) for name, torso, _ in model.heads}


def scaled(model: Model, obs: Tensor) -> Tensor:
    """Bytes / 255, already in the layout of the convolutions: a byte is a quarter of what is moved later."""
    if model.network.observation_dtype != "uint8":
        return obs.to(model.dtype)
    if model.convolve is convolve_channels_last:
        obs = obs.contiguous(memory_format=torch.channels_last)
    return obs.to(model.dtype).div_(255)


def convolve(model: Model, x: Tensor, w: Tensor, b: Tensor, stride: int) -> Tensor:
    return model.activate(F.conv2d(x, w, b, stride))


def convolve_channels_last(model: Model, x: Tensor, w: Tensor, b: Tensor, stride: int) -> Tensor:
    """The same numbers in the layout that oneDNN prefers for gradients.

    DQN's update of the small Atari network takes 64 ms instead of 80 (128 rows); acting gains nothing.
    """
    layout = torch.channels_last
    x, w = x.contiguous(memory_format=layout), w.contiguous(memory_format=layout)
    return model.activate(F.conv2d(x, w, b, stride))


def convolve_by_product(model: Model, x: Tensor, w: Tensor, b: Tensor, stride: int) -> Tensor:
    """The same without a gradient: windows as rows of a matrix, one product with bias and relu inside.

    For a few images that is faster than cuDNN's convolutions, which are kernels for each of these steps.
    """
    kernel = w.shape[2]
    windows = x.unfold(2, kernel, stride).unfold(3, kernel, stride).permute(0, 2, 3, 1, 4, 5)
    rows, weights = windows.reshape(-1, w[0].numel()), w.flatten(1).t()
    if model.network.activation == "relu":
        y = torch._addmm_activation(b, rows, weights)
    else:
        y = model.activate(torch.addmm(b, rows, weights))
    return y.view(*windows.shape[:3], -1).permute(0, 3, 1, 2)


def dense(model: Model, name: str, weights: Weights, x: Tensor, vectors: Weights) -> Tensor:
    """y = x·W + b; noisy: W + σ_W ∘ (ε_in ⊗ ε_out), b + σ_b ∘ ε_out.

    W stays [in, out]: `addmm` takes it as it is, and its gradient comes out contiguous (F.linear: +15 µs).
    """
    w, b = weights[name + ".w"], weights[name + ".b"]
    if vectors:
        e_in, e_out = vectors[name + ".in"], vectors[name + ".out"]
        w = torch.addcmul(w, weights[name + ".w_sigma"], torch.outer(e_in, e_out))
        b = torch.addcmul(b, weights[name + ".b_sigma"], e_out)
    return model.product(b, x, w)


def split_noise(model: Model, noise: Any) -> Weights:
    """One flat vector → the named noise vectors of each layer; none of a network without noise."""
    return dict(zip(model.noise_names, noise.split(model.noise_sizes))) if model.noise_names else {}


def q_values(model: Model, weights: Weights, obs: Tensor, noise: Optional[Tensor] = None) -> Tensor:
    """[batch, actions], or [batch, actions, atoms] of a distribution. Dueling: Q = V + A − mean A."""
    network = model.network
    outputs = forward(model, weights, obs, noise)
    q = outputs["advantage" if network.dueling else "q"]
    if network.atoms > 1:
        q = q.unflatten(1, (network.actions, network.atoms))
    if network.dueling:
        value = outputs["value"].unsqueeze(1) if network.atoms > 1 else outputs["value"]
        q = value + q - q.mean(1, keepdim=True)
    return q


def single(model: Model, q: Tensor) -> Tensor:
    return q


def categorical(model: Model, logits: Tensor) -> Tensor:
    """Σ z · softmax(logits)."""
    return logits.softmax(2) @ model.z


def quantiles(model: Model, points: Tensor) -> Tensor:
    """Their mean."""
    return points.mean(2)


EXPECTED: Dict[str, Callable[..., Tensor]] = {SINGLE: single, CATEGORICAL: categorical, QUANTILES: quantiles}
"""Support of the head → value of each action, [batch, actions], from `q_values`."""


def policy_and_value(model: Model, weights: Weights, obs: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """(log-probability of every action, state value, logits)."""
    outputs = forward(model, weights, obs)
    logits = outputs["policy"]
    return logits.log_softmax(1), outputs["value"].squeeze(1), logits


def action_values(model: Model, weights: Weights, obs: Tensor, noise: Optional[Tensor] = None) -> Tensor:
    """[batch, actions]."""
    return model.expected(model, q_values(model, weights, obs, noise))


def choose(model: Model, weights: Weights, obs: Tensor, noise: Optional[Tensor]) -> Batch:
    """What `act` returns: the greedy action, or a sampled one with its log-probability and the value."""
    if not model.network.samples:
        return (action_values(model, weights, obs, noise).argmax(1),)
    log_p, value, logits = policy_and_value(model, weights, obs)
    action = (logits + noise).argmax(1)
    return action, pick(log_p, action), value


def dqn_loss(model: Model, weights: Weights, target: Weights, batch: Batch) -> Loss:
    obs, action, reward, discount, next_obs = batch
    with torch.no_grad():
        q_next = q_values(model, target, next_obs)
        if model.hyper.double:
            best = pick(q_next, q_values(model, weights, next_obs).argmax(1))
        else:
            best = q_next.amax(1)
        goal = reward + discount * best
    q = pick(q_values(model, weights, obs), action)
    return F.huber_loss(q, goal, delta=model.hyper.huber_delta), ()


def rainbow_loss(model: Model, weights: Weights, target: Weights, batch: Batch) -> Loss:
    obs, action, reward, discount, next_obs, weight, noise = batch
    on_obs, on_next, on_target = noise.unbind()
    with torch.no_grad():
        best = model.expected(model, q_values(model, weights, next_obs, on_next)).argmax(1)
        p_next = pick(q_values(model, target, next_obs, on_target), best).softmax(1)
        goal = project(model, reward, discount, p_next)
    log_p = pick(q_values(model, weights, obs, on_obs), action).log_softmax(1)
    cross_entropy = -(goal * log_p).sum(1)
    return (weight * cross_entropy).mean(), (cross_entropy.detach(),)


def project(model: Model, reward: Tensor, discount: Tensor, p: Tensor) -> Tensor:
    """Distribution p, moved to reward + discount · z, back on the support (Bellemare et al. 2017)."""
    low, high = model.hyper.v_min, model.hyper.v_max
    moved = torch.addcmul(reward[:, None], discount[:, None], model.z).clamp(low, high)
    position = (moved - low) / ((high - low) / (model.hyper.atoms - 1))
    nearness = (1 - (position[:, None, :] - model.atom[:, None]).abs()).clamp(min=0)
    return (nearness @ p[:, :, None]).squeeze(2)


def a2c_loss(model: Model, weights: Weights, target: Weights, batch: Batch) -> Loss:
    obs, action, advantage, ret = batch
    log_p, value, _ = policy_and_value(model, weights, obs)
    policy_loss = -(advantage * pick(log_p, action)).mean()
    return actor_critic_loss(model, policy_loss, F.mse_loss(value, ret), log_p), ()


def ppo_loss(model: Model, weights: Weights, target: Weights, batch: Batch) -> Loss:
    obs, action, old_log_prob, advantage, ret, old_value = batch
    log_p, value, _ = policy_and_value(model, weights, obs)
    reach = model.hyper.clip_range
    ratio = (pick(log_p, action) - old_log_prob).exp()
    policy_loss = -torch.minimum(ratio * advantage, ratio.clamp(1 - reach, 1 + reach) * advantage).mean()
    if model.hyper.value_clip:
        kept = old_value + (value - old_value).clamp(-reach, reach)
        value_loss = torch.maximum((value - ret).square(), (kept - ret).square()).mean()
    else:
        value_loss = F.mse_loss(value, ret)
    return actor_critic_loss(model, policy_loss, value_loss, log_p), ()


def classifier_loss(model: Model, weights: Weights, target: Weights, batch: Batch) -> Loss:
    obs, label = batch
    return F.cross_entropy(forward(model, weights, obs)["q"], label), ()


def actor_critic_loss(model: Model, policy_loss: Tensor, value_loss: Tensor, log_p: Tensor) -> Tensor:
    """Policy loss + c_v · value loss − c_e · mean H(π)."""
    loss = model.hyper.value_coefficient * value_loss
    if model.hyper.entropy_coefficient:
        loss = loss + model.hyper.entropy_coefficient * (log_p.exp() * log_p).sum(1).mean()
    return policy_loss + loss


LOSSES: Dict[str, Callable[..., Loss]] = {
    "dqn": dqn_loss,
    "rainbow": rainbow_loss,
    "a2c": a2c_loss,
    "ppo": ppo_loss,
    "classifier": classifier_loss,
}


def pick(x: Tensor, action: Tensor) -> Tensor:
    """x[row, action[row]] of every row; gather, because indexing has a slow backward on GPUs."""
    index = action[:, None] if x.dim() == 2 else action[:, None, None].expand(-1, 1, x.shape[2])
    return x.gather(1, index).squeeze(1)


def gradient(model: Model, weights: Weights, target: Weights, batch: Batch) -> Tuple[Tensor, Tensor]:
    """(report, flat gradient) by the autograd tape; torch.func would cost 300 µs more in eager mode."""
    loss, priorities = model.loss(model, weights, target, batch)
    pieces = torch.autograd.grad(loss, tuple(weights.values()))
    return report(loss.detach(), priorities), torch.cat([g.flatten() for g in pieces])


def traced_gradient(model: Model, flat: Tensor, target: Tensor, *batch: Tensor) -> Tuple[Tensor, Tensor]:
    """The same as a function of the flat vectors, which compilers can trace in one piece."""

    def loss_of(weights: Weights) -> Loss:
        return model.loss(model, weights, named(model, target), batch)

    pieces, (loss, priorities) = torch.func.grad_and_value(loss_of, has_aux=True)(named(model, flat))
    return report(loss, priorities), torch.cat([g.flatten() for g in pieces.values()])


def report(loss: Tensor, priorities: Tuple[Tensor, ...]) -> Tensor:
    """One vector, so that one copy reads it: the loss, then the priorities."""
    return torch.cat((loss[None], *priorities)) if priorities else loss[None]


def clip(model: Model, gradient: Tensor) -> Tensor:
    """g · min(1, c / (‖g‖ + clip_eps)), in place; unchanged when c = 0."""
    most = model.hyper.max_grad_norm
    if most == 0:
        return gradient
    norm = torch.linalg.vector_norm(gradient)
    return gradient.mul_((most / (norm + model.hyper.clip_eps)).clamp(max=1))


def adam(model: Model, flat: Tensor, m: Tensor, v: Tensor, gradient: Tensor, scalars: Tensor) -> None:
    """reference.optimiser.adam in place, on scalars that a compiled or captured program can take as input."""
    hyper = model.hyper
    step, root = scalars.unbind()
    m.lerp_(gradient, 1 - hyper.adam_beta1)
    v.mul_(hyper.adam_beta2).addcmul_(gradient, gradient, value=1 - hyper.adam_beta2)
    flat.sub_(step * m / (v.sqrt() * root + hyper.adam_eps))


def adam_fused(
    model: Model, flat: Tensor, m: Tensor, v: Tensor, gradient: Tensor, steps: Tensor, lr: float
) -> None:
    """The kernel of `torch.optim.Adam(fused=True)`, which corrects bias in double.

    9 µs, where `Adam.step()` takes 39 µs and `adam` above 38 µs.
    """
    hyper = model.hyper
    betas = {"beta1": hyper.adam_beta1, "beta2": hyper.adam_beta2}
    plain = {"weight_decay": 0.0, "amsgrad": False, "maximize": False}
    steps += 1
    torch._fused_adam_([flat], [gradient], [m], [v], [], [steps], lr=lr, eps=hyper.adam_eps, **betas, **plain)


def sgd(model: Model, flat: Tensor, m: Tensor, v: Tensor, gradient: Tensor, scalars: Tensor) -> None:
    """p ← p − lr · g, in place; `scalars` begin with the learning rate."""
    flat.addcmul_(gradient, scalars[0], value=-1)


OPTIMISERS: Dict[str, Callable[..., None]] = {"adam": adam, "sgd": sgd}


def descend(model: Model, flat: Tensor, m: Tensor, v: Tensor, gradient: Tensor, scalars: Tensor) -> None:
    """Clip, then one step of the spec's optimiser, in place."""
    model.step(model, flat, m, v, clip(model, gradient), scalars)


def traced_choose(model: Model, flat: Tensor, obs: Tensor, noise: Optional[Tensor] = None) -> Batch:
    return choose(model, named(model, flat), obs, noise)


def traced_values(model: Model, flat: Tensor, obs: Tensor) -> Batch:
    return (action_values(model, named(model, flat), obs),)


def traced_step(model: Model, flat: Tensor, m: Tensor, v: Tensor, gradient: Tensor, scalars: Tensor) -> Batch:
    """What follows once a team has averaged its gradients.

    Compilers drop the copy; without it they would write the clipped gradient back, which nobody reads.
    """
    descend(model, flat, m, v, gradient.clone(), scalars)
    return ()


def traced_descend(
    model: Model, flat: Tensor, target: Tensor, m: Tensor, v: Tensor, scalars: Tensor, *batch: Tensor
) -> Batch:
    reported, gradient = traced_gradient(model, flat, target, *batch)
    descend(model, flat, m, v, gradient, scalars)
    return (reported,)
