"""Replay for one environment, in C: steps are noted as they come, and stored when they are needed."""

from __future__ import annotations

import ctypes
from struct import Struct
from sys import getrefcount
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from rldyno_rig.envs.journal import ENDED, GOES_ON, LINE, STEP, TERMINATED, WAITING, Journal, lines
from rldyno_rig.parts.native import Batch, Chooser, Memory
from rldyno_rig.parts.replay import Store, Transitions

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
        transition = 2 * obs_bytes + action_bytes + 2 * number_bytes
        # Those that fill most of a line of the cache get all of it.
        self._transitions = lines(capacity, LINE if 3 * LINE // 4 < transition <= LINE else transition)
        # Steps that wait, the n of the window before them, and what the last one led to.
        rows = 1 << (WAITING + n + 1).bit_length()
        self.journal = Journal(rows, shape, obs_dtype, self.flush)
        """Where steps are read from, by `flush`."""
        self._powers = np.array([gamma**k for k in range(n + 1)])
        self._memory = Memory(
            *(capacity, obs_bytes, action_bytes, number_bytes, 0),
            *(self._transitions.shape[1], self._transitions.ctypes.data),
            *(rows, self.journal.ring.shape[1], n, 0, 0),
            *(array.ctypes.data for array in (self._powers, self.journal.ring, self.returned)),
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

    def storing(self, first_obs: np.ndarray) -> Store:
        """Takes each step of an environment that does not write into the journal itself.

        `first_obs` is what it began with.
        """
        journal = self.journal
        rows, write, final_at = journal.rows, Struct("=" + STEP).pack_into, journal.final_at
        obs_bytes = journal.obs_bytes
        journal.first[:] = first_obs

        def store(
            action: np.ndarray,
            obs: np.ndarray,
            reward: np.ndarray,
            terminated: np.ndarray,
            truncated: np.ndarray,
            final_obs: np.ndarray,
        ) -> None:
            _, row = next(rows)
            row[:obs_bytes] = obs.tobytes()
            how = GOES_ON
            if final_obs is not obs:
                how = TERMINATED if terminated.item() else ENDED
                row[final_at : final_at + obs_bytes] = final_obs.tobytes()
            write(row, obs_bytes, action.item(), reward.item(), how)

        return store

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
