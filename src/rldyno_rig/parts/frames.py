"""A replay memory of stacked frames that keeps each frame once.

Of four stacked frames three were in the observation before, and an observation is in two transitions: a
million transitions of Atari take 7.1 GB in place of 57.
"""

from __future__ import annotations

import mmap
from array import array
from collections import deque
from typing import Callable, Deque, List, Tuple

import numpy as np

from rldyno_rig.parts.replay import Memory, Store, Transitions

PLACE = "int32"
"""Type of the number of a frame."""
PLACE_BYTES = 4
# Linux counts no memory for pages that were never written, however large the mapping; others do so anyway.
_NO_RESERVE = 0x4000 if hasattr(mmap, "MAP_POPULATE") else 0


def lasting(capacity: int, environments: int, stack: int, n_step: int) -> int:
    """Steps after which no transition of a memory holds a frame any more.

    A frame is in `stack` observations. A transition is stored up to n − 1 steps after it began, when others
    are not yet either, and is overwritten by the `capacity`-th one after it.
    """
    return -(-(capacity + 1) // environments) + stack + 2 * n_step


def frame_bytes(capacity: int, environments: int, shape: Tuple[int, ...], n_step: int) -> int:
    """Of the frames of a full memory; episodes that begin add a few."""
    stack, *frame = shape
    return lasting(capacity, environments, stack, n_step) * environments * int(np.prod(frame))


class Frames:
    """Gives frames places, and frees them `steps` steps later."""

    def __init__(self, steps: int, environments: int, shape: Tuple[int, ...]) -> None:
        self._stack, *frame = shape
        # The most that can be: every step ends an episode, and no two frames are the same.
        most = (steps + 1) * environments * 2 * self._stack
        self._frames = _untouched((most, *frame))
        self._unused = 0
        self._free: List[int] = []
        self._alive: Deque[int] = deque()
        """Oldest first."""
        self._born = array("L", bytes(array("L").itemsize * steps))
        """How many in each of the last steps."""
        self._step = 0
        self.nbytes = steps * environments * int(np.prod(frame))

    def begin(self, obs: np.ndarray) -> np.ndarray:
        """The places of the first observations, `[environments, stack]`."""
        self._obs = obs
        self._places = np.array([self._store_stack(row) for row in obs], PLACE)
        self._born[0] = len(self._alive)
        return self._places

    def follow(self, obs: np.ndarray, final_obs: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """The places of what a step of the environment returned; one array where it did so."""
        self._step += 1
        now = self._step % len(self._born)
        for _ in range(self._born[now]):
            self._free.append(self._alive.popleft())
        before = len(self._alive)
        after = np.empty_like(self._places)
        for row, old, old_places, new_places in zip(final_obs, self._obs, self._places, after):
            if np.array_equal(row[:-1], old[1:]):
                new_places[:-1] = old_places[1:]
                new_places[-1] = self._store(row[-1])
            else:
                new_places[:] = self._store_stack(row)
        places = after
        if obs is not final_obs:
            places = after.copy()
            for i, (row, last) in enumerate(zip(obs, final_obs)):
                if not np.array_equal(row, last):
                    places[i] = self._store_stack(row)
        self._obs, self._places = obs, places
        self._born[now] = len(self._alive) - before
        return places, after

    def storing(self, store: Store) -> Store:
        """Takes each step of the environment and gives `store` the places of its observations."""

        def store_frames(
            action: np.ndarray,
            obs: np.ndarray,
            reward: np.ndarray,
            terminated: np.ndarray,
            truncated: np.ndarray,
            final_obs: np.ndarray,
        ) -> None:
            places, final_places = self.follow(obs, final_obs)
            store(action, places, reward, terminated, truncated, final_places)

        return store_frames

    def take(self, places: np.ndarray) -> np.ndarray:
        """Observations `[…, stack, height, width]` from their places `[…, stack]`."""
        return self._frames.take(places, 0)

    def _store_stack(self, stack: np.ndarray) -> List[int]:
        """Each frame that is not the one before: an episode begins with empty ones."""
        places = [self._store(stack[0])]
        for old, new in zip(stack, stack[1:]):
            places.append(places[-1] if np.array_equal(old, new) else self._store(new))
        return places

    def _store(self, frame: np.ndarray) -> int:
        if self._free:
            place = self._free.pop()
        else:
            place, self._unused = self._unused, self._unused + 1
        self._frames[place] = frame
        self._alive.append(place)
        return place


class FrameReplay:
    """What `Replay` would give, from a memory that holds the places of frames in place of observations."""

    def __init__(self, places: Memory, frames: Frames) -> None:
        self._places = places
        self._frames = frames
        self.capacity = places.capacity
        self.stored = places.stored

    @property
    def nbytes(self) -> int:
        return self._places.nbytes + self._frames.nbytes

    def sampler(self, rng: np.random.Generator, batch_size: int) -> Callable[[], Transitions]:
        sample = self._places.sampler(rng, batch_size)
        return lambda: self._with_frames(sample())

    def take(self, index: np.ndarray) -> Transitions:
        return self._with_frames(self._places.take(index))

    def _with_frames(self, transitions: Transitions) -> Transitions:
        obs, *others, next_obs = transitions
        return (self._frames.take(obs), *others, self._frames.take(next_obs))


def _untouched(shape: Tuple[int, ...]) -> np.ndarray:
    """Zeros that take memory only where they are written to."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    block = mmap.mmap(-1, int(np.prod(shape)), flags=flags)
    return np.frombuffer(block, np.uint8).reshape(shape)
