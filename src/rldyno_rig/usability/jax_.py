"""JAX: NumPy's `savez`, which is `jax.numpy.savez`, and StableHLO through `jax.export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from rldyno_rig.backends.jax_maths import forward, prepare
from rldyno_rig.usability.boards import tensorboardx

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


def numpy_loop(arrays: List[np.ndarray], rows: int, epochs: int) -> Iterator[List[jax.Array]]:
    """The plain loop, with the copy that makes its batches arrays of JAX."""
    rng = np.random.default_rng()
    for _ in range(epochs):
        order = rng.permutation(len(arrays[0]))
        for first in range(0, len(order), rows):
            yield jax.device_put([array[order[first : first + rows]] for array in arrays])


board = tensorboardx
BATCHES: Dict[str, Callable[..., Any]] = {"numpy": numpy_loop}
EXPORTS: Dict[str, Callable[..., Any]] = {"stablehlo": stablehlo}
