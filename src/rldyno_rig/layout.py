"""Where the weights lie: one canonical layout on the host, one flat vector in each backend.

Canonical: dense weights [in, out], convolutions HWIO, features after the last convolution flattened
channel-first (C, H, W). A backend names the permutation that its framework wants; `Layout` applies it when
weights are loaded and takes it back when they are read. Nothing here runs between two updates.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from rldyno_rig.spec import Network, Params, convolution_outputs, parameter_shapes

Native = Callable[[Network, str, np.ndarray], np.ndarray]
"""(network, parameter's name, canonical array) → the same numbers as the framework wants them."""


def canonical(network: Network, name: str, array: np.ndarray) -> np.ndarray:
    """As on the host."""
    return array


def filters_first(network: Network, name: str, array: np.ndarray) -> np.ndarray:
    """Convolutions HWIO → OIHW; dense weights stay [in, out]."""
    return array.transpose(3, 2, 0, 1) if array.ndim == 4 else array


def outputs_first(network: Network, name: str, array: np.ndarray) -> np.ndarray:
    """Convolutions HWIO → OIHW, dense weights [in, out] → [out, in]."""
    return array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T


def channels_last(network: Network, name: str, array: np.ndarray) -> np.ndarray:
    """Rows of the weights on the features of an image (C, H, W) → (H, W, C); convolutions stay HWIO."""
    if not takes_image(network, name):
        return array
    image = convolution_outputs(network)[-1]
    return array.reshape(*image, -1).transpose(1, 2, 0, 3).reshape(array.shape)


def takes_image(network: Network, name: str) -> bool:
    """Whether this is a matrix whose rows are the features of the last convolution."""
    layer, _, kind = name.rpartition(".")
    return kind in ("w", "w_sigma") and layer in after_convolutions(network)


def after_convolutions(network: Network) -> Tuple[str, ...]:
    """The dense layers that take the features of the last convolution."""
    if not network.convolutions:
        return ()
    if network.hidden:
        return tuple(torso + ".dense0" for torso in network.torsos)
    return tuple(name for name, _, _ in network.heads)


def torso_layers(network: Network, torso: str) -> Tuple[Tuple[Tuple[str, int], ...], Tuple[str, ...]]:
    """((name, stride) of each convolution, name of each dense layer)."""
    strides = (stride for _, _, stride in network.convolutions)
    convolutions = tuple(("{}.conv{}".format(torso, i), stride) for i, stride in enumerate(strides))
    return convolutions, tuple("{}.dense{}".format(torso, i) for i in range(len(network.hidden)))


class Layout:
    """All parameters of a network in one flat vector, in canonical order, each as `native` makes it."""

    def __init__(self, network: Network, native: Native = canonical) -> None:
        self.network, self.native = network, native
        self.canonical_shapes = parameter_shapes(network)
        self.shapes: Dict[str, Tuple[int, ...]] = {
            name: native(network, name, np.empty(shape)).shape
            for name, shape in self.canonical_shapes.items()
        }
        self.sizes: List[int] = [math.prod(shape) for shape in self.shapes.values()]
        self.size = sum(self.sizes)

    def pack(self, arrays: Params) -> np.ndarray:
        """Canonical arrays → one flat vector of their dtype."""
        native = (self.native(self.network, name, np.asarray(arrays[name])) for name in self.shapes)
        return np.concatenate([array.ravel() for array in native])

    def unpack(self, flat: np.ndarray) -> Params:
        """Inverse of `pack`; the arrays are the caller's own."""
        arrays: Params = {}
        start = 0
        for name, shape in self.canonical_shapes.items():
            size = math.prod(shape)
            # Where each number of the native array lies in the canonical one.
            positions = self.native(self.network, name, np.arange(size).reshape(shape))
            array = np.empty(size, flat.dtype)
            array[positions.ravel()] = flat[start : start + size]
            arrays[name] = array.reshape(shape)
            start += size
        return arrays

    def views(self, flat: Any) -> Dict[str, Any]:
        """The parameters as slices of a flat vector; of any framework whose arrays slice and reshape."""
        views, start = {}, 0
        for (name, shape), size in zip(self.shapes.items(), self.sizes):
            views[name] = flat[start : start + size].reshape(shape)
            start += size
        return views
