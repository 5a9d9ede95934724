"""PyTorch: eager, `torch.compile`, and CUDA graphs.

All parameters live in one flat vector that the named weights are views of, so that clipping, Adam, the copy
onto the target network and an all-reduce are each one operation. Times in comments are of one DQN update (MLP
4-128-128-2, batch 32) on one core, where nn.Module, clip_grad_norm_ and optim.Adam(fused=True) take 650 µs.
"""

from __future__ import annotations

import copy
import functools
import math
from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from rldyno_rig.backends.cuda import Driver, HostMemory, Place, Stage
from rldyno_rig.reference.losses import support
from rldyno_rig.reference.optimiser import step_scalars
from rldyno_rig.spec import STORED, Network, Params, Spec, noise_shapes, parameter_shapes

MODES = ("eager", "compile", "cudagraph")
INDEX_DTYPE = "int64"

Weights = Dict[str, Tensor]
Batch = Tuple[Tensor, ...]
Loss = Tuple[Tensor, Tuple[Tensor, ...]]  # the loss, and the priorities where the algorithm has them

# Intra-op threads follow OMP_NUM_THREADS, which torch reads itself.
torch.set_num_interop_threads(1)
# Shapes never change: let cuDNN time its algorithms once, while warming up.
torch.backends.cudnn.benchmark = True


