"""PyTensor, the successor of Theano: symbolic graphs, optimised as a whole, compiled by Numba or as C++."""

from __future__ import annotations

import importlib.util
import math
import os
from pathlib import Path
from typing import Any, Dict

import numba
import numpy as np

from rldyno_rig.backends import contract
from rldyno_rig.backends.symbolic import INDEX_DTYPE, Learner
from rldyno_rig.backends.symbolic_maths import Model, Symbols, activate
from rldyno_rig.layout import after_convolutions, channels_last
from rldyno_rig.spec import Network, Params, Spec, convolution_outputs


def _flags() -> str:
    """Let the C backend use the OpenBLAS inside SciPy's wheel, whose routines carry a prefix.

    Without it the C backend calls NumPy for every product. Numba finds SciPy's by itself.
    """
    scipy = importlib.util.find_spec("scipy")
    home = Path(scipy.origin).parents[1] / "scipy.libs" if scipy and scipy.origin else Path()
    # PYTENSOR_FLAGS can hold neither commas nor spaces within a value.
    for library in sorted(home.glob("libscipy_openblas-*.so")):
        if not set(", ") & set(str(library)):
            routines = [kind + name for kind in "sd" for name in ("gemm_", "gemv_", "ger_", "dot_")]
            renamed = " ".join("-D{0}=scipy_{0}".format(routine) for routine in routines)
            return "blas__ldflags=-L{} -l:{},gcc__cxxflags={}".format(home, library.name, renamed)
    return ""


os.environ["PYTENSOR_FLAGS"] = ",".join(filter(None, (os.environ.get("PYTENSOR_FLAGS"), _flags())))

import pytensor  # noqa: E402 (reads its flags)
import pytensor.tensor as pt  # noqa: E402 (reads its flags)
from pytensor.compile.mode import Mode, get_mode  # noqa: E402 (reads its flags)
from pytensor.gradient import disconnected_grad  # noqa: E402 (reads its flags)
from pytensor.tensor.special import log_softmax, softmax  # noqa: E402 (reads its flags)

from rldyno_rig.backends.pytensor_tanh import Tanh  # noqa: E402 (reads its flags)

__all__ = ["INDEX_DTYPE", "MODES", "facts", "make", "pytensor"]

MODES = ("graph-numba", "graph-c")


def facts() -> Dict[str, Any]:
    return {
        "versions": {"pytensor": pytensor.__version__, "numba": numba.__version__},
        "device": "cpu",
        "blas": {
            "graph-numba": "scipy",
            "graph-c": pytensor.config.blas__ldflags.rpartition("-l")[2] or "numpy",
        },
        "fastmath": pytensor.config.numba__fastmath,
        "threads": os.environ.get("OPENBLAS_NUM_THREADS", "all"),
        "transfer": "none: graphs read host arrays",
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> contract.Learner:
    assert device == "cpu"
    if mode == "graph-numba":
        return Learner(NumbaModel(spec), pytensor, get_mode("NUMBA"), params, dtype)
    # Intermediate arrays are kept from call to call (no garbage collection).
    return Learner(PytensorModel(spec), pytensor, Mode("cvm_nogc", "fast_run"), params, dtype)


def windowed(network: Network, name: str, array: np.ndarray) -> np.ndarray:
    """Convolutions multiply what `windows_of` makes; dense layers after them take channels last."""
    if array.ndim != 4:
        return channels_last(network, name, array)
    _, kernel, stride = network.convolutions[int(name.split(".conv")[1].split(".")[0])]
    block = math.gcd(kernel, stride)
    count = kernel // block
    blocks = array.reshape(count, block, count, block, *array.shape[2:])
    return blocks.transpose(5, 0, 2, 1, 3, 4).reshape(array.shape[3], -1)


class PytensorModel(Model):
    T = pt
    tanh = Tanh()
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
            windows = windows_of(x, kernel // block, stride // block, rows, columns)
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


class NumbaModel(PytensorModel):
    def squares(self, vector: Any) -> Any:
        # An update takes 88 µs this way and 111 the other, for Numba copies what BLAS multiplies; C 180, 163.
        return pt.sqr(vector).sum()


def windows_of(x: Any, kernel: int, stride: int, rows: int, columns: int) -> Any:
    """[batch · rows · columns, kernel · kernel · channels]: the neighbourhood of every output.

    One gather of pixels: joined slices made Numba's update take 129 ms instead of 88, and minutes to compile.
    """
    tall, wide, channels = x.type.shape[1:]
    corners = stride * (wide * np.arange(rows)[:, None] + np.arange(columns))
    within = wide * np.arange(kernel)[:, None] + np.arange(kernel)
    pixels = (corners.reshape(-1, 1) + within.ravel()).ravel()
    index = pt.arange(x.shape[0])[:, None] * (tall * wide) + pixels
    return x.reshape((-1, channels))[index.flatten()].reshape((-1, kernel * kernel * channels))
