"""A CUDA driver without a GPU that does everything as late as it may.

Work waits in its stream until somebody waits for it: the host for an event or a stream, or work of another
stream for an event. What a program forgot to wait for has never happened yet. GPU memory is host memory.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rldyno_rig.backends import cuda


@dataclass
class Record:
    """One use of an event: reached once all that lay before it in the stream is done."""

    stream: int
    reached: bool = False

    def reach(self) -> None:
        self.reached = True


class LateCuda:
    """What `ctypes.CDLL("libcuda.so.1")` is to `cuda.Driver`."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.status: dict[str, int] = {}
        """Function → the error it answers with, without doing anything."""
        self.sources: list[range] = []
        """Host addresses that copies to the GPU read, in the order in which they were asked for."""
        self.allocated: dict[int, ctypes.Array[ctypes.c_uint8]] = {}
        self.freed: list[int] = []
        self.streams: defaultdict[int, deque[Callable[[], object]]] = defaultdict(deque)
        self.latest: dict[int, Record] = {}
        """Event → its latest record; one that was never recorded holds nobody up."""
        self.handles = 0
        for name, arguments in cuda._SIGNATURES.items():
            function = ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(partial(self._answer, name))
            function.__name__ = name
            setattr(self, name, function)

    def submit(self, stream: int, work: Callable[[], object]) -> None:
        """A kernel."""
        self.streams[stream].append(work)

    def finish(self, stream: int) -> None:
        while self.streams[stream]:
            self.streams[stream].popleft()()

    def _answer(self, name: str, *arguments: int) -> int:
        self.calls.append(name)
        if name in self.status:
            return self.status[name]
        getattr(self, "_" + name.removesuffix("_v2"))(*arguments)
        return 0

    def _cuInit(self, flags: int) -> None:
        pass

    def _cuDevicePrimaryCtxRetain(self, made: int, device: int) -> None:
        self._hand_out(made)

    def _cuCtxSetCurrent(self, context: int) -> None:
        pass

    def _cuStreamCreate(self, made: int, flags: int) -> None:
        self._hand_out(made)

    def _cuEventCreate(self, made: int, flags: int) -> None:
        self._hand_out(made)

    def _cuMemHostAlloc(self, made: int, size: int, flags: int) -> None:
        block = (ctypes.c_uint8 * size)()
        self.allocated[ctypes.addressof(block)] = block
        ctypes.c_void_p.from_address(made).value = ctypes.addressof(block)

    def _cuMemFreeHost(self, address: int) -> None:
        self.freed.append(address)

    def _cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: int) -> None:
        self.sources.append(range(source, source + size))
        self.submit(stream, partial(ctypes.memmove, target, source, size))

    def _cuMemcpyDtoHAsync(self, target: int, source: int, size: int, stream: int) -> None:
        self.submit(stream, partial(ctypes.memmove, target, source, size))

    def _cuEventRecord(self, event: int, stream: int) -> None:
        self.latest[event] = Record(stream)
        self.submit(stream, self.latest[event].reach)

    def _cuEventSynchronize(self, event: int) -> None:
        if event in self.latest:
            self._await(self.latest[event])

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        if event in self.latest:
            self.submit(stream, partial(self._await, self.latest[event]))

    def _cuStreamSynchronize(self, stream: int) -> None:
        self.finish(stream)

    def _await(self, record: Record) -> None:
        while not record.reached:
            self.streams[record.stream].popleft()()

    def _hand_out(self, made: int) -> None:
        self.handles += 1
        ctypes.c_void_p.from_address(made).value = self.handles
