"""All weights of a network in one flat vector, the first layers of its torsos joined: one product for all.

The biases of the first layers are the last row of it. NumPy alone: every form that joins them shares this.
"""

from __future__ import annotations

from typing import Dict, Tuple

import numpy as np

from rldyno_rig.spec import Params, Spec


class JoinedNet:
    """Torsos beside each other, each with some of the heads."""

    def __init__(self, spec: Spec, dtype: str) -> None:
        network = spec.network
        self.spec, self.hyper, self.dtype = spec, spec.hyper, np.dtype(dtype)
        self.torsos = network.torsos
        self.hidden = network.hidden
        self.heads = network.heads
        self.inputs = network.observation_shape[0]
        self.relu = network.activation == "relu"
        shapes: Dict[str, Tuple[int, ...]] = {"first": (self.inputs + 1, len(self.torsos) * self.hidden[0])}
        for torso in self.torsos:
            for layer in range(1, len(self.hidden)):
                shapes["{}.{}.w".format(torso, layer)] = self.hidden[layer - 1 : layer + 1]
                shapes["{}.{}.b".format(torso, layer)] = (self.hidden[layer],)
        for name, _, outputs in self.heads:
            shapes[name + ".w"], shapes[name + ".b"] = (self.hidden[-1], outputs), (outputs,)
        self.shapes = shapes
        self.sizes = [int(np.prod(shape)) for shape in shapes.values()]

    def columns(self, torso: str) -> slice:
        """Those of a torso in the joined first layer."""
        at = self.torsos.index(torso) * self.hidden[0]
        return slice(at, at + self.hidden[0])

    def pack(self, params: Params) -> np.ndarray:
        """Canonical weights → the flat vector."""
        torsos = self.torsos
        first = np.concatenate(
            [
                np.concatenate([params[t + ".dense0.w"] for t in torsos], 1),
                np.concatenate([params[t + ".dense0.b"] for t in torsos])[None],
            ]
        )
        rest = [params[_canonical(name)] for name in list(self.shapes)[1:]]
        return np.concatenate([array.ravel() for array in (first, *rest)]).astype(self.dtype)

    def unpack(self, flat: np.ndarray) -> Params:
        pieces = np.split(np.asarray(flat), np.cumsum(self.sizes)[:-1])
        arrays = {n: piece.reshape(shape) for (n, shape), piece in zip(self.shapes.items(), pieces)}
        params = {_canonical(name): array for name, array in arrays.items() if name != "first"}
        for torso in self.torsos:
            own = arrays["first"][:, self.columns(torso)]
            params[torso + ".dense0.w"], params[torso + ".dense0.b"] = own[:-1], own[-1]
        return params


def _canonical(name: str) -> str:
    """`actor.1.w` → `actor.dense1.w`; heads have their canonical names."""
    torso, _, rest = name.partition(".")
    return name if rest in ("w", "b") else "{}.dense{}".format(torso, rest)
