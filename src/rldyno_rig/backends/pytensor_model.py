"""PyTensor's part of the network that it shares with Theano: convolutions, and names of operations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.tensor.special import log_softmax, softmax

from rldyno_rig.backends.symbolic_maths import Model, Symbols, activate
from rldyno_rig.layout import after_convolutions, channels_last
from rldyno_rig.spec import Network, convolution_outputs


def windowed(network: Network, name: str, array: np.ndarray) -> np.ndarray:
    """Convolutions multiply what `windows` makes; dense layers after them take channels last."""
    if array.ndim != 4:
        return channels_last(network, name, array)
    _, kernel, stride = network.convolutions[int(name.split(".conv")[1].split(".")[0])]
    block = math.gcd(kernel, stride)
    count = kernel // block
    blocks = array.reshape(count, block, count, block, *array.shape[2:])
    return blocks.transpose(5, 0, 2, 1, 3, 4).reshape(array.shape[3], -1)


class PytensorModel(Model):
    T = pt
    tanh: Any = staticmethod(pt.tanh)
    native = staticmethod(windowed)

    def features(self, weights: Symbols, torso: str, obs: Any) -> Any:
        """Convolutions as products of windows and weights: PyTensor has no strided convolution of batches."""
        network, dtype = self.network, next(iter(weights.values())).dtype
        if not network.convolutions:
            return obs.astype(dtype)
        channels = network.observation_shape[0]
        x = obs
        for index, (filters, kernel, stride) in enumerate(network.convolutions):
            _, rows, columns = convolution_outputs(network)[index]
            block = math.gcd(kernel, stride)
            used = ((rows - 1) * stride + kernel, (columns - 1) * stride + kernel)
            tall, wide = used[0] // block, used[1] // block
            # Pixels of a block become channels, so that fewer and longer pieces make up a window.
            if index == 0:
                x = x[:, :, : used[0], : used[1]].reshape((-1, channels, tall, block, wide, block))
                x = x.dimshuffle(0, 2, 4, 3, 5, 1).astype(dtype)
                if network.observation_dtype == "uint8":
                    x = x / self.constant(255, x)
            else:
                x = x[:, : used[0], : used[1]].reshape((-1, tall, block, wide, block, channels))
                x = x.dimshuffle(0, 1, 3, 2, 4, 5)
            x = x.reshape((-1, tall, wide, block * block * channels))
            windows = self.windows(x, kernel // block, stride // block, rows, columns)
            name = "{}.conv{}".format(torso, index)
            # Weights are [out, in] here: Numba copies what is transposed, and so it is never the windows.
            y = activate(self, pt.dot(windows, weights[name + ".w"].T) + weights[name + ".b"])
            x, channels = y.reshape((-1, rows, columns, filters)), filters
        return x.reshape((-1, rows * columns * channels))

    def observation(self) -> Any:
        network = self.network
        return pt.tensor(dtype=network.observation_dtype, shape=(None, *network.observation_shape))

    def noise_rows(self, name: str, vector: Any) -> Any:
        layer, _, end = name.rpartition(".")
        if end != "in" or layer not in after_convolutions(self.network):
            return vector
        return vector.reshape(convolution_outputs(self.network)[-1]).dimshuffle(1, 2, 0).flatten()

    def softmax(self, x: Any) -> Any:
        return softmax(x, -1)

    def log_softmax(self, x: Any) -> Any:
        return log_softmax(x, -1)

    def held(self, x: Any) -> Any:
        return disconnected_grad(x)

    def windows(self, x: Any, kernel: int, stride: int, rows: int, columns: int) -> Any:
        """[batch · rows · columns, kernel · kernel · channels]: the neighbourhood of every output.

        One gather of pixels: joined slices made Numba's update take 129 ms instead of 88, and minutes to
        compile.
        """
        tall, wide, channels = x.type.shape[1:]
        corners = stride * (wide * np.arange(rows)[:, None] + np.arange(columns))
        within = wide * np.arange(kernel)[:, None] + np.arange(kernel)
        pixels = (corners.reshape(-1, 1) + within.ravel()).ravel()
        index = pt.arange(x.shape[0])[:, None] * (tall * wide) + pixels
        return x.reshape((-1, channels))[index.flatten()].reshape((-1, kernel * kernel * channels))
