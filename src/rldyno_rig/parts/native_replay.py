"""Replay for one environment, in C: steps are noted as they come, and stored when they are needed."""

from __future__ import annotations

import ctypes
from sys import getrefcount
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np

from rldyno_rig.parts.native import Batch, Memory
from rldyno_rig.parts.replay import DRAWN_AT_ONCE, Store, Transitions

WAITING = 64
"""Steps that may wait before they are stored."""

Place = Tuple[Transitions, Any, ctypes.c_void_p]
"""Arrays, what must live as long as they do, the address of their addresses."""


class NativeReplay:
    """The same transitions at the same positions as `Replay` has after `n_steps`, bit for bit."""

    def __init__(
        self,
        library: Any,
        n: int,
        gamma: float,
        capacity: int,
        shape: Tuple[int, ...],
        obs_dtype: str,
        dtype: np.dtype,
        index_dtype: np.dtype,
    ) -> None:
        self.capacity = capacity
        self._library = library
        self._steps = 0
        self._kinds = ((shape, obs_dtype), ((), index_dtype), ((), dtype), ((), dtype), (shape, obs_dtype))
        obs_bytes, action_bytes, number_bytes, *_ = (np.empty(*kind).nbytes for kind in self._kinds)
        self._row_bytes = obs_bytes
        self._transitions = np.zeros((capacity, 2 * obs_bytes + action_bytes + 2 * number_bytes), np.uint8)
        # Steps that wait, the n of the window before them, and the one whose end began the window.
        self._staged = staged = 1 << (WAITING + n + 1).bit_length()
        self._powers = np.array([gamma**k for k in range(n + 1)])
        self._after, self._first = np.zeros((2, staged, obs_bytes), np.uint8)
        self._action, self._reward = np.zeros(staged, np.int64), np.zeros(staged)
        self._ended = np.zeros(staged, np.uint8)
        staging = (self._powers, self._after, self._first, self._action, self._reward, self._ended)
        self._memory = Memory(
            *(capacity, obs_bytes, action_bytes, number_bytes, 0, self._transitions.ctypes.data),
            *(staged, n, 0, 0),
            *(array.ctypes.data for array in staging),
        )
        self._handle = ctypes.c_void_p(ctypes.addressof(self._memory))
        self._places: Dict[int, List[Place]] = {}

    @property
    def nbytes(self) -> int:
        return self._transitions.nbytes

    def stored(self) -> int:
        self._library.rldyno_flush(self._handle, self._steps)
        return int(self._memory.added)

    def storing(self, first_obs: np.ndarray) -> Store:
        """Takes each step of the environment; `first_obs` is what it began with."""
        # As if an episode had ended before.
        self._first[-1], self._ended[-1] = np.frombuffer(first_obs.tobytes(), np.uint8), 1
        flush, handle, row, staged = self._library.rldyno_flush, self._handle, self._row_bytes, self._staged
        after, first, ended = self._after.data.cast("B"), self._first.data.cast("B"), self._ended.data
        actions: Any = self._action.data
        rewards: Any = self._reward.data
        rows = [slice(at * row, (at + 1) * row) for at in range(staged)]
        last = staged - 1

        def store(
            action: np.ndarray,
            obs: np.ndarray,
            reward: np.ndarray,
            terminated: np.ndarray,
            truncated: np.ndarray,
            final_obs: np.ndarray,
        ) -> None:
            step = self._steps
            at = step & last
            after[rows[at]] = final_obs.tobytes()
            actions[at] = action.item()
            rewards[at] = reward.item()
            if final_obs is obs:
                ended[at] = 0
            else:
                first[rows[at]] = obs.tobytes()
                ended[at] = 1 + terminated.item()
            self._steps = step = step + 1
            if not step % WAITING:
                flush(handle, step)

        return store

    def sampler(self, rng: np.random.Generator, batch_size: int) -> Callable[[], Transitions]:
        sample, handle, draws = self._library.rldyno_sample, self._handle, _addresses(rng, batch_size)

        def transitions() -> Transitions:
            arrays, _, place = self._place(batch_size)
            sample(handle, self._steps, next(draws), place)
            return arrays

        return transitions

    def take(self, index: np.ndarray) -> Transitions:
        arrays, _, place = self._place(len(index))
        self._library.rldyno_take(self._handle, index.ctypes.data, place)
        return arrays

    def _place(self, rows: int) -> Place:
        """Arrays for a batch, of those that nobody holds any more: as if freed and allocated again."""
        places = self._places.setdefault(rows, [])
        for place in places:
            if _held(place[0]) == UNHELD:
                return place
        arrays = tuple(np.empty((rows, *shape), dtype) for shape, dtype in self._kinds)
        index = np.empty(rows, np.int64)
        batch = Batch(rows, index.ctypes.data, *(array.ctypes.data for array in arrays))
        place = (arrays, (batch, index), ctypes.c_void_p(ctypes.addressof(batch)))
        places.append(place)
        return place


def _addresses(rng: np.random.Generator, batch_size: int) -> Iterator[int]:
    """Where each row of `uniform_draws` lies."""
    while True:
        block = rng.random((DRAWN_AT_ONCE, batch_size))
        start = block.ctypes.data
        yield from range(start, start + block.nbytes, block.strides[0])


def _held(arrays: Tuple[np.ndarray, ...]) -> int:
    """The most references to one of them, those of this function included: Pythons differ in their number."""
    most = 0
    for array in arrays:
        references = getrefcount(array)
        if references > most:
            most = references
    return most


UNHELD = _held((np.empty(1), np.empty(1)))
