"""`tanh` by NumPy's vectorised loop, in C and in Numba."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytensor.tensor as pt
from llvmlite import ir
from llvmlite.binding import add_symbol
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from pytensor.graph.basic import Apply
from pytensor.link.c.op import COp
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key

from rldyno_rig.backends.ufunc_loops import CLoop, address

SYMBOL = "numpy_tanh_{}"
"""Compiled code is cached on disk, so it may hold the loop's name, but not its address."""

for dtype in ("float32", "float64"):
    add_symbol(SYMBOL.format(dtype), address("tanh", dtype))


class Tanh(CLoop, COp):
    """PPO's update with 128 rows and two networks of 64-64: 157 µs instead of 926 in Numba."""

    __props__ = ()

    def make_node(self, x: Any) -> Any:
        x = pt.as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node: Any, inputs: List[np.ndarray], storage: List[List[Any]]) -> None:
        storage[0][0] = np.tanh(inputs[0])

    def pullback(self, inputs: List[Any], outputs: List[Any], slopes: List[Any]) -> List[Any]:
        return [slopes[0] * (1 - outputs[0] * outputs[0])]


@register_funcify_default_op_cache_key(Tanh)
def _in_numba(op: Tanh, node: Any, **kwargs: Any) -> Any:
    @numba_njit
    def tanh(x: Any) -> Any:
        y = np.empty(x.shape, x.dtype)
        _run_loop(np.ascontiguousarray(x), y)
        return y

    return tanh


@intrinsic
def _run_loop(typing: Any, x: Any, y: Any) -> Any:
    """loop({x, y}, {size}, {step of x, step of y}, NULL), as NumPy calls it."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def in_memory(numbers: List[Any]) -> Any:
            packed = cgutils.alloca_once_value(builder, cgutils.pack_array(builder, numbers))
            return builder.bitcast(packed, numbers[0].type.as_pointer())

        arrays = [make_array(kind)(context, builder, value) for kind, value in zip(signature.args, values)]
        given = [
            in_memory([builder.bitcast(array.data, cgutils.voidptr_t) for array in arrays]),
            in_memory([arrays[0].nitems]),
            in_memory([array.itemsize for array in arrays]),
            cgutils.voidptr_t(None),
        ]
        kind = ir.FunctionType(ir.VoidType(), [one.type for one in given])
        symbol = SYMBOL.format(signature.args[0].dtype)
        builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), given)
        return context.get_dummy_value()

    return types.void(x, y), generate
