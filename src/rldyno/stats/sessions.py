"""The same runs in two sessions: how their ratio is bounded, and how many more seeds would decide it.

Two sessions of one study differ by more than their seeds tell: clock rates, temperature, page cache and the
state of the kernel move all runs of a session together. One session does not show that spread: it is assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from rldyno.stats.distributions import ALPHA
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

        The mean of N pairs, of which n are known, is predicted as for adaptive seeds: changes are taken to be
        of the size of the spread s or smaller, so the true one is n/(n+1) of the mean so far, ± s/√(n+1).
        A change must lie beyond the margin and beyond chance at `error`; no change, well within the margin.
        """
        total = np.arange(self.n + 1, MOST_SEEDS + 1)
        mean, spread = abs(self.sampling.mean), self.sampling.error * math.sqrt(self.n)
        sampled, shift = spread**2 / total, 2 * SESSION_SPREAD**2
        # Identical runs: the mean will stay what it is.
        share = np.maximum(sampled, 1e-24) / (sampled + shift)
        degrees = self.sampling.degrees * (total - 1) / (self.n - 1) / share**2
        later = np.sqrt(sampled + shift)
        beyond = np.maximum(margin, special.stdtrit(degrees, 1 - error / 2) * later)
        within = np.maximum(margin - special.stdtrit(degrees, 1 - ALPHA) * later, 0)
        new = total - self.n
        centre = mean * self.n / total * (1 + new / (self.n + 1))
        unknown = np.maximum(new / total * spread * np.sqrt(1 / (self.n + 1) + 1 / new), 1e-12)

        def below(bound: Floats) -> Floats:
            return np.asarray(special.stdtr(self.sampling.degrees, (bound - centre) / unknown))

        chance = 1 - below(beyond) + below(-beyond) + below(within) - below(-within)
        enough = np.flatnonzero(chance >= POWER)
        return int(enough[0]) + 1 if len(enough) else None


def session_ratio(before: Floats, after: Floats, *, paired: bool) -> SessionRatio:
    """Of positive values; `paired` where those of one place belong to one seed."""
    old, new = np.log(before), np.log(after)
    n = min(len(old), len(new))
    if paired:
        return SessionRatio(paired_difference(new, old), n)
    return SessionRatio(difference(Moments.of(new), Moments.of(old)), n)
