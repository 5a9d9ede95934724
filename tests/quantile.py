"""QR-DQN as a newcomer would add it: one value, its reference loss, and one loss per framework.

In the rig the value would be `algorithms/qrdqn.py` and each loss a function of a `*_maths.py`. Here all of it
is in one file, which runs in every toolchain, so each loss imports its own framework.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rldyno_rig.algorithms import registered
from rldyno_rig.algorithms.algorithm import Algorithm, Variant
from rldyno_rig.algorithms.dqn import Dqn, DqnBatch, synthetic, train
from rldyno_rig.job_files import ProofJob, ProofSubject
from rldyno_rig.loading import load_backend
from rldyno_rig.proof import job as proof_job
from rldyno_rig.reference import losses
from rldyno_rig.reference.losses import Loss, Passes, expected
from rldyno_rig.reference.network import q_gradients, q_values
from rldyno_rig.spec import QUANTILES, Head, Params, Q, Spec


@dataclass(frozen=True)
class QrDqn(Dqn):
    """Quantile regression DQN (Dabney et al. 2018), optionally double and dueling."""

    atoms: int = 50
    """Quantiles of the return per action."""


ALGORITHM = Algorithm(
    name="qrdqn",
    title="QR-DQN",
    hyper=QrDqn,
    batch=DqnBatch,
    head=lambda hyper: Head(Q, atoms=hyper.atoms, support=QUANTILES, dueling=hyper.dueling),
    synthetic=synthetic,
    train=train,
    rows=lambda hyper: hyper.batch_size,
    target_passes=lambda hyper: 2 if hyper.double else 1,
    tuned={"CartPole-v1": {"hidden": (16,), "learning_starts": 64, "atoms": 8}},
    proof={"atoms": 7},
    variants=(Variant("double dueling tanh", {"double": True, "dueling": True, "activation": "tanh"}),),
)


def reference_loss(spec: Spec, params: Params, target: Params, batch: DqnBatch, passes: Passes) -> Loss:
    """mean over rows of Σ_i mean_j |τ_i − 1[u_ij < 0]| · Huber_κ(u_ij) / κ.

    u_ij = r + discount · θ⁻_j(s', a*) − θ_i(s, a), τ_i = (i − ½)/N;  a* = argmax of the means of θ⁻, or of θ
    when double.
    """
    net, kappa = spec.network, spec.hyper.huber_delta
    rows = np.arange(len(batch.action))
    after = q_values(net, passes.forward(net, target, batch.next_obs, None)[0])
    chooser = (
        q_values(net, passes.forward(net, params, batch.next_obs, None)[0]) if spec.hyper.double else after
    )
    best = expected(spec, chooser).argmax(1)
    goal = batch.reward[:, None] + batch.discount[:, None] * after[rows, best]

    outputs, tape = passes.forward(net, params, batch.obs, None)
    points = q_values(net, outputs)
    u = goal[:, None, :] - points[rows, batch.action][:, :, None]
    weight = np.abs(middles(net.atoms, points.dtype)[:, None] - (u < 0)) / kappa
    small = np.minimum(np.abs(u), kappa)
    errors = weight * (0.5 * small**2 + kappa * (np.abs(u) - small))
    g = np.zeros_like(points)
    g[rows, batch.action] = -(weight * np.clip(u, -kappa, kappa)).mean(2) / len(rows)
    value = float(errors.mean(2).sum(1).mean())
    return Loss(value, passes.backward(params, tape, q_gradients(net, g)), None)


def middles(atoms: int, dtype: Any) -> np.ndarray:
    """τ: the middles of N equal parts of [0, 1]."""
    return ((np.arange(atoms) + 0.5) / atoms).astype(dtype)


def numpy_loss(model: Any, weights: Params, target: Params, batch: Any) -> Loss:
    return reference_loss(model.spec, weights, target, batch, model.passes)


def torch_loss(model: Any, weights: Any, target: Any, batch: Any) -> Any:
    import torch

    from rldyno_rig.backends import torch_maths as maths

    obs, action, reward, discount, next_obs = batch
    with torch.no_grad():
        after = maths.q_values(model, target, next_obs)
        chooser = maths.q_values(model, weights, next_obs) if model.hyper.double else after
        best = model.expected(model, chooser).argmax(1)
        goal = reward[:, None] + discount[:, None] * maths.pick(after, best)
    points = maths.pick(maths.q_values(model, weights, obs), action)
    u = goal[:, None, :] - points[:, :, None]
    kappa = model.hyper.huber_delta
    tau = torch.from_numpy(middles(model.network.atoms, "float64")).to(u)
    weight = (tau[:, None] - (u < 0).to(u.dtype)).abs() / kappa
    small = u.abs().clamp(max=kappa)
    return (weight * (0.5 * small**2 + kappa * (u.abs() - small))).mean(2).sum(1).mean(), ()


def jax_loss(model: Any, weights: Any, target: Any, batch: Any) -> Any:
    import jax.numpy as jnp

    from rldyno_rig.backends import jax_maths as maths

    obs, action, reward, discount, next_obs = batch
    given, given_next = maths.prepare(model, obs), maths.prepare(model, next_obs)
    mask = maths.taken(model, action)
    after = maths.q_values(model, target, given_next)
    chooser = maths.q_values(model, weights, given_next) if model.hyper.double else after
    best = maths.taken(model, maths.best(model.expected(model, chooser)))
    goal = reward[:, None] + discount[:, None] * maths.pick(after, best)
    tau, kappa = middles(model.network.atoms, model.dtype), model.hyper.huber_delta

    def loss(online: Any) -> Any:
        u = goal[:, None, :] - maths.pick(maths.q_values(model, online, given), mask)[:, :, None]
        weight = jnp.abs(tau[:, None] - (u < 0)) / kappa
        small = jnp.minimum(jnp.abs(u), kappa)
        errors = weight * (0.5 * small * small + kappa * (jnp.abs(u) - small))
        return errors.mean(2).sum(1).mean(), None

    return loss


def tensorflow_loss(model: Any, weights: Any, target: Any, batch: Any) -> Any:
    import tensorflow as tf

    from rldyno_rig.backends import tensorflow_maths as maths

    obs, action, reward, discount, next_obs = batch
    after = maths.q_values(model, target, next_obs)
    chooser = maths.q_values(model, weights, next_obs) if model.hyper.double else after
    best = tf.argmax(model.expected(model, chooser), 1)
    goal = reward[:, None] + discount[:, None] * maths.pick(after, best)
    tau, kappa = tf.constant(middles(model.network.atoms, model.dtype)), model.hyper.huber_delta

    def loss(online: Any) -> Any:
        u = goal[:, None, :] - maths.pick(maths.q_values(model, online, obs), action)[:, :, None]
        weight = tf.abs(tau[:, None] - tf.cast(u < 0, u.dtype)) / kappa
        small = tf.clip_by_value(u, -kappa, kappa)
        errors = weight * small * (u - 0.5 * small)
        return (tf.reduce_mean(tf.reduce_sum(tf.reduce_mean(errors, 2), 1)),)

    return loss


def mxnet_loss(model: Any, weights: Any, target: Any, batch: Any) -> Any:
    from mxnet import autograd

    from rldyno_rig.backends import mxnet_maths as maths

    F, atoms, kappa = model.F, model.network.atoms, model.hyper.huber_delta
    obs, action, reward, discount, next_obs = batch
    with autograd.pause(train_mode=True):
        after = maths.q_values(model, target, next_obs)
        chooser = maths.q_values(model, weights, next_obs) if model.hyper.double else after
        best = F.argmax(model.expected(model, weights, chooser), axis=1)
        later = F.broadcast_mul(F.expand_dims(discount, axis=1), maths.pick_atoms(model, after, best))
        goal = maths.held(model, F.broadcast_add(F.expand_dims(reward, axis=1), later))
    points = maths.pick_atoms(model, maths.q_values(model, weights, obs), action)
    u = F.broadcast_sub(F.expand_dims(goal, axis=1), F.expand_dims(points, axis=2))
    tau = F.reshape((F.arange(0, atoms, dtype=model.dtype) + 0.5) / atoms, shape=(1, -1, 1))
    weight = maths.held(model, F.abs(F.broadcast_sub(tau, u < 0)))
    # smooth_l1 with σ² = 1/κ is Huber's loss over κ.
    errors = F.elemwise_mul(weight, F.smooth_l1(u, scalar=1 / np.sqrt(kappa)))
    return [maths.mean(model, errors, float(atoms))]


def chainer_loss(model: Any, weights: Any, target: Any, batch: Any) -> Any:
    import chainer.functions as F

    from rldyno_rig.backends import chainer_maths as maths

    obs, action, reward, discount, next_obs = batch
    after = maths.fixed_q_values(model, target, next_obs)
    chooser = maths.fixed_q_values(model, weights, next_obs) if model.hyper.double else after
    best = model.expected(model, chooser).argmax(1)
    goal = reward[:, None] + discount[:, None] * after[np.arange(len(best)), best]
    points = maths.pick(maths.q_values(model, weights, obs), action)
    kappa, shape = model.hyper.huber_delta, (*goal.shape, goal.shape[1])
    u = np.broadcast_to(goal[:, None, :], shape) - F.broadcast_to(F.expand_dims(points, 2), shape)
    weight = np.abs(middles(model.network.atoms, u.dtype)[:, None] - (u.array < 0)) / u.dtype.type(kappa)
    small = F.clip(u, -kappa, kappa)
    return F.sum(weight * small * (u - 0.5 * small)) / (len(goal) * goal.shape[1]), None


def symbolic_loss(model: Any, weights: Any, target: Any, batch: Any) -> Any:
    from rldyno_rig.backends import symbolic_maths as maths

    T = model.T
    obs, action, reward, discount, next_obs = batch
    after = maths.q_values(model, target, next_obs)
    chooser = maths.q_values(model, weights, next_obs) if model.hyper.double else after
    best = maths.pick(model, after, T.argmax(model.expected(model, chooser), 1))
    goal = model.held(reward.dimshuffle(0, "x") + discount.dimshuffle(0, "x") * best)
    points = maths.pick(model, maths.q_values(model, weights, obs), action)
    u = goal.dimshuffle(0, "x", 1) - points.dimshuffle(0, 1, "x")
    kappa, half = model.constant(model.hyper.huber_delta, u), model.constant(0.5, u)
    below = T.lt(u, model.constant(0, u)).astype(u.dtype)
    weight = model.held(abs(middles(model.network.atoms, u.dtype)[:, None] - below)) / kappa
    small = T.minimum(abs(u), kappa)
    errors = weight * (half * small * small + kappa * (abs(u) - small))
    return T.mean(errors.mean(2).sum(1)), []


LOSSES: dict[str, Callable[..., Any]] = {
    "numpy_maths": numpy_loss,
    "torch_maths": torch_loss,
    "jax_maths": jax_loss,
    "tensorflow_maths": tensorflow_loss,
    "mxnet_maths": mxnet_loss,
    "chainer_maths": chainer_loss,
    "symbolic_maths": symbolic_loss,
}


@contextlib.contextmanager
def added(*maths: str, loss: Any = None) -> Iterator[None]:
    """QR-DQN takes part within the `with` block, in the frameworks of these files; `loss` replaces theirs."""
    tables = {name: importlib.import_module("rldyno_rig.backends." + name).LOSSES for name in maths}
    losses.LOSSES["qrdqn"] = reference_loss
    for name, table in tables.items():
        table["qrdqn"] = loss or LOSSES[name]
    try:
        with registered(ALGORITHM):
            yield
    finally:
        for table in (losses.LOSSES, *tables.values()):
            del table["qrdqn"]


def proof_of(backend: str, mode: str, network: str, dtypes: Sequence[str], loss: Any = None) -> Any:
    """The proof of one contestant in this process, which has its framework."""
    job = ProofJob(backend, mode, "cpu", tuple(dtypes), ())
    maths = backend + "maths" if backend + "maths" in LOSSES else "symbolic_maths"
    with added(maths, loss=loss):
        return proof_job._prove(load_backend(backend), job, ProofSubject("qrdqn", network))


def failing(proof: Any) -> list[str]:
    """Its error, and the rungs that it does not pass."""
    found = [proof["error"]] if proof["error"] else []
    return found + [rung["rung"] for rung in proof["rungs"] if not rung["passed"]]
