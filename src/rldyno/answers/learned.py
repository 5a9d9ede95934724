"""Whether anybody learned: the returns at the end of the runs against those at their start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from rldyno.answers.runs import Runs
from rldyno.records.csv_files import read_csvs
from rldyno.records.directory import ResultsDirectory
from rldyno.results.load import Results
from rldyno.stats.distributions import ALPHA
from rldyno.stats.moments import Floats, Moments, difference
from rldyno_rig import schema

# Episodes at either end of a run: at most this many, and no more than a quarter of them.
WINDOW = 100
# Fewer episodes of a contestant than this at either end tell nothing.
FEWEST_EPISODES = 10
# A rise that is smaller than this share of the spread of single episodes is not learning.
LEAST_RISE = 0.2


@dataclass(frozen=True)
class Unlearned:
    """Nobody's returns rose: their mean over the first and over the last episodes of all runs."""

    start: float
    end: float


TOO_FEW: Final = "too few episodes ended to tell"


def nobody_learned(
    results: Results, runs: Mapping[str, Runs]
) -> Unlearned | Literal["too few episodes ended to tell"] | None:
    """None where somebody learned."""
    ran = {name: done for name, done in runs.items() if len(done)}
    if not ran or any((done["threshold_reached"] > 0).any() for done in ran.values()):
        return None
    both = [both_ends(results, done) for done in ran.values()]
    known = [(first, last) for first, last in both if len(first) >= FEWEST_EPISODES]
    if any(rose(first, last, ALPHA / len(ran)) for first, last in known):
        return None
    if len(known) < len(both):
        return TOO_FEW
    starts, ends = (np.concatenate(end) for end in zip(*known, strict=True))
    return Unlearned(float(starts.mean()), float(ends.mean()))


def both_ends(results: Results, done: Runs) -> tuple[Floats, Floats]:
    """Returns of the first episodes of all runs of a contestant, and of the last ones.

    Of environments side by side, the first episodes to end are the shortest, and in many tasks the worst. So
    the first ones are whole rounds: the first episode of each environment, then the second. A run whose
    window holds no whole round tells nothing.
    """
    home = ResultsDirectory(results.directory)
    paths = [home.trial(trial) / schema.EPISODES_FILE for trial in done.trials]
    frame, lengths, _ = read_csvs(paths, schema.EPISODE_COLUMNS, ("env", "return"))
    returns, environments = frame["return"].to_numpy(), frame["env"].to_numpy()
    firsts, lasts = [np.zeros(0)], [np.zeros(0)]
    for end, length in zip(np.cumsum(lengths), lengths, strict=True):
        run = slice(end - length, end)
        window = min(WINDOW, length // 4)
        by_round = np.argsort(rounds(environments[run]), kind="stable")
        if window and window >= len(np.unique(environments[run])):
            firsts.append(returns[run][by_round[:window]])
            lasts.append(returns[run][-window:])
    return np.concatenate(firsts), np.concatenate(lasts)


def rounds(environments: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many episodes of the same environment ended before each one."""
    order = np.argsort(environments, kind="stable")
    _, starts, counts = np.unique(environments[order], return_index=True, return_counts=True)
    before = np.empty(len(environments), dtype=np.int64)
    before[order] = np.arange(len(environments)) - np.repeat(starts, counts)
    return before


def rose(first: Floats, last: Floats, alpha: float) -> bool:
    """Clearly, by Welch's test, and by more than a trifle."""
    before, after = Moments.of(first), Moments.of(last)
    rise = difference(after, before)
    return rise.p_above(0) <= alpha and rise.mean > LEAST_RISE * before.variance**0.5
