"""Learning parity: contestants of one task must learn alike, or their speeds compare different things."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rldyno.answers.runs import Runs
from rldyno.records.csv_files import complete_lines, read_csvs
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import read_bytes
from rldyno.records.status import DONE
from rldyno.results.load import Results
from rldyno.stats.censored import equally_long, survival_median
from rldyno.stats.equivalence import (
    DIFFERENT,
    EQUAL,
    UNDECIDED,
    Equivalence,
    ShareEquivalence,
    share_equivalence,
    tost,
)
from rldyno.stats.moments import Floats, Moments, difference, paired_difference
from rldyno.stats.significance import holm
from rldyno.text.numbers import factor, number
from rldyno_rig import schema

REFERENCE = "reference"
# Equal means: within this factor of the reference's steps to the threshold. Seeds of one and the same program
# already spread by a factor of 1.3 and more, so that a tighter margin would need dozens of seeds.
STEPS_MARGIN = 1.5
# Equal also means: shares of runs that reach the threshold within 30 percentage points. Nine seeds without a
# failure are the fewest that show it; 20 points would need fourteen.
SHARE_MARGIN = 0.3
# And areas under the return curve within a tenth of the range the returns span.
AREA_MARGIN = 0.1
FEWEST_SEEDS = 3


@dataclass(frozen=True)
class LearningParity:
    """How a contestant learns compared with the reference contestant of its group."""

    state: str
    """reference, equal, different or undecided."""
    reference: str
    detail: str
    """The effect with its 90 % interval, in words."""
    steps: Equivalence | None = None
    """On log(steps to the threshold / the reference's), of the runs that reached it."""
    share: ShareEquivalence | None = None
    """On the share of runs that reached the threshold, less the reference's."""
    area: Equivalence | None = None
    """On the mean return over the first steps, as a share of the range of returns, less the reference's."""
    more_seeds: int | None = None
    """Seeds that would probably show it equal, beyond those it has; None where more would not help."""


def group_parity(
    results: Results, runs: Mapping[str, Runs], certified: Collection[str]
) -> dict[str, LearningParity]:
    """Each contestant that ran against the reference: numpy:eager, else the certified one in the middle.

    Empty when nothing certified has run. "Different" is corrected (Holm) for the contestants and measures of
    the group, so that in 95 % of the groups no contestant is called different that is not.
    """
    ran = {name: done for name, done in runs.items() if len(done)}
    areas = return_areas(results, ran)
    reference = choose_reference({name: ran[name] for name in ran if name in certified})
    if reference is None:
        return {}
    found = {
        name: learning_tests(done, ran[reference], areas.get(name, {}), areas.get(reference, {}))
        for name, done in ran.items()
        if name != reference
    }
    family = [(name, measure) for name, pair in found.items() for measure in pair]
    corrected = dict(
        zip(family, holm([found[name][measure].p_different for name, measure in family]), strict=True)
    )
    parities = {reference: LearningParity(REFERENCE, reference, "the others are compared with it")}
    for name, pair in found.items():
        states = {measure: test.state(corrected[name, measure]) for measure, test in pair.items()}
        parities[name] = concluded(reference, pair, states)
    return parities


def choose_reference(ran: Mapping[str, Runs]) -> str | None:
    if "numpy:eager" in ran or not ran:
        return "numpy:eager" if ran else None
    order = sorted(ran, key=lambda name: (middle_steps(ran[name]), name))
    return order[(len(order) - 1) // 2]


def middle_steps(done: Runs) -> float:
    runs = done.steps_to_threshold()
    return float(survival_median(runs)) if len(runs) else math.inf


def learning_tests(
    done: Runs, reference: Runs, areas: Mapping[int, float], base: Mapping[int, float]
) -> dict[str, Equivalence]:
    """The tests that the runs allow: `share` and `steps` with a threshold, `area` where episodes ended."""
    tests = threshold_tests(done, reference)
    seeds = sorted(areas.keys() & base.keys())
    if len(seeds) >= FEWEST_SEEDS:
        pairs = np.array([(areas[seed], base[seed]) for seed in seeds])
        tests["area"] = tost(paired_difference(pairs[:, 0], pairs[:, 1]), AREA_MARGIN, len(seeds))
    return tests


def threshold_tests(done: Runs, reference: Runs) -> dict[str, Equivalence]:
    """The share of runs that reached it, and the steps of those: a run that never learns has no such number.

    Seed by seed if every run reached it, since runs of one seed begin alike.
    """
    mine, theirs = equally_long(done.steps_to_threshold(), reference.steps_to_threshold())
    if min(len(mine), len(theirs)) < FEWEST_SEEDS:
        return {}
    steps, base = mine[mine[:, 1] > 0, 0], theirs[theirs[:, 1] > 0, 0]
    share = share_equivalence(len(steps), len(mine), len(base), len(theirs), SHARE_MARGIN)
    margin, n = math.log(STEPS_MARGIN), min(len(steps), len(base))
    both = np.log(seed_pairs(done, reference, "threshold_steps"))
    if n < FEWEST_SEEDS:
        found = Equivalence(math.nan, -math.inf, math.inf, margin, 1.0, n)
    elif len(both) == len(mine) == len(theirs):
        found = tost(paired_difference(both[:, 0], both[:, 1]), margin, n)
    else:
        found = tost(difference(Moments.of(np.log(steps)), Moments.of(np.log(base))), margin, n)
    return {"share": share, "steps": found}


def seed_pairs(done: Runs, reference: Runs, column: str) -> Floats:
    """Rows of (its value, the reference's), one per seed for which both have one."""
    theirs = dict(zip(reference["seed"].tolist(), reference[column].tolist(), strict=True))
    pairs = [
        (value, theirs.get(seed, math.nan))
        for seed, value in zip(done["seed"].tolist(), done[column].tolist(), strict=True)
    ]
    found = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return np.asarray(found[~np.isnan(found).any(axis=1)])


def concluded(reference: str, tests: Mapping[str, Equivalence], states: Mapping[str, str]) -> LearningParity:
    known = [name for name, test in tests.items() if not math.isnan(test.difference)]
    decisive = [name for name in known if states[name] == DIFFERENT] or known
    effect = "; ".join(measure_words(name, tests[name]) for name in decisive)
    state = overall(list(states.values()))
    if not tests:
        effect = f"fewer than {FEWEST_SEEDS} seeds to compare"
    return LearningParity(
        state=state,
        reference=reference,
        detail=effect,
        steps=tests.get("steps"),
        share=next((test for test in tests.values() if isinstance(test, ShareEquivalence)), None),
        area=tests.get("area"),
        more_seeds=seeds_missing(tests, states) if state == UNDECIDED else None,
    )


def overall(states: list[str]) -> str:
    if DIFFERENT in states:
        return DIFFERENT
    return EQUAL if states and set(states) == {EQUAL} else UNDECIDED


def seeds_missing(tests: Mapping[str, Equivalence], states: Mapping[str, str]) -> int | None:
    """None when the effect seen so far is not within the margin: then seeds alone will not show it equal."""
    wanted = [test.more_runs for name, test in tests.items() if states[name] == UNDECIDED]
    known = [more for more in wanted if more is not None]
    return max(known) if known and len(known) == len(wanted) else None


def measure_words(measure: str, test: Equivalence) -> str:
    if isinstance(test, ShareEquivalence):
        return (
            f"{test.hits} of {test.runs} runs reached the threshold, "
            f"{test.base_hits} of {test.base_runs} of the reference"
        )
    return steps_words(test) if measure == "steps" else area_words(test)


def steps_words(test: Equivalence) -> str:
    low, high = number(math.exp(test.low), 2), number(math.exp(test.high), 2)
    return f"{factor(math.exp(test.difference))} the steps to the threshold [{low}, {high}]"


def area_words(test: Equivalence) -> str:
    shift, low, high = (f"{100 * value:+.0f}" for value in (test.difference, test.low, test.high))
    return f"area under the return curve {shift} points of 100 [{low}, {high}]"


# --- area under the return curve ----------------------------------------------------------------------------


def return_areas(results: Results, ran: Mapping[str, Runs]) -> dict[str, dict[int, float]]:
    """contestant → seed → mean return over the first steps: those that every run of the group has taken.

    Scaled so that the 5th and 95th percentiles of all the group's returns are 0 and 1.
    """
    steps_taken = np.concatenate([runs["steps"] for runs in ran.values()]) if ran else np.zeros(0)
    if not len(steps_taken) or np.isnan(steps_taken).any():
        return {}
    horizon = int(steps_taken.min())
    every = [
        (contestant, int(seed), trial)
        for contestant, runs in ran.items()
        for seed, trial in zip(runs["seed"].tolist(), runs.trials, strict=True)
    ]
    home = ResultsDirectory(results.directory)
    paths = [home.trial(trial) / schema.EPISODES_FILE for _, _, trial in every]
    frame, lengths, _ = read_csvs(paths, schema.EPISODE_COLUMNS, ("step", "return"))
    steps, returns = frame["step"].to_numpy(), frame["return"].to_numpy()
    if not len(returns):
        return {}
    low, high = np.quantile(returns, [0.05, 0.95])
    if not high > low:
        return {}
    areas: dict[str, dict[int, float]] = {}
    ends = np.cumsum(lengths)
    for (contestant, seed, _), end, length in zip(every, ends, lengths, strict=True):
        if length:
            mean = mean_return(steps[end - length : end], returns[end - length : end], horizon)
            areas.setdefault(contestant, {})[seed] = (mean - low) / (high - low)
    return areas


def mean_return(steps: Floats, returns: Floats, horizon: int) -> float:
    """Mean over steps 1 … horizon of the return of the episode that ends next."""
    until = np.minimum(steps, horizon)
    weights = np.diff(until, prepend=0)
    return float((weights * returns).sum() / weights.sum())


@dataclass(frozen=True)
class Divergence:
    """First step (from 1) whose action differs, by seed; None where the actions kept agree to the end."""

    contestant: str
    reference: str
    steps: Mapping[int, int | None]
    traced: int
    """Actions compared, in the shortest of the runs."""

    @property
    def words(self) -> str:
        parted = [step for step in self.steps.values() if step is not None]
        seeds = "its only seed" if len(self.steps) == 1 else f"all {len(self.steps)} seeds"
        if not parted:
            return f"the same {self.traced:,} actions as `{self.reference}` in {seeds}"
        if len(parted) == 1:
            where = seeds if len(self.steps) == 1 else f"1 of {len(self.steps)} seeds"
            return f"parts from `{self.reference}` in {where}, at step {parted[0]:,}"
        middle = int(np.median(parted))
        return (
            f"parts from `{self.reference}` in {len(parted)} of {len(self.steps)} seeds, "
            f"first at step {min(parted):,}, in the middle at {middle:,}"
        )


def divergences(results: Results, trials: pl.DataFrame, reference: str) -> tuple[Divergence, ...]:
    """Every other contestant of a group's trials against the reference, on the seeds both have traced."""
    traces = {
        name: {seed: actions for seed, trial in rows if len(actions := read_actions(results, trial))}
        for name, rows in seeds_of(trials).items()
    }
    found = []
    for name, mine in traces.items():
        theirs = traces.get(reference, {})
        seeds = sorted(mine.keys() & theirs.keys())
        if name == reference or not seeds:
            continue
        found.append(
            Divergence(
                contestant=name,
                reference=reference,
                steps={seed: first_divergence(mine[seed], theirs[seed]) for seed in seeds},
                traced=min(min(len(mine[seed]), len(theirs[seed])) for seed in seeds),
            )
        )
    return tuple(found)


def seeds_of(trials: pl.DataFrame) -> dict[str, list[tuple[int, str]]]:
    rows: dict[str, list[tuple[int, str]]] = {}
    done = trials.filter(pl.col("status") == DONE)
    for contestant, seed, trial in done.select("contestant", "seed", "trial").iter_rows():
        rows.setdefault(contestant, []).append((seed, trial))
    return rows


def first_divergence(mine: NDArray[np.int64], theirs: NDArray[np.int64]) -> int | None:
    shared = min(len(mine), len(theirs))
    differs = np.flatnonzero(mine[:shared] != theirs[:shared])
    return int(differs[0]) + 1 if len(differs) else None


def read_actions(results: Results, trial: str) -> NDArray[np.int64]:
    """The first actions of a trial; none where the file is missing or damaged."""
    path: Path = ResultsDirectory(results.directory).trial(trial) / schema.ACTIONS_FILE
    try:
        lines = complete_lines(read_bytes(path)).split()
        return np.array([int(line) for line in lines], dtype=np.int64)
    except (OSError, ValueError):
        return np.zeros(0, dtype=np.int64)
