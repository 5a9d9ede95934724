"""The last steps of one environment, one row each, as the C code of the replay memory reads them."""

from __future__ import annotations

from itertools import chain, cycle
from typing import Callable, Iterator, List, Tuple

import numpy as np

GOES_ON, ENDED, TERMINATED = 4, 5, 6
"""How a step ended, as the C code reads it: 4 says that the step waits there."""
WAITING = 64
"""Steps that may wait before they are stored."""
LINE = 64
"""Bytes of a line of a processor's cache."""
STEP = "qdB"
"""Action, reward, how it ended; as `struct` names their kinds."""
STEP_BYTES = 17

Row = Tuple[np.ndarray, memoryview]
"""What the step led to `[1, *shape]`, and all bytes of the row, which begin with it.

Then the step follows and, if it ended an episode, what the episode ended with.
"""


class Journal:
    """A ring. Row i + 1 is of step i; row 0 is what the first step began with, later it has a step, too.

    Whoever writes a step takes its row from `rows`.
    """

    def __init__(
        self, length: int, shape: Tuple[int, ...], dtype: str, stored: Callable[[], None] = lambda: None
    ) -> None:
        """`stored` is called after every WAITING rows, before the next is given out."""
        self._stored = stored
        empty = np.empty((1, *shape), dtype)
        self.obs_bytes = empty.nbytes
        self.final_at = empty.nbytes + STEP_BYTES
        used = self.final_at + empty.nbytes
        self.ring = lines(length, -(-used // LINE) * LINE)
        self._rows: List[Row] = [
            (row[: empty.nbytes].view(dtype).reshape(empty.shape), row.data) for row in self.ring
        ]
        self.first = self._rows[0][0]
        self.rows: Iterator[Row] = chain.from_iterable(self._blocks())

    def _blocks(self) -> Iterator[List[Row]]:
        rows = self._rows[1:] + self._rows[:1]
        for start in cycle(range(0, len(rows), WAITING)):
            yield rows[start : start + WAITING]
            self._stored()


def lines(rows: int, row_bytes: int) -> np.ndarray:
    """Zeros [rows, row_bytes] that begin with a line of the cache."""
    block = np.zeros(rows * row_bytes + LINE, np.uint8)
    start = -block.ctypes.data % LINE
    return block[start : start + rows * row_bytes].reshape(rows, row_bytes)
