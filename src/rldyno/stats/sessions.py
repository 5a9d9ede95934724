"""The same runs in two sessions: how their ratio is bounded, and how many more seeds would decide it.

Two sessions of one study differ by more than their seeds tell: clock rates, temperature, page cache and the
state of the kernel move all runs of a session together. One session does not show that spread: it is assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from rldyno.stats.distributions import ALPHA, NORMAL
from rldyno.stats.estimates import LEVEL
from rldyno.stats.moments import Difference, Floats, Moments, difference, paired_difference
from rldyno.stats.power import POWER

# Standard deviation, as a share, by which one contestant's runs of a whole session are shifted together on an
# idle machine. An assumption, not a measurement: seeds cannot show it, and more seeds do not reduce it.
SESSION_SPREAD = 0.015
MOST_SEEDS = 300


@dataclass(frozen=True)
class SessionRatio:
    """Logarithm of a ratio of two sessions."""

    sampling: Difference
    """Without the shift of whole sessions."""
    n: int
    """Pairs, or runs of the smaller set."""

    @property
    def difference(self) -> Difference:
        """error² = sampling error² + 2 · SESSION_SPREAD²; only the first has degrees of freedom to count."""
        sampled, shift = self.sampling.error**2, 2 * SESSION_SPREAD**2
        degrees = self.sampling.degrees * ((sampled + shift) / sampled) ** 2 if sampled else math.inf
        return Difference(self.sampling.mean, math.sqrt(sampled + shift), min(degrees, 1e6))

    @property
    def bounds(self) -> tuple[float, float]:
        """95 %, of the logarithm."""
        return self.difference.interval(LEVEL)

    def p_within(self, margin: float) -> float:
        """Small: it lies within ± the margin (two one-sided tests)."""
        return max(self.difference.p_above(-margin), self.difference.p_below(margin))

    def more_seeds(self, margin: float, error: float) -> int | None:
        """Seeds beyond those there are that decide with 80 % chance at this error; None beyond 300.

        The mean of N pairs, of which n are known, will be N(mean, s² (1/n − 1/N)). A difference needs it
        beyond the margin and beyond what chance does at `error`; equality needs it well within the margin.
        """
        total = np.arange(self.n + 1, MOST_SEEDS + 1)
        mean, spread = abs(self.sampling.mean), self.sampling.error * math.sqrt(self.n)
        later = np.sqrt(spread**2 / total + 2 * SESSION_SPREAD**2)
        beyond = np.maximum(margin, NORMAL.inv_cdf(1 - error / 2) * later)
        within = np.maximum(margin - NORMAL.inv_cdf(1 - ALPHA) * later, 0)
        # Identical runs: the mean will stay what it is.
        unknown = np.maximum(spread * np.sqrt(1 / self.n - 1 / total), 1e-12)
        outside = special.ndtr((mean - beyond) / unknown) + special.ndtr((-beyond - mean) / unknown)
        inside = special.ndtr((within - mean) / unknown) - special.ndtr((-within - mean) / unknown)
        enough = np.flatnonzero(outside + inside >= POWER)
        return int(enough[0]) + 1 if len(enough) else None


def session_ratio(before: Floats, after: Floats, *, paired: bool) -> SessionRatio:
    """Of positive values; `paired` where those of one place belong to one seed."""
    old, new = np.log(before), np.log(after)
    n = min(len(old), len(new))
    if paired:
        return SessionRatio(paired_difference(new, old), n)
    return SessionRatio(difference(Moments.of(new), Moments.of(old)), n)
