"""Host memory ↔ GPU memory by the CUDA driver itself, for frameworks whose own copies wait or take long.

A call costs a microsecond or two, where a copy through PyTorch's streams costs fifteen and `jax.device_put`
a hundred. No framework is used here: addresses and stream handles are integers.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from rldyno_rig.cuda_driver import open_cuda_driver

_NON_BLOCKING = 1
_NO_TIMING = 2
_ALIGNMENT = 256
_Pointer, _Size = ctypes.c_void_p, ctypes.c_size_t
_SIGNATURES: Dict[str, Tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuDevicePrimaryCtxRetain": (_Pointer, ctypes.c_int),
    "cuCtxSetCurrent": (_Pointer,),
    "cuStreamCreate": (_Pointer, ctypes.c_uint),
    "cuStreamSynchronize": (_Pointer,),
    "cuStreamWaitEvent": (_Pointer, _Pointer, ctypes.c_uint),
    "cuEventCreate": (_Pointer, ctypes.c_uint),
    "cuEventRecord": (_Pointer, _Pointer),
    "cuEventSynchronize": (_Pointer,),
    "cuMemHostAlloc": (_Pointer, _Size, ctypes.c_uint),
    "cuMemFreeHost": (_Pointer,),
    "cuMemcpyHtoDAsync_v2": (_Pointer, _Pointer, _Size, _Pointer),
    "cuMemcpyDtoHAsync_v2": (_Pointer, _Pointer, _Size, _Pointer),
}


def _checked(status: int, function: Any, arguments: Tuple[Any, ...]) -> int:
    """What ctypes does after every call; it takes 0.1 µs."""
    if status:
        raise RuntimeError("the CUDA driver answers {} with error {}".format(function.__name__, status))
    return status


class Driver:
    """libcuda, on the first GPU this process may see, in the context that frameworks share."""

    def __init__(self) -> None:
        library = open_cuda_driver()
        for name, arguments in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes = arguments
            # As a process ends, memory may be given back to a driver that is gone already.
            if name != "cuMemFreeHost":
                function.errcheck = _checked
        self.call = library
        library.cuInit(0)
        context = _Pointer()
        library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        library.cuCtxSetCurrent(context)
        self.stream: int = self._made(library.cuStreamCreate, _NON_BLOCKING)
        self.returning: int = self._made(library.cuStreamCreate, _NON_BLOCKING)
        """Results come back on a stream of their own, or they would wait for the next batch to arrive."""
        self.waiting: List[Tuple[Place, HostMemory]] = []
        """Copies to begin when the device has work, or when they are needed: beginning one takes 15 µs."""

    def event(self) -> int:
        return self._made(self.call.cuEventCreate, _NO_TIMING)

    def host_memory(self, size: int) -> int:
        return self._made(self.call.cuMemHostAlloc, size, 0)

    def copy(self, memory: HostMemory, place: Place) -> None:
        """Begin to copy once `place` was consumed; `place.arrived` says when it is done."""
        call, stream = self.call, self.stream
        call.cuStreamWaitEvent(stream, place.consumed, 0)
        for address, offset, size in place.copies:
            call.cuMemcpyHtoDAsync_v2(address, memory.address + offset, size, stream)
        call.cuEventRecord(place.arrived, stream)

    def begin_waiting(self) -> None:
        waiting, self.waiting = self.waiting, []
        for place, memory in waiting:
            place.waits = False
            self.copy(memory, place)

    def need(self, place: Place) -> None:
        """Only after this does `place.arrived` mean the last batch that was put there."""
        if place.waits:
            self.begin_waiting()

    def _made(self, function: Callable[..., int], *arguments: int) -> int:
        made = _Pointer()
        function(ctypes.byref(made), *arguments)
        assert made.value is not None
        return made.value


class HostMemory:
    """Arrays of given shapes, one after the other in page-locked memory."""

    def __init__(self, driver: Driver, like: Sequence[np.ndarray]) -> None:
        self.offsets: List[int] = []
        end = 0
        for array in like:
            self.offsets.append(end)
            end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        self.size = end
        self.address = driver.host_memory(max(end, 1))
        block: Any = (ctypes.c_uint8 * max(end, 1)).from_address(self.address)
        self.arrays = tuple(
            np.frombuffer(block, array.dtype, array.size, offset).reshape(array.shape)
            for array, offset in zip(like, self.offsets)
        )
        self.copied = driver.event()
        """When the last copy that reads this memory is done."""
        self._free = driver.call.cuMemFreeHost

    def fill(self, arrays: Sequence[np.ndarray]) -> None:
        for mine, array in zip(self.arrays, arrays):
            np.copyto(mine, array)

    def __del__(self) -> None:
        self._free(self.address)


class Place:
    """Fixed GPU memory for one batch: what the framework calls it, and the copies that fill it.

    A copy is (GPU address, offset in the host memory, bytes).
    """

    def __init__(
        self, driver: Driver, placed: Tuple[Any, ...], copies: Sequence[Tuple[int, int, int]]
    ) -> None:
        self.placed, self.copies = placed, copies
        self.arrived = driver.event()
        """When the copy into it is done."""
        self.consumed = driver.event()
        """When what reads it is done; a framework that cannot signal it uses `reader` instead."""
        self.reader: Any = None
        self.waits = False
        """Whether it is among the driver's `waiting`."""


class Stage:
    """Host arrays of fixed shapes → GPU, asynchronously, on a stream of their own.

    What was placed is good until PLACES more batches of these shapes are; one batch can therefore travel
    while the device works on the one before.
    """

    PLACES = 3

    def __init__(
        self, driver: Driver, like: Sequence[np.ndarray], make_place: Callable[[HostMemory], Place]
    ) -> None:
        self.driver = driver
        self.slots = [HostMemory(driver, like) for _ in range(self.PLACES)]
        self.places = [make_place(slot) for slot in self.slots]
        self.locked: Dict[int, HostMemory] = {}
        self.turn = 0

    def lock(self, arrays: Sequence[np.ndarray]) -> Tuple[np.ndarray, ...]:
        """Copies in page-locked memory, from which `put` need not copy on the host once more."""
        memory = HostMemory(self.driver, arrays)
        memory.fill(arrays)
        self.locked[id(memory.arrays[0])] = memory
        return memory.arrays

    def next_place(self) -> Place:
        self.turn = (self.turn + 1) % self.PLACES
        return self.places[self.turn]

    def put(self, place: Place, arrays: Sequence[np.ndarray]) -> None:
        """Begin to copy, or leave it to the driver's `waiting` where the host has nothing to do for it.

        Arrays in page-locked memory must therefore stay as they are until the batch was used.
        """
        locked = self.locked.get(id(arrays[0]))
        if locked is not None:
            place.waits = True
            self.driver.waiting.append((place, locked))
            return
        self.driver.need(place)
        slot = self.slots[self.turn]
        self.driver.call.cuEventSynchronize(slot.copied)
        slot.fill(arrays)
        self.driver.copy(slot, place)
        self.driver.call.cuEventRecord(slot.copied, self.driver.stream)
