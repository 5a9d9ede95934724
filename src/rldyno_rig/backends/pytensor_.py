"""PyTensor, the successor of Theano: symbolic graphs, optimised whole, for Numba, a C compiler or JAX."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Dict

from rldyno_rig.backends import contract
from rldyno_rig.backends.symbolic import INDEX_DTYPE, Learner
from rldyno_rig.spec import Params, Spec


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
from pytensor.compile.mode import Mode, get_mode  # noqa: E402 (reads its flags)

__all__ = ["INDEX_DTYPE", "MODES", "facts", "make", "pytensor"]

MODES = ("graph-numba", "graph-c", "graph-jax")
COMPILERS = ("numba", "jax", "jaxlib")


def facts() -> Dict[str, Any]:
    compilers = {name: sys.modules[name].__version__ for name in COMPILERS if name in sys.modules}
    found = {
        "versions": {"pytensor": pytensor.__version__, **compilers},
        "device": "cpu",
        "blas": {
            "graph-numba": "scipy",
            "graph-c": pytensor.config.blas__ldflags.rpartition("-l")[2] or "numpy",
        },
        "fastmath": pytensor.config.numba__fastmath,
        "threads": os.environ.get("OPENBLAS_NUM_THREADS", "all"),
        "transfer": "none: graphs read host arrays",
    }
    if "jax" not in sys.modules:
        return found
    from rldyno_rig.backends.pytensor_jax import facts as of_jax

    return {**found, **of_jax()}


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> contract.Learner:
    # Each mode imports its own compiler only.
    if mode == "graph-jax":
        from rldyno_rig.backends.pytensor_jax import make as of_jax

        return of_jax(spec, params, device, dtype)
    assert device == "cpu"
    from rldyno_rig.backends.pytensor_compiled import CompiledModel, NumbaModel

    if mode == "graph-numba":
        return Learner(NumbaModel(spec), pytensor, get_mode("NUMBA"), params, dtype)
    # Intermediate arrays are kept from call to call (no garbage collection).
    return Learner(CompiledModel(spec), pytensor, Mode("cvm_nogc", "fast_run"), params, dtype)
