"""What the learners in JAX compute, as functions of flat vectors: programs for `jax.jit`."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from jax import Array, lax

from rldyno_rig.backends.jax_maths import (
    Batch,
    Model,
    Vectors,
    Weights,
    action_values,
    choose,
    clip,
    forward,
    gradient,
    named,
    prepare,
)


def flat_choose(model: Model, flat: Array, obs: Array, noise: Optional[Array]) -> Array:
    return choose(model, named(model, flat), obs, noise)


def flat_values(model: Model, flat: Array, obs: Array, noise: Optional[Array]) -> Array:
    return action_values(model, named(model, flat), obs, noise)


def flat_descend(
    model: Model, flat: Array, m: Array, v: Array, target: Array, scalars: Array, batch: Batch
) -> Tuple[Array, Array, Array, Array]:
    reported, raw = flat_gradient(model, flat, target, batch)
    return (*flat_step(model, flat, m, v, raw, scalars), reported)


def flat_gradient(model: Model, flat: Array, target: Array, batch: Batch) -> Tuple[Array, Array]:
    return gradient(model, named(model, flat), named(model, target), batch)


def flat_step(model: Model, flat: Array, m: Array, v: Array, raw: Array, scalars: Array) -> Vectors:
    return model.step(model, flat, m, v, clip(model, raw), scalars)


def flat_descend_many(
    model: Model, flat: Array, m: Array, v: Array, target: Array, scalars: Array, batches: Batch
) -> Tuple[Array, Array, Array, Array]:
    """As many updates as `scalars` and `batches` have rows; the report of the last one."""

    def descend(vectors: Any, given: Tuple[Array, Batch]) -> Tuple[Any, Array]:
        flat, m, v = vectors
        flat, m, v, reported = flat_descend(model, flat, m, v, target, *given)
        return (flat, m, v), reported

    vectors, reports = lax.scan(descend, (flat, m, v), (scalars, batches))
    return (*vectors, reports[-1])


def flat_forward(model: Model, flat: Array, obs: Array, noise: Optional[Array]) -> Weights:
    return forward(model, named(model, flat), prepare(model, obs, noise))


def flat_gradients(model: Model, flat: Array, target: Array, batch: Batch) -> Tuple[Array, Array, Array]:
    reported, raw = flat_gradient(model, flat, target, batch)
    return reported, raw, clip(model, raw)
