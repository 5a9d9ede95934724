"""What a step takes, part by part, and the difference of two such steps: every split is exact.

A step takes the geometric mean of its time over runs, as everywhere. A part takes its mean share of that: the
shares of a run sum to 1, so do their means, and each draw of them; so parts sum to the whole in every draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rldyno.stats.anytime import widening
from rldyno.stats.estimates import Estimate, Sampler, draws_interval
from rldyno.stats.moments import Floats


@dataclass(frozen=True)
class Drawn:
    """A figure, or several, with draws as far from it as the truth may be; none for a single run."""

    point: Floats
    draws: Floats
    """[draw, …]"""
    runs: int

    def estimates(self) -> list[Estimate]:
        """Of each figure."""
        if not len(self.draws):
            return [Estimate(float(point), None, None, self.runs) for point in self.point]
        return [
            Estimate(float(point), *draws_interval(draws), self.runs)
            for point, draws in zip(self.point, self.draws.T, strict=True)
        ]


@dataclass(frozen=True)
class Weights:
    """How far each draw moves each run from the mean. Groups that share them are paired run by run."""

    values: Floats
    """[draw, run]; no draw where it, or what it is compared with, is a single run."""

    @classmethod
    def without_draws(cls, runs: int) -> Weights:
        return cls(np.empty((0, runs)))

    @classmethod
    def of(cls, runs: int, rng: np.random.Generator, any_time: bool = False) -> Weights:
        """`any_time`: intervals hold at every number of runs, as where seeds were added."""
        if runs < 2:
            return cls.without_draws(runs)
        return cls(Sampler(rng).weights(runs) * (min(widening(runs), 1e3) if any_time else 1.0))

    def mean(self, values: Floats) -> Drawn:
        """The mean over runs of [run, figure]."""
        middle = values.mean(axis=0)
        return Drawn(middle, middle + self.values @ (values - middle), len(values))

    def step(self, times: Floats) -> Drawn:
        """Parts of a step from [run, part], each row of which sums to more than 0."""
        whole = times.sum(axis=1, keepdims=True)
        shares, logs = self.mean(times / whole), self.mean(np.log(whole))
        # Two runs may give draws of any size: bounded, so that differences of them are numbers.
        draws = np.exp(np.clip(logs.draws, -300, 300)) * shares.draws
        return Drawn(np.exp(logs.point) * shares.point, draws, len(times))


def gap(slow: Drawn, fast: Drawn) -> Drawn:
    return Drawn(slow.point - fast.point, slow.draws - fast.draws, min(slow.runs, fast.runs))


def shares_of_sum(parts: Drawn) -> Drawn:
    """Each part as a share of their sum, which is not 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = parts.draws / parts.draws.sum(axis=1, keepdims=True)
    return Drawn(parts.point / parts.point.sum(), np.nan_to_num(draws), parts.runs)


def two_factors(slow: Drawn, slow_calls: Drawn, fast: Drawn, fast_calls: Drawn) -> tuple[Drawn, Drawn]:
    """n₁k₁ − n₂k₂ = (n₁ − n₂)(k₁ + k₂)/2 + (k₁ − k₂)(n₁ + n₂)/2: by the calls n, by the cost k of a call.

    Both are Shapley values: the mean of what changing one factor first, or last, does. All calls are above 0.
    """

    def halves(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        (time, calls), (other_time, other_calls) = one, other
        with np.errstate(divide="ignore", invalid="ignore"):
            cost, other_cost = time / calls, other_time / other_calls
            by_calls = (calls - other_calls) * (cost + other_cost) / 2
            by_cost = (cost - other_cost) * (calls + other_calls) / 2
        return np.nan_to_num(by_calls), np.nan_to_num(by_cost)

    points = halves((slow.point, slow_calls.point), (fast.point, fast_calls.point))
    draws = halves((slow.draws, slow_calls.draws), (fast.draws, fast_calls.draws))
    runs = min(slow.runs, fast.runs)
    return Drawn(points[0], draws[0], runs), Drawn(points[1], draws[1], runs)
