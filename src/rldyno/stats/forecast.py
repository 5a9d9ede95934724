"""Whether more seeds would decide an open pair, at the errors of its own verdict and with a stated chance.

Mean and spread of a few gaps are known roughly. So possible continuations are drawn: mean and spread as the
gaps so far leave them open, then gaps from these. The share of continuations that the evidence decides by n
gaps is the chance that n seeds decide it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from rldyno.stats.anytime import MOST_SEEDS, Gaps, t_reaches, trimmed_size
from rldyno.stats.moments import Floats
from rldyno.stats.power import POWER

CONTINUATIONS = 500
# The same runs give the same forecast.
SEED = 20_260_103


def decided_by(
    gaps: Gaps, margin: float, *, error: float, equal_error: float, censorable: bool
) -> Floats | None:
    """Chance that n gaps decide, for n up to 300, its index; None where the gaps so far tell nothing.

    `error` is that of a difference, `equal_error` that of an equality.
    """
    if gaps.exact and len(gaps) > 1:
        # Of times half of the error is spent on signs, as in the verdict.
        share = 0.5 if censorable else 1.0
        decided = continued_values(gaps.low, margin, share * error, share * equal_error)
    elif censorable and len(gaps) > 1:
        decided = continued_signs(gaps, error / 2)
    else:
        return None
    chances = np.zeros(MOST_SEEDS + 1)
    chances[len(gaps) + 1 :] = np.maximum.accumulate(decided, axis=1).mean(axis=0)
    return chances


def seeds_to_decide(chances: Floats | None, have: int) -> int | None:
    """Seeds beyond those there are that decide with 80 % chance; None beyond 300."""
    if chances is None or not (chances >= POWER).any():
        return None
    return int(np.argmax(chances >= POWER)) - have


def continued_values(gaps: Floats, margin: float, error: float, equal_error: float) -> Floats:
    """[continuation, gap]: whether so many gaps decide by Student's t."""
    rng = np.random.default_rng(SEED)
    have = len(gaps)
    shape = (CONTINUATIONS, 1)
    # μ | σ ~ N(0, σ²), as in the evidence: among small and large gaps, the large ones owe part of it to luck.
    squares = ((gaps - gaps.mean()) ** 2).sum() + have / (have + 1) * gaps.mean() ** 2
    spread = np.sqrt(squares / rng.chisquare(have, shape))
    centre = gaps.sum() / (have + 1) + spread * rng.normal(size=shape) / math.sqrt(have + 1)
    new = centre + spread * rng.normal(size=(CONTINUATIONS, MOST_SEEDS - have))
    n = np.arange(have + 1, MOST_SEEDS + 1)
    mean = (gaps.sum() + new.cumsum(axis=1)) / n
    # Deviations from the mean so far, for the difference of squares to keep its digits.
    offset = float(gaps.mean())
    squares = ((gaps - offset) ** 2).sum() + ((new - offset) ** 2).cumsum(axis=1)
    error_of_mean = np.sqrt(np.maximum(squares - n * (mean - offset) ** 2, 0) / (n - 1) / n)
    distance = np.abs(mean)
    # The trimmed mean, which must agree, has fewer gaps to go by.
    kept = np.array([trimmed_size(size) for size in n.tolist()])
    different = t_reaches(error)[kept] * error_of_mean <= distance
    equal = distance + t_reaches(equal_error)[kept] * error_of_mean <= margin
    return np.asarray(different | equal)


def continued_signs(gaps: Gaps, error: float) -> Floats:
    """[continuation, gap]: whether so many signs decide. Shares of wins and ties have Jeffreys' prior."""
    rng = np.random.default_rng(SEED)
    above, below = int((gaps.low > 0).sum()), int((gaps.high < 0).sum())
    shares = rng.dirichlet([above + 0.5, below + 0.5, len(gaps) - above - below + 0.5], CONTINUATIONS)
    drawn = rng.random((CONTINUATIONS, MOST_SEEDS - len(gaps)))
    wins = above + (drawn < shares[:, :1]).cumsum(axis=1)
    losses = below + ((drawn >= shares[:, :1]) & (drawn < shares[:, :2].sum(axis=1)[:, None])).cumsum(axis=1)
    log_evidence = (
        (wins + losses) * math.log(2) + special.betaln(wins + 0.5, losses + 0.5) - special.betaln(0.5, 0.5)
    )
    return np.asarray(log_evidence >= -math.log(error))
