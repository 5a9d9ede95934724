"""Several tasks at once: runs are resampled within each task (Agarwal et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rldyno.stats.bootstrap import LEVEL, RESAMPLES, Estimate, Floats, mean, narrowness, percentile_interval


def probability_of_improvement(
    better: Sequence[Floats], than: Sequence[Floats], rng: np.random.Generator
) -> Estimate:
    """Mean over tasks of P(X > Y) + ½ P(X = Y), X and Y one run of each. Higher values must be better."""
    wins = [pair_wins(x, y) for x, y in zip(better, than, strict=True)]
    point = float(np.mean([table.mean() for table in wins]))

    def draw() -> Floats:
        per_task = []
        for table in wins:
            rows = resample_index(table.shape[0], rng)
            columns = resample_index(table.shape[1], rng)
            per_task.append(table[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2)))
        return np.asarray(np.mean(per_task, axis=0))

    sizes = [min(table.shape) for table in wins]
    return stratified(point, draw, sizes, widen=narrowness(mean, max(2, min(sizes))))


def pair_wins(x: Floats, y: Floats) -> Floats:
    """1 where a run of x beats a run of y, ½ where they tie. Infinite values may be compared."""
    over, equal = x[:, None] > y[None, :], x[:, None] == y[None, :]
    return np.asarray(over + 0.5 * equal)


def stratified(
    point: float, draw: Callable[[], Floats], sizes: Sequence[int], level: float = LEVEL, widen: float = 1.0
) -> Estimate:
    """The expanded percentile interval of draws over strata of these sizes."""
    smallest = min(sizes)
    if smallest < 2:
        return Estimate(point, None, None, smallest)
    low, high = percentile_interval(draw(), sum(sizes) - len(sizes), level, widen)
    return Estimate(point, low, high, smallest)


def resample_index(n: int, rng: np.random.Generator) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return rng.integers(0, n, size=(RESAMPLES, n))
