"""NumPy's vectorised inner loops, for graphs that are compiled without any.

g++ and LLVM turn `tanh` of an array into one call of libm per number: about 190 µs for 8,192 of them, where
NumPy's loop takes 3. The loop is called by its address, so a call costs no more than one of a C function.
"""

from __future__ import annotations

import ctypes
from typing import Any, List, Tuple

import numpy as np


class _Head(ctypes.Structure):
    """How a PyUFuncObject begins (numpy/ufuncobject.h)."""

    _fields_ = [
        ("object", ctypes.c_byte * object.__basicsize__),
        ("counts", ctypes.c_int * 4),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
    ]


def address(name: str, dtype: str) -> int:
    """Of the loop that computes `np.<name>` of one array of this type."""
    ufunc = getattr(np, name)
    character = np.dtype(dtype).char
    place = ufunc.types.index("{0}->{0}".format(character))
    head = _Head.from_address(id(ufunc))
    assert not head.data[place], "a loop that needs data of its own"
    return int(head.functions[place] or 0)


class CLoop:
    """The C code of an Op `y = np.<ufunc>(x)`, as Theano and PyTensor want it."""

    ufunc = "tanh"

    def c_headers(self, **kwargs: Any) -> List[str]:
        return ["<numpy/ufuncobject.h>"]

    def c_support_code_struct(self, node: Any, name: str) -> str:
        return "PyUFuncGenericFunction loop;"

    def c_init_code_struct(self, node: Any, name: str, sub: Any) -> str:
        return """
        {{
            PyObject* numpy = PyImport_ImportModule("numpy");
            PyUFuncObject* ufunc = (PyUFuncObject*)(numpy ? PyObject_GetAttrString(numpy, "{ufunc}") : NULL);
            Py_XDECREF(numpy);
            loop = NULL;
            if (ufunc) {{
                for (int i = 0; i < ufunc->ntypes && !loop; i++)
                    if (ufunc->types[2 * i] == {kind} && ufunc->types[2 * i + 1] == {kind})
                        loop = ufunc->functions[i];
                Py_DECREF(ufunc);
            }}
            if (!loop) {{ {fail} }}
        }}
        """.format(ufunc=self.ufunc, kind=_kind(node), fail=sub["fail"])

    def c_code(self, node: Any, name: str, inputs: List[str], outputs: List[str], sub: Any) -> str:
        return """
        {{
            PyArrayObject* x = PyArray_GETCONTIGUOUS({x});
            if (!x) {{ {fail} }}
            bool kept = {y} && PyArray_IS_C_CONTIGUOUS({y}) && PyArray_NDIM({y}) == PyArray_NDIM(x)
                && PyArray_CompareLists(PyArray_DIMS({y}), PyArray_DIMS(x), PyArray_NDIM(x));
            if (!kept) {{
                Py_XDECREF({y});
                {y} = (PyArrayObject*)PyArray_EMPTY(PyArray_NDIM(x), PyArray_DIMS(x), {kind}, 0);
                if (!{y}) {{ Py_DECREF(x); {fail} }}
            }}
            char* arrays[2] = {{PyArray_BYTES(x), PyArray_BYTES({y})}};
            npy_intp size = PyArray_SIZE(x), steps[2] = {{PyArray_ITEMSIZE(x), PyArray_ITEMSIZE(x)}};
            loop(arrays, &size, steps, NULL);
            Py_DECREF(x);
        }}
        """.format(x=inputs[0], y=outputs[0], kind=_kind(node), fail=sub["fail"])

    def c_code_cache_version(self) -> Tuple[int, ...]:
        return (1,)


def _kind(node: Any) -> str:
    return {"float32": "NPY_FLOAT", "float64": "NPY_DOUBLE"}[node.inputs[0].dtype]
