"""PyTensor, the living heir of Theano: symbolic graphs, optimised as a whole, compiled by Numba or as C++."""

from __future__ import annotations

import importlib.util
import math
import os
from pathlib import Path
from typing import Any, Dict, Optional

import numba
import numpy as np

from rldyno_rig.backends.symbolic import INDEX_DTYPE, Learner
from rldyno_rig.backends.symbolic_maths import Maths, Symbols, after_convolutions
from rldyno_rig.spec import Params, Spec, convolution_outputs


def _flags() -> str:
    """Let the C backend use the OpenBLAS inside SciPy's wheel, whose routines carry a prefix.

    Without it the C backend calls NumPy for every product. Numba asks SciPy by itself.
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

__all__ = ["INDEX_DTYPE", "MODES", "facts", "make"]

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


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> Learner:
    assert device == "cpu"
    if mode == "graph-numba":
        return Learner(NumbaMaths(spec), pytensor, get_mode("NUMBA"), params, dtype)
    # Intermediate arrays are kept from call to call (no garbage collection).
    return Learner(PytensorMaths(spec), pytensor, Mode("cvm_nogc", "fast_run"), params, dtype)


class PytensorMaths(Maths):
    T = pt

    def features(self, params: Symbols, torso: str, obs: Any) -> Any:
        """Convolutions as products of windows and weights: PyTensor has no strided convolution of batches."""
        network, dtype = self.network, next(iter(params.values())).dtype
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
            y = self.activate(pt.dot(windows, params[name + ".w"].T) + params[name + ".b"])
            x, channels = y.reshape((-1, rows, columns, filters)), filters
        return x.reshape((-1, rows * columns * channels))

    def native(self, name: str, positions: np.ndarray) -> np.ndarray:
        """Convolutions multiply what `windows_of` makes; dense layers after them take channels last."""
        shape, network = positions.shape, self.network
        if len(shape) == 4:
            _, kernel, stride = network.convolutions[int(name.split(".conv")[1].split(".")[0])]
            block = math.gcd(kernel, stride)
            count = kernel // block
            blocks = positions.reshape(count, block, count, block, *shape[2:])
            return blocks.transpose(5, 0, 2, 1, 3, 4).reshape(shape[3], -1)
        if len(shape) == 2 and name.rpartition(".")[0] in after_convolutions(network):
            image = convolution_outputs(network)[-1]
            return positions.reshape(*image, -1).transpose(1, 2, 0, 3).reshape(shape)
        return positions

    def observation(self) -> Any:
        network = self.network
        return pt.tensor(dtype=network.observation_dtype, shape=(None, *network.observation_shape))

    def split_noise(self, noise: Optional[Any]) -> Symbols:
        vectors = super().split_noise(noise)
        for name in [layer + ".in" for layer in after_convolutions(self.network)]:
            if name in vectors:
                image = vectors[name].reshape(convolution_outputs(self.network)[-1])
                vectors[name] = image.dimshuffle(1, 2, 0).flatten()
        return vectors

    def softmax(self, x: Any) -> Any:
        return softmax(x, -1)

    def log_softmax(self, x: Any) -> Any:
        return log_softmax(x, -1)

    def held(self, x: Any) -> Any:
        return disconnected_grad(x)


class NumbaMaths(PytensorMaths):
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
