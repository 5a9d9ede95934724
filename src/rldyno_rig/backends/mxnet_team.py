"""How MXNet averages a gradient over the workers of a team, in place."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, Tuple

import mxnet as mx
import numpy as np

from rldyno_rig.team import host
from rldyno_rig.team.team import HOST, Reduce, Team


def averaging(team: Team, gradient: Any) -> Tuple[Reduce, str]:
    """The team's reduction of this array, and what carries it. Raises TeamError."""
    return _AVERAGING[team.collective](team, gradient)


def _on_host(team: Team, gradient: Any) -> Tuple[Reduce, str]:
    reduce, memory = host.averaging(team.rank, team.size), _memory(gradient)

    def average(gradient: Any) -> Any:
        # Ops run when called (NaiveEngine), so the gradient is there.
        reduce(memory)
        return gradient

    return average, host.MEANS


def _memory(array: Any) -> np.ndarray:
    """The array's own memory."""
    address = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(address)))
    dtype = np.dtype(array.dtype)
    block = (ctypes.c_char * (array.size * dtype.itemsize)).from_address(address.value or 0)
    return np.frombuffer(block, dtype)


_AVERAGING: Dict[str, Callable[[Team, Any], Tuple[Reduce, str]]] = {HOST: _on_host}
