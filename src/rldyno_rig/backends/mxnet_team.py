"""How MXNet averages a gradient over the workers of a team, in place.

`native` is the kvstore `dist_sync`: workers push to a server, which adds, and pull the sum. Rank 0 starts
that server, and the scheduler through which they all meet, as processes of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Tuple

import mxnet as mx
import numpy as np

from rldyno_rig.team import horovod_, host, ports
from rldyno_rig.team.link import LOCAL, TeamError
from rldyno_rig.team.team import HOROVOD, HOST, NATIVE, Reduce, Team

SERVER = "ps-lite"
_LEAVING_S = 60.0
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_ZEROED_MEMORY = "glibc.malloc.tcache_count=0:glibc.malloc.perturb=255"
"""MXNet never sets the server's flag `multi_precision_`; where memory happens not to be zero, it adds float64
in float32. New memory full of zeros costs no time that can be measured."""


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


class Server:
    """The kvstore `dist_sync`, with its server and scheduler at rank 0."""

    def __init__(self, team: Team) -> None:
        """Raises TeamError."""
        with ports.reserved(team) as own_port:
            port = ports.of_first(team, own_port)
            variables = _variables(team, port)
            self.helpers = _started(variables) if team.rank == 0 else []
            # Workers would wait for a scheduler that ended, for ever.
            ready = not self.helpers or ports.opened(self.helpers[0], port)
        if team.link.agree(not ready):
            self._end_helpers()
            raise TeamError("MXNet's scheduler cannot listen on port {} of worker 0".format(port))
        os.environ.update(variables, DMLC_ROLE="worker")
        self.store: Any = mx.kv.create("dist_sync")
        self.keys = itertools.count()
        self.share = 1.0 / team.size
        team.on_finish(self.leave)

    def averaging(self, gradient: Any) -> Reduce:
        """Each learner has an array of its own length; their order is the same on all ranks."""
        key = next(self.keys)
        self.store.init(key, gradient)

        def average(gradient: Any) -> Any:
            # Pushing and pulling apart takes 520 µs instead of 380.
            self.store.pushpull(key, gradient, out=gradient)
            gradient *= self.share
            return gradient

        return average

    def leave(self) -> None:
        self.store = None  # as it goes, it tells the server to end
        self._end_helpers(_LEAVING_S)

    def _end_helpers(self, patience_s: float = 0.0) -> None:
        deadline = time.monotonic() + patience_s
        for helper in self.helpers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                helper.wait(max(0.0, deadline - time.monotonic()))
            helper.kill()
            helper.wait()


def _variables(team: Team, port: int) -> Dict[str, str]:
    here = {"DMLC_INTERFACE": "lo"} if team.address == LOCAL else {}
    return {
        "DMLC_PS_ROOT_URI": team.address,
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_SERVER": "1",
        "DMLC_NUM_WORKER": str(team.size),
        "DMLC_NODE_HOST": ports.own_address(team),
        **here,
    }


def _started(variables: Dict[str, str]) -> List[Any]:
    """Scheduler and server, which live no longer than this process."""
    die_with_parent = ctypes.CDLL(None).prctl
    return [
        subprocess.Popen(
            [sys.executable, "-c", "import mxnet"],
            env={**os.environ, **variables, "DMLC_ROLE": role, "GLIBC_TUNABLES": _ZEROED_MEMORY},
            # It calls nothing but the system, so other threads cannot hold what it needs.
            preexec_fn=lambda: die_with_parent(_DEATH_SIGNAL, signal.SIGKILL),  # noqa: PLW1509
        )
        for role in ("scheduler", "server")
    ]


def _by_server(team: Team, gradient: Any) -> Tuple[Reduce, str]:
    return _server(team).averaging(gradient), SERVER


@functools.lru_cache(maxsize=None)
def _server(team: Team) -> Server:
    """One for all learners of this process."""
    return Server(team)


def _by_horovod(team: Team, gradient: Any) -> Tuple[Reduce, str]:
    horovod = horovod_.begin(team, "mxnet")

    def average(gradient: Any) -> Any:
        return horovod.allreduce_(gradient, average=True, name="gradient")

    return average, horovod_.MEANS


_AVERAGING: Dict[str, Callable[[Team, Any], Tuple[Reduce, str]]] = {
    HOST: _on_host,
    NATIVE: _by_server,
    HOROVOD: _by_horovod,
}
