"""The part `data`: the same transitions through a framework's own input pipeline, in shuffled minibatches."""

from __future__ import annotations

import inspect
import statistics
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence

import numpy as np

from rldyno_rig.job_files import UsabilityJob
from rldyno_rig.loading import load_beside

ITEMS = 8_192
ROWS = 64
EPOCHS = 5
"""That are timed, after one that is not."""


def load_data(job: UsabilityJob, directory: Path) -> Dict[str, Any]:
    """Items per second, whether each epoch has each item once in another order, and the code of it."""
    make = load_beside("usability", job.backend).BATCHES[job.loader]
    given = transitions()
    stream = make(given, ROWS, 1 + EPOCHS)
    epochs, spent = [epoch(stream)], []
    for _ in range(EPOCHS):
        began = time.perf_counter()
        epochs.append(epoch(stream))
        host(epochs[-1][-1][0])  # frameworks that work in the background have finished
        spent.append(time.perf_counter() - began)
    stacked = [[np.concatenate(arrays) for arrays in zip(*held)] for held in map(hosted, epochs)]
    return {
        "items": ITEMS,
        "rows": ROWS,
        "items_per_s": ITEMS / statistics.median(spent),
        "each_once": all(same_items(given, found) for found in stacked),
        "shuffled": shuffled(given, stacked),
        "types_kept": [array.dtype for array in stacked[0]] == [array.dtype for array in given],
        "source": inspect.getsource(make),
    }


def transitions() -> List[np.ndarray]:
    """obs, action, reward, discount, next_obs, as a replay buffer holds them; no two are equal."""
    rng = np.random.default_rng(0)
    obs, next_obs = (rng.standard_normal((ITEMS, 4)).astype(np.float32) for _ in range(2))
    action = rng.integers(0, 2, ITEMS).astype(np.int32)
    reward = rng.standard_normal(ITEMS).astype(np.float32)
    discount = np.where(rng.random(ITEMS) < 0.05, 0.0, 0.99).astype(np.float32)
    return [obs, action, reward, discount, next_obs]


def epoch(stream: Iterator[Sequence[Any]]) -> List[Sequence[Any]]:
    """The batches that hold as many items as there are."""
    batches: List[Sequence[Any]] = []
    held = 0
    while held < ITEMS:
        batches.append(next(stream))
        held += len(batches[-1][0])
    return batches


def hosted(batches: List[Sequence[Any]]) -> List[List[np.ndarray]]:
    return [[host(array) for array in batch] for batch in batches]


def host(array: Any) -> np.ndarray:
    return np.asarray(array.asnumpy() if hasattr(array, "asnumpy") else array)


def same_items(given: List[np.ndarray], found: List[np.ndarray]) -> bool:
    """Whether both hold the same transitions, in any order."""
    return bool(np.array_equal(ordered(given), ordered(found)))


def ordered(arrays: List[np.ndarray]) -> np.ndarray:
    # All values are float32 or small integers, so double holds them exactly.
    table = np.column_stack([array.reshape(len(array), -1).astype(np.float64) for array in arrays])
    return np.asarray(table[np.lexsort(table.T)])


def shuffled(given: List[np.ndarray], epochs: List[List[np.ndarray]]) -> bool:
    """Whether no epoch has the order of the source, or of the one before it."""
    orders = [given[0], *(epoch[0] for epoch in epochs)]
    return not any(np.array_equal(one, other) for one, other in zip(orders, orders[1:])) and not any(
        np.array_equal(given[0], other) for other in orders[1:]
    )