def facts() -> Dict[str, Any]:
    versions = {"torch": torch.__version__}
    on_gpu = torch.cuda.is_initialized()
    if on_gpu:
        versions.update(cuda=torch.version.cuda, cudnn=str(torch.backends.cudnn.version()))
    return {
        "versions": versions,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "mkldnn": torch.backends.mkldnn.is_available(),
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> Learner:
    assert device == "cuda" or (device == "cpu" and mode != "cudagraph")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    learners = {"eager": Learner, "compile": CompiledLearner, "cudagraph": CapturedLearner}
    return learners[mode](spec, params, device, STORED[dtype])


def device_memory() -> Optional[Dict[str, int]]:
    """Bytes on the GPU: of tensors now and at the peak, and what the caching allocator holds for them."""
    if not torch.cuda.is_initialized():
        return None
    return {
        "used_bytes": torch.cuda.memory_allocated(),
        "used_peak_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.memory_reserved(),
    }


class Learner:
    """Eager mode, and what the other modes share."""

    def __init__(self, spec: Spec, params: Params, device: str, dtype: str) -> None:
        self.device, self.dtype = torch.device(device), dtype
        self.model = Model(spec, self.device, dtype)
        self.spec = spec
        self.stages: Dict[tuple, Stage] = {}
        self.places: Dict[int, Place] = {}
        self.flat = self._pack(params).to(self.device, copy=True)
        self.target = self.flat.clone()
        self.m, self.v = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        self.vectors = {"params": self.flat, "target": self.target, "m": self.m, "v": self.v}
        self.t = 0
        self.steps = torch.zeros((), device=self.device)  # t again, where the fused kernel reads it
        self.weights = {name: w.detach().requires_grad_() for name, w in named(self.model, self.flat).items()}
        self.target_weights = named(self.model, self.target)

    def put(self, *arrays: np.ndarray) -> Batch:
        """On a GPU an asynchronous copy; good until `Stage.PLACES` more of the same shapes."""
        if self.device.type == "cpu":
            return tuple(map(torch.from_numpy, arrays))
        stage = self._stage(arrays)
        place = stage.next_place()
        stage.put(place, arrays)
        return place.placed

    def host(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        """The arrays in page-locked memory, where `put` finds them without another copy."""
        return self._stage(arrays).lock(arrays)

    @torch.inference_mode()
    def act(self, obs: Tensor, noise: Optional[Tensor] = None) -> Tuple[np.ndarray, ...]:
        self._await(obs)
        return self._fetch(self._act(obs, noise))

    def update(self, batch: Batch, lr: float) -> Tensor:
        self.t += 1
        place = self._await(batch[0])
        handle = self._update(batch, lr)
        if place:
            self.driver.call.cuEventRecord(place.consumed, self.stream)
        return handle

    def read(self, handle: Tensor) -> Tuple[float, Optional[np.ndarray]]:
        report = handle.cpu().numpy()
        return float(report[0]), report[1:] if len(report) > 1 else None

    def sync_target(self) -> None:
        self.target.copy_(self.flat)

    def drain(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def state(self) -> Dict[str, Any]:
        return {**{key: self._unpack(vector) for key, vector in self.vectors.items()}, "t": self.t}

    def load(self, state: Dict[str, Any]) -> None:
        for key, vector in self.vectors.items():
            vector.copy_(self._pack(state[key]))
        self.t = state["t"]
        self.steps.fill_(self.t)

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Dict[str, np.ndarray]:
        placed = self.put(obs) if noise is None else self.put(obs, noise)
        self._await(placed[0])
        with torch.inference_mode():
            outputs = forward(self.model, self.weights, *placed)
        return dict(zip(outputs, to_host(tuple(outputs.values()))))

    def grads(self, batch: tuple) -> Tuple[float, Params, Params]:
        placed = self.put(*batch)
        self._await(placed[0])
        report, gradient = self._gradient(placed)
        raw = self._unpack(gradient)
        return self.read(report)[0], raw, self._unpack(clip(self.model, gradient))

    @functools.cached_property
    def driver(self) -> Driver:
        return Driver()

    @functools.cached_property
    def stream(self) -> int:
        return torch.cuda.current_stream().cuda_stream

    def _stage(self, arrays: Tuple[np.ndarray, ...]) -> Stage:
        key = tuple([(array.shape, array.dtype) for array in arrays])
        stage = self.stages.get(key)
        if stage is None:
            stage = self.stages[key] = Stage(self.driver, arrays, functools.partial(place, self.driver))
            self.places.update((spot.placed[0].data_ptr(), spot) for spot in stage.places)
        return stage

    def _await(self, first: Tensor) -> Optional[Place]:
        """Let the device, not the host, wait for the copy of the batch that begins with this tensor."""
        if self.device.type == "cpu":
            return None
        place = self.places[first.data_ptr()]
        self.driver.call.cuStreamWaitEvent(self.stream, place.arrived, 0)
        return place

    def _fetch(self, tensors: Batch) -> Tuple[np.ndarray, ...]:
        return to_host(tensors)

    def _act(self, obs: Tensor, noise: Optional[Tensor]) -> Batch:
        return choose(self.model, self.weights, obs, noise)

    def _update(self, batch: Batch, lr: float) -> Tensor:
        report, gradient = self._gradient(batch)
        # Data-parallel workers average `gradient` here.
        with torch.no_grad():
            clipped = clip(self.model, gradient)
            if self.spec.optimiser == "sgd":
                self.flat.sub_(clipped, alpha=lr)
            else:
                adam_fused(self.model, self.flat, self.m, self.v, clipped, self.steps, lr)
        return report

    def _gradient(self, batch: Batch) -> Tuple[Tensor, Tensor]:
        return taped_gradient(self.model, self.weights, self.target_weights, batch)

    def _scalars(self, lr: float) -> np.ndarray:
        return np.array(step_scalars(self.spec, self.t, lr), self.dtype)

    def _pack(self, arrays: Params) -> Tensor:
        """Canonical arrays → one flat vector in torch's layout."""
        pieces = [native(arrays[name]).ravel() for name in self.model.shapes]
        return torch.from_numpy(np.concatenate(pieces).astype(self.dtype, copy=False))

    def _unpack(self, flat: Tensor) -> Params:
        """Inverse of `_pack`; the arrays are the caller's own."""
        return {name: canonical(w.numpy()).copy() for name, w in named(self.model, flat.cpu()).items()}


class CompiledLearner(Learner):
    """One program for acting and one for the whole update, which takes 230 µs where eager takes 430 µs.

    `cpp_wrapper` would save 10 µs more, but triples the first call; `max_autotune` is slower. Before a
    program runs only its tensors are checked, not the spec it was traced for: one live learner per process.
    """

    live: Optional[CompiledLearner] = None

    def __init__(self, spec: Spec, params: Params, device: str, dtype: str) -> None:
        super().__init__(spec, params, device, dtype)
        torch.compiler.reset()
        CompiledLearner.live = self
        self.choose = compiled(traced_choose)
        self.descend = compiled(traced_descend)
        self.gradient = compiled(traced_gradient)

    def _act(self, obs: Tensor, noise: Optional[Tensor]) -> Batch:
        assert self is CompiledLearner.live
        return self.choose(self.model, self.flat, obs, noise)

    @torch.no_grad()
    def _update(self, batch: Batch, lr: float) -> Tensor:
        assert self is CompiledLearner.live
        (scalars,) = self.put(self._scalars(lr))
        self._await(scalars)
        return self.descend(self.model, self.flat, self.target, self.m, self.v, scalars, batch)

    @torch.no_grad()
    def _gradient(self, batch: Batch) -> Tuple[Tensor, Tensor]:
        assert self is CompiledLearner.live
        return self.gradient(self.model, self.flat, self.target, batch)


class CapturedLearner(Learner):
    """The kernels of acting and of the whole update, captured once per batch's place and replayed."""

    def __init__(self, spec: Spec, params: Params, device: str, dtype: str) -> None:
        super().__init__(spec, params, device, dtype)
        self.acting: Dict[int, Graph] = {}
        self.updating: Dict[int, Graph] = {}
        self.acting_model = copy.copy(self.model)
        self.acting_model.convolve = convolve_by_product
        self.acting_model.product = split_product
        self.scalars = torch.zeros(2, dtype=self.model.dtype, device=self.device)
        self.scalars_host = torch.zeros(2, dtype=self.model.dtype, pin_memory=True)
        self.scalars_read = torch.cuda.Event()

    def _act(self, obs: Tensor, noise: Optional[Tensor]) -> Batch:
        graph = self.acting.get(obs.data_ptr())
        if graph is None:

            def act() -> Batch:
                return hosted(choose(self.acting_model, self.weights, obs, noise))

            graph = self.acting[obs.data_ptr()] = Graph(act)
        return graph()

    def _fetch(self, tensors: Batch) -> Tuple[np.ndarray, ...]:
        torch.cuda.current_stream().synchronize()
        # The next replay overwrites the graph's own output.
        return tuple([tensor.numpy().copy() for tensor in tensors])

    def _update(self, batch: Batch, lr: float) -> Tensor:
        self._set_scalars(lr)
        graph = self.updating.get(batch[0].data_ptr())
        if graph is None:

            def update() -> Tensor:
                report, gradient = self._gradient(batch)
                with torch.no_grad():
                    descend(self.model, self.flat, self.m, self.v, gradient, self.scalars)
                return report

            graph = self.updating[batch[0].data_ptr()] = Graph(update, mutated=(self.flat, self.m, self.v))
        return graph().clone()

    def _set_scalars(self, lr: float) -> None:
        scalars = self._scalars(lr)
        host = self.scalars_host.numpy()
        if not np.array_equal(scalars, host):
            self.scalars_read.synchronize()
            host[...] = scalars
            self.scalars.copy_(self.scalars_host, non_blocking=True)
            self.scalars_read.record()


class Model:
    """What the functions below need to know of a spec, worked out once."""

    def __init__(self, spec: Spec, device: torch.device, dtype: str) -> None:
        network = spec.network
        self.network, self.hyper, self.optimiser = network, spec.hyper, spec.optimiser
        shapes = parameter_shapes(network).items()
        self.shapes = {name: native(np.empty(shape)).shape for name, shape in shapes}
        self.sizes = [math.prod(shape) for shape in self.shapes.values()]
        self.noise_names = tuple(noise_shapes(network))
        self.noise_sizes = [size for (size,) in noise_shapes(network).values()]
        self.loss = LOSSES[spec.algorithm]
        self.activate = {"relu": torch.relu, "tanh": torch.tanh}[network.activation]
        self.convolve = convolve
        self.product = torch.addmm
        self.dtype = getattr(torch, dtype)
        self.torsos = tuple((torso, *layers(network, torso)) for torso in network.torsos)
        self.heads = network.heads
        if spec.algorithm == "rainbow":
            self.z = torch.from_numpy(support(spec)).to(device, self.dtype)
            self.atom = torch.arange(network.atoms, device=device, dtype=self.dtype)


def layers(network: Network, torso: str) -> Tuple[tuple, tuple]:
    """((name, stride) of each convolution, name of each dense layer)."""
    strides = (stride for _, _, stride in network.convolutions)
    convolutions = tuple(("{}.conv{}".format(torso, i), stride) for i, stride in enumerate(strides))
    return convolutions, tuple("{}.dense{}".format(torso, i) for i in range(len(network.hidden)))


def named(model: Model, flat: Tensor) -> Weights:
    """The weights as views of the flat vector."""
    pieces = zip(model.shapes.items(), flat.split(model.sizes))
    return {name: piece.view(shape) for (name, shape), piece in pieces}


def forward(model: Model, weights: Weights, obs: Tensor, noise: Optional[Tensor] = None) -> Weights:
    """Raw outputs of the heads."""
    vectors = dict(zip(model.noise_names, noise.split(model.noise_sizes))) if model.noise_names else {}
    inputs = obs.to(model.dtype)
    if model.network.observation_dtype == "uint8":
        inputs = inputs / 255
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


def convolve(model: Model, x: Tensor, w: Tensor, b: Tensor, stride: int) -> Tensor:
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


def split_product(b: Tensor, x: Tensor, w: Tensor) -> Tensor:
    """x·w + b for few rows: a long sum in pieces, or a handful of the GPU's processors would do it all."""
    rows, inner = x.shape
    pieces = next((count for count in (16, 12, 8, 7, 6, 4) if inner % count == 0), 1)
    if inner < 256 or pieces == 1:
        return torch.addmm(b, x, w)
    parts = torch.bmm(x.reshape(rows, pieces, -1).transpose(0, 1), w.reshape(pieces, -1, w.shape[1]))
    return parts.sum(0) + b


def q_values(model: Model, weights: Weights, obs: Tensor, noise: Optional[Tensor] = None) -> Tensor:
    """[batch, actions] or, distributional, logits [batch, actions, atoms]. Dueling: Q = V + A − mean A."""
    network = model.network
    outputs = forward(model, weights, obs, noise)
    q = outputs["advantage" if network.dueling else "q"]
    if network.atoms > 1:
        q = q.unflatten(1, (network.actions, network.atoms))
    if network.dueling:
        value = outputs["value"].unsqueeze(1) if network.atoms > 1 else outputs["value"]
        q = value + q - q.mean(1, keepdim=True)
    return q


def choose(model: Model, weights: Weights, obs: Tensor, noise: Optional[Tensor]) -> Batch:
    """What `act` returns: the greedy action, or a sampled one with its log-probability and the value."""
    if model.network.head == "q":
        q = q_values(model, weights, obs, noise)
        if model.network.atoms > 1:
            q = q.softmax(2) @ model.z
        return (q.argmax(1),)
    outputs = forward(model, weights, obs)
    logits = outputs["policy"]
    action = (logits + noise).argmax(1)
    return action, pick(logits.log_softmax(1), action), outputs["value"].squeeze(1)


def dqn(model: Model, weights: Weights, target: Weights, batch: Batch) -> Loss:
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


def rainbow(model: Model, weights: Weights, target: Weights, batch: Batch) -> Loss:
    obs, action, reward, discount, next_obs, weight, noise = batch
    on_obs, on_next, on_target = noise.unbind()
    with torch.no_grad():
        best = (q_values(model, weights, next_obs, on_next).softmax(2) @ model.z).argmax(1)
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


def a2c(model: Model, weights: Weights, target: Weights, batch: Batch) -> Loss:
    obs, action, advantage, ret = batch
    log_p, value = policy_and_value(model, weights, obs)
    policy_loss = -(advantage * pick(log_p, action)).mean()
    return policy_loss + value_and_entropy(model, F.mse_loss(value, ret), log_p), ()


def ppo(model: Model, weights: Weights, target: Weights, batch: Batch) -> Loss:
    obs, action, old_log_prob, advantage, ret, old_value = batch
    log_p, value = policy_and_value(model, weights, obs)
    reach = model.hyper.clip_range
    ratio = (pick(log_p, action) - old_log_prob).exp()
    policy_loss = -torch.minimum(ratio * advantage, ratio.clamp(1 - reach, 1 + reach) * advantage).mean()
    if model.hyper.value_clip:
        kept = old_value + (value - old_value).clamp(-reach, reach)
        value_loss = torch.maximum((value - ret).square(), (kept - ret).square()).mean()
    else:
        value_loss = F.mse_loss(value, ret)
    return policy_loss + value_and_entropy(model, value_loss, log_p), ()


def classifier(model: Model, weights: Weights, target: Weights, batch: Batch) -> Loss:
    obs, label = batch
    return F.cross_entropy(forward(model, weights, obs)["q"], label), ()


LOSSES = {"dqn": dqn, "rainbow": rainbow, "a2c": a2c, "ppo": ppo, "classifier": classifier}


def policy_and_value(model: Model, weights: Weights, obs: Tensor) -> Tuple[Tensor, Tensor]:
    """(log-probability of every action, state value)."""
    outputs = forward(model, weights, obs)
    return outputs["policy"].log_softmax(1), outputs["value"].squeeze(1)


def value_and_entropy(model: Model, value_loss: Tensor, log_p: Tensor) -> Tensor:
    """c_v · value loss − c_e · mean H(π)."""
    loss = model.hyper.value_coefficient * value_loss
    if model.hyper.entropy_coefficient:
        loss = loss + model.hyper.entropy_coefficient * (log_p.exp() * log_p).sum(1).mean()
    return loss


def pick(x: Tensor, action: Tensor) -> Tensor:
    """x[row, action[row]] of every row; gather, because indexing has a slow backward on GPUs."""
    index = action[:, None] if x.dim() == 2 else action[:, None, None].expand(-1, 1, x.shape[2])
    return x.gather(1, index).squeeze(1)


def taped_gradient(model: Model, weights: Weights, target: Weights, batch: Batch) -> Tuple[Tensor, Tensor]:
    """(report, flat gradient) by the autograd tape; torch.func would cost 300 µs more in eager mode."""
    loss, priorities = model.loss(model, weights, target, batch)
    pieces = torch.autograd.grad(loss, tuple(weights.values()))
    return report(loss.detach(), priorities), torch.cat([g.flatten() for g in pieces])


def traced_gradient(model: Model, flat: Tensor, target: Tensor, batch: Batch) -> Tuple[Tensor, Tensor]:
    """The same as a function of the flat vectors, which `torch.compile` can trace whole."""

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


def descend(model: Model, flat: Tensor, m: Tensor, v: Tensor, gradient: Tensor, scalars: Tensor) -> None:
    """Clip, then one step of the spec's optimiser, in place."""
    clipped = clip(model, gradient)
    if model.optimiser == "sgd":
        flat.addcmul_(clipped, scalars[0], value=-1)
    else:
        adam(model, flat, m, v, clipped, scalars)


def adam(model: Model, flat: Tensor, m: Tensor, v: Tensor, gradient: Tensor, scalars: Tensor) -> None:
    """reference.optimiser.adam in place, on scalars that a compiled or captured program can be handed."""
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


def traced_choose(model: Model, flat: Tensor, obs: Tensor, noise: Optional[Tensor]) -> Batch:
    return choose(model, named(model, flat), obs, noise)


def traced_descend(
    model: Model, flat: Tensor, target: Tensor, m: Tensor, v: Tensor, scalars: Tensor, batch: Batch
) -> Tensor:
    told, gradient = traced_gradient(model, flat, target, batch)
    descend(model, flat, m, v, gradient, scalars)
    return told


def compiled(function: Callable) -> Callable:
    # A pool of compile workers would stay beside the measured process, and in its memory.
    torch._inductor.config.compile_threads = 1
    # Checking everything else that was traced through would take another 35 µs per update.
    options = {"guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe}
    return torch.compile(function, fullgraph=True, dynamic=False, options=options)


class Graph:
    """A function without arguments, captured as a CUDA graph; it reads and writes fixed addresses."""

    def __init__(self, function: Callable[[], Any], mutated: Tuple[Tensor, ...] = ()) -> None:
        before = [tensor.clone() for tensor in mutated]
        # Libraries set themselves up when they are first called, which must not be while capturing.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                function()
        torch.cuda.current_stream().wait_stream(side)
        for tensor, value in zip(mutated, before):
            tensor.copy_(value)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = function()

    def __call__(self) -> Any:
        self.graph.replay()
        return self.output


def place(driver: Driver, memory: HostMemory) -> Place:
    """GPU memory for what lies in host memory, laid out alike, so that one copy fills it."""
    block = torch.empty(memory.size, dtype=torch.uint8, device="cuda")
    views = tuple(
        block[offset : offset + array.nbytes].view(getattr(torch, array.dtype.name)).view(array.shape)
        for array, offset in zip(memory.arrays, memory.offsets)
    )
    return Place(driver, views, [(block.data_ptr(), 0, memory.size)])


def hosted(tensors: Batch) -> Batch:
    """Copies in page-locked memory, made by the device in its own time."""
    hosts = tuple(torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for tensor in tensors)
    for host, tensor in zip(hosts, tensors):
        host.copy_(tensor, non_blocking=True)
    return hosts


def to_host(tensors: Batch) -> Tuple[np.ndarray, ...]:
    """Blocks once, however many there are."""
    if not tensors[0].is_cuda:
        return tuple(tensor.numpy() for tensor in tensors)
    hosts = hosted(tensors)
    torch.cuda.current_stream().synchronize()
    return tuple(host.numpy() for host in hosts)


def native(array: np.ndarray) -> np.ndarray:
    """Convolutions HWIO → OIHW; dense weights are [in, out] in both."""
    return array.transpose(3, 2, 0, 1) if array.ndim == 4 else array


def canonical(array: np.ndarray) -> np.ndarray:
    """Inverse of `native`."""
    return array.transpose(2, 3, 1, 0) if array.ndim == 4 else array
