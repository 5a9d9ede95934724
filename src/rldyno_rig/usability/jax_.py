"""JAX: NumPy's `savez`, which is `jax.numpy.savez`, and StableHLO through `jax.export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from rldyno_rig.backends.jax_maths import forward, prepare

SAVED_BY = "jax.numpy.savez and jax.numpy.load"


def save(arrays: Dict[str, Any], path: Path) -> None:
    jnp.savez(str(path.with_suffix(".npz")), **arrays)


def load(path: Path, like: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    with jnp.load(str(path.with_suffix(".npz"))) as file:
        return dict(file)


def stablehlo(learner: Any, obs: np.ndarray, directory: Path) -> Tuple[Any, ...]:
    @jax.jit
    def network(obs: Any) -> Tuple[Any, ...]:
        return tuple(forward(learner.model, learner.weights, prepare(learner.model, obs)).values())

    exported = jax.export.export(network)(jax.ShapeDtypeStruct(obs.shape, obs.dtype))
    path = directory / "network.stablehlo"
    path.write_bytes(exported.serialize())
    return jax.export.deserialize(bytearray(path.read_bytes())).call(obs)


EXPORTS: Dict[str, Callable[..., Any]] = {"stablehlo": stablehlo}
