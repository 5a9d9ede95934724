"""The rate at which a measured series grows, with an interval that long memory does not fool."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

BLOCKS = 20
FEWEST_BLOCKS = 8
PER_BLOCK = 5
SHARED = 1.5
"""1 + 2ρ: differences of successive block averages of a random walk correlate by ρ = 1/4 (Working 1960)."""


T_POINTS = (
    2.4469,
    2.3646,
    2.3060,
    2.2622,
    2.2281,
    2.2010,
    2.1788,
    2.1604,
    2.1448,
    2.1314,
    2.1199,
    2.1098,
    2.1009,
)
"""97.5 % points of Student's t for 6, 7, … 18 degrees of freedom: all that BLOCKS blocks can have. A table,
because the process of a trial uses this and must not import SciPy."""


class Trend(NamedTuple):
    """Per unit of time; `low` and `high` bound the rate at 95 %."""

    rate: float
    low: float
    high: float


def trend(times: Sequence[float], values: Sequence[float]) -> Trend | None:
    """Mean rate of growth between the medians of successive blocks; None with fewer than 40 values.

    The model is a random walk with drift, which is what an allocator's footprint looks like: errors stay, so
    regression residuals would be correlated over the whole series, while its increments are not. One step,
    however high, gives an interval around 0; only growth that goes on throughout excludes it.
    """
    blocks = min(BLOCKS, len(values) // PER_BLOCK)
    if blocks < FEWEST_BLOCKS:
        return None
    edges = [len(values) * block // blocks for block in range(blocks + 1)]
    spans = [slice(start, stop) for start, stop in pairwise(edges)]
    middles = [(statistics.median(times[span]), statistics.median(values[span])) for span in spans]
    rates = [
        (value - before) / (time - earlier)
        for (earlier, before), (time, value) in pairwise(middles)
        if time > earlier
    ]
    if len(rates) < FEWEST_BLOCKS - 1:
        return None
    rate = statistics.fmean(rates)
    error = math.sqrt(SHARED * statistics.variance(rates) / len(rates))
    reach = T_POINTS[len(rates) - FEWEST_BLOCKS + 1] * error
    return Trend(rate, rate - reach, rate + reach)
