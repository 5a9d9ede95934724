"""Replay for one environment, in C: steps are noted as they come, and stored when they are needed."""

from __future__ import annotations

import ctypes
import itertools
from sys import getrefcount
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from rldyno_rig.parts.native import ENDED, GOES_ON, LINE, STEP, TERMINATED, Batch, Chooser, Memory
from rldyno_rig.parts.replay import Store, Transitions

WAITING = 64
"""Steps that may wait before they are stored."""

Place = Tuple[Transitions, Any, Any]
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
        self.returned = np.zeros(1)
        """Rewards of the episode under way, as of the last `flush`; who reports an episode sets it to 0."""
        self._library = library
        self._kinds = ((shape, obs_dtype), ((), index_dtype), ((), dtype), ((), dtype), (shape, obs_dtype))
        obs_bytes, action_bytes, number_bytes, *_ = (np.empty(*kind).nbytes for kind in self._kinds)
        self._row_bytes = obs_bytes
        self._transitions = _aligned(capacity, 2 * obs_bytes + action_bytes + 2 * number_bytes)
        # Steps that wait, the n of the window before them, and what the last one led to.
        self.lasting = staged = 1 << (WAITING + n + 1).bit_length()
        """Steps for which an environment must leave its observations as they are."""
        self._powers = np.array([gamma**k for k in range(n + 1)])
        self._steps, self._final = (
            np.zeros((staged, STEP.size), np.uint8),
            np.zeros((staged, obs_bytes), np.uint8),
        )
        self._observations = np.zeros((staged, obs_bytes), np.uint8)
        held = (self._powers, self._steps, self._observations, self._final, self.returned)
        self._memory = Memory(
            *(capacity, obs_bytes, action_bytes, number_bytes, 0),
            *(self._transitions.shape[1], self._transitions.ctypes.data),
            *(staged, n, 0, 0),
            *(array.ctypes.data for array in held),
        )
        self._places: Dict[int, List[Place]] = {}

    @property
    def nbytes(self) -> int:
        return self._transitions.nbytes

    def flush(self) -> None:
        """Bring memory and `returned` up to date."""
        self._library.rldyno_flush(ctypes.byref(self._memory))

    def stored(self) -> int:
        self.flush()
        return int(self._memory.added)

    def storing(self, first_obs: np.ndarray, kept: Optional[np.ndarray] = None) -> Store:
        """Takes each step of the environment; `first_obs` is what it began with.

        `kept`: where the environment itself keeps the last observations, `Environment.keep(lasting)`.
        """
        note = self._noting()
        if kept is not None:
            self._observations, self._memory.observations = kept, kept.ctypes.data
            return note
        self._observations[0] = np.frombuffer(first_obs.tobytes(), np.uint8)
        rows = itertools.cycle(self._observations)
        next(rows)

        def store(
            action: np.ndarray,
            obs: np.ndarray,
            reward: np.ndarray,
            terminated: np.ndarray,
            truncated: np.ndarray,
            final_obs: np.ndarray,
        ) -> None:
            next(rows)[:] = np.frombuffer(obs.tobytes(), np.uint8)
            note(action, obs, reward, terminated, truncated, final_obs)

        return store

    def _noting(self) -> Store:
        """All of a step but its observation."""
        steps, final = self._steps.data.cast("B"), self._final.data.cast("B")
        size, row, last = STEP.size, self._row_bytes, self.lasting - 1
        write, flush, step = STEP.pack_into, self.flush, 0
        fixed, value = None, 0.0

        def note(
            action: np.ndarray,
            obs: np.ndarray,
            reward: np.ndarray,
            terminated: np.ndarray,
            truncated: np.ndarray,
            final_obs: np.ndarray,
        ) -> None:
            nonlocal step, fixed, value
            at = step & last
            if reward is not fixed:
                value = reward.item()
                fixed = None if reward.flags.writeable else reward
            if final_obs is obs:
                write(steps, at * size, action.item(), value, GOES_ON)
            else:
                final[at * row : (at + 1) * row] = final_obs.tobytes()
                write(steps, at * size, action.item(), value, TERMINATED if terminated.item() else ENDED)
            step += 1
            if not step % WAITING:
                flush()

        return note

    def sampler(self, rng: np.random.Generator, batch_size: int) -> Callable[[], Transitions]:
        chooser = _Chooser(rng, batch_size)
        sample, places = self._library.rldyno_sample, [self._new_place(batch_size, chooser)]

        def transitions() -> Transitions:
            for arrays, _, place in places:
                if _references(arrays) == UNHELD:
                    sample(place)
                    return arrays
            places.append(self._new_place(batch_size, chooser))
            return transitions()

        return transitions

    def take(self, index: np.ndarray) -> Transitions:
        places = self._places.setdefault(len(index), [])
        for arrays, _, place in places:
            if _references(arrays) == UNHELD:
                self._library.rldyno_take(ctypes.addressof(self._memory), index.ctypes.data, place)
                return arrays
        places.append(self._new_place(len(index)))
        return self.take(index)

    def _new_place(self, rows: int, chooser: Optional[_Chooser] = None) -> Place:
        """Arrays for a batch. They are used again when nobody holds them: as if freed and allocated."""
        arrays = tuple(np.empty((rows, *shape), dtype) for shape, dtype in self._kinds)
        index = np.empty(rows, np.int64)
        addresses = (array.ctypes.data for array in (index, *arrays))
        chosen_by = None if chooser is None else ctypes.addressof(chooser.structure)
        batch = Batch(rows, *addresses, ctypes.addressof(self._memory), chosen_by)
        return arrays, (batch, index, chooser), ctypes.byref(batch)


class _Chooser:
    """Draws the numbers that `rng.random` would."""

    def __init__(self, rng: np.random.Generator, batch_size: int) -> None:
        interface = rng.bit_generator.ctypes
        draws = rng.random(batch_size)
        draw = ctypes.cast(interface.next_double, ctypes.c_void_p)
        self.structure = Chooser(draws.ctypes.data, draw, interface.state_address, 0)
        self._held = rng, draws


def _references(arrays: Transitions) -> int:
    """To all of them, those of this function included: Pythons differ in their number."""
    # Five calls take 0.45 µs in a loop that fills the caches, `sum(map(…))` 0.9.
    obs, action, reward, discount, next_obs = arrays
    return (
        getrefcount(obs)
        + getrefcount(action)
        + getrefcount(reward)
        + getrefcount(discount)
        + getrefcount(next_obs)
    )


UNHELD = _references(tuple(np.empty(1) for _ in range(5)))


def _aligned(rows: int, row_bytes: int) -> np.ndarray:
    """Zeros [rows, row_bytes], from a line of the cache on; rows that fill most of a line get all of it."""
    width = LINE if 3 * LINE // 4 < row_bytes <= LINE else row_bytes
    block = np.zeros(rows * width + LINE, np.uint8)
    start = -block.ctypes.data % LINE
    return block[start : start + rows * width].reshape(rows, width)
