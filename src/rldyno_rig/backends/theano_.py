"""Theano: symbolic graphs, optimised as a whole and compiled to C++."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
from pathlib import Path
from typing import Any, Dict, List

import numpy as np

from rldyno_rig.backends import contract
from rldyno_rig.backends.symbolic import INDEX_DTYPE, Learner
from rldyno_rig.backends.symbolic_maths import Model, Symbols, activate
from rldyno_rig.backends.ufunc_loops import CLoop
from rldyno_rig.layout import filters_first
from rldyno_rig.spec import Params, Spec


def _blas_flags() -> str:
    """The OpenBLAS inside SciPy's wheel, else the system's; without one Theano calls NumPy for products."""
    scipy = importlib.util.find_spec("scipy")
    home = Path(scipy.origin).parents[1] / "scipy.libs" if scipy and scipy.origin else Path()
    # THEANO_FLAGS can hold neither commas nor spaces within a value.
    for library in sorted(home.glob("libopenblas*.so")):
        if not set(", ") & set(str(library)):
            return "-L{} -l:{}".format(home, library.name)
    return "-lopenblas" if ctypes.util.find_library("openblas") else ""


os.environ["THEANO_FLAGS"] = "{},blas.ldflags={}".format(os.environ.get("THEANO_FLAGS", ""), _blas_flags())

import theano  # noqa: E402 (reads its flags)
import theano.tensor as T  # noqa: E402, N812 (its community writes it so)

__all__ = ["INDEX_DTYPE", "MODES", "facts", "make", "theano"]

MODES = ("graph",)


def facts() -> Dict[str, Any]:
    return {
        "versions": {"theano": theano.__version__},
        "device": "cpu",
        "blas": theano.config.blas.ldflags.rpartition("-l")[2] or "numpy",
        "threads": os.environ.get("OPENBLAS_NUM_THREADS", "all"),
        "transfer": "none: graphs read host arrays",
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> contract.Learner:
    assert (mode, device) == ("graph", "cpu")
    # Intermediate arrays are kept from call to call (no garbage collection).
    compiling = theano.Mode("cvm_nogc", "fast_run")
    return Learner(TheanoModel(spec), theano, compiling, params, dtype)


class Tanh(CLoop, theano.Op):
    """y = tanh x by NumPy's loop."""

    __props__ = ()

    def make_node(self, x: Any) -> Any:
        x = T.as_tensor_variable(x)
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node: Any, inputs: List[np.ndarray], storage: List[List[Any]]) -> None:
        storage[0][0] = np.tanh(inputs[0])

    def grad(self, inputs: List[Any], slopes: List[Any]) -> List[Any]:
        y = self(*inputs)
        return [slopes[0] * (1 - y * y)]


class TheanoModel(Model):
    T = T
    tanh = Tanh()
    native = staticmethod(filters_first)

    def features(self, weights: Symbols, torso: str, obs: Any) -> Any:
        network = self.network
        x = obs.astype(next(iter(weights.values())).dtype)
        if network.observation_dtype == "uint8":
            x = x / self.constant(255, x)
        for index, (_, _, stride) in enumerate(network.convolutions):
            name = "{}.conv{}".format(torso, index)
            y = T.nnet.conv2d(x, weights[name + ".w"], subsample=(stride, stride), filter_flip=False)
            x = activate(self, y + weights[name + ".b"].dimshuffle("x", 0, "x", "x"))
        return x.flatten(2)

    def observation(self) -> Any:
        network = self.network
        return T.TensorType(network.observation_dtype, (False,) * (1 + len(network.observation_shape)))()

    def softmax(self, x: Any) -> Any:
        return T.nnet.softmax(x)

    def log_softmax(self, x: Any) -> Any:
        return T.nnet.logsoftmax(x)

    def held(self, x: Any) -> Any:
        return theano.gradient.disconnected_grad(x)

    def column(self, x: Any) -> Any:
        return T.addbroadcast(x, 1)

    def mean_of(self, z: np.ndarray, logits: Any) -> Any:
        # Theano's softmax is of matrices.
        flat = self.softmax(logits.reshape((-1, self.network.atoms)))
        return T.dot(flat, z).reshape((-1, self.network.actions))
