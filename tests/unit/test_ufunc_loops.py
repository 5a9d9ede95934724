"""Addresses of NumPy's inner loops, from which compiled graphs call them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from rldyno_rig.backends.ufunc_loops import address


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["tanh", "exp"])
def test_the_loop_at_the_address_computes_what_numpy_computes(name: str, dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal(37).astype(dtype)
    y = np.empty_like(x)
    arrays = (ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data)
    size, steps = ctypes.c_ssize_t(len(x)), (ctypes.c_ssize_t * 2)(x.itemsize, y.itemsize)
    loop = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address(name, dtype))
    loop(ctypes.addressof(arrays), ctypes.addressof(size), ctypes.addressof(steps), None)
    assert np.array_equal(y, getattr(np, name)(x))


def test_no_loop_is_invented_for_a_type_without_one() -> None:
    with pytest.raises(ValueError, match="not in"):
        address("tanh", "int64")
