"""Runs as NumPy columns: a thousand small groups of them take a tenth of the time of as many data frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rldyno.errors import Problem
from rldyno.records.status import DONE
from rldyno.results.load import Results
from rldyno.stats.censored import out_of_episodes, stack
from rldyno.stats.moments import Floats
from rldyno_rig.schema import EPISODES

Mask = NDArray[np.bool_]
# A column of `Runs` alone: whether the run used up a budget of episodes.
USED_UP = "used_up_episodes"


@dataclass(frozen=True)
class Runs:
    """The numeric columns of some trials, NaN where nothing was measured; yes and no are 1 and 0."""

    trials: tuple[str, ...]
    columns: dict[str, int]
    values: Floats
    """[trial, column]."""

    @classmethod
    def of(cls, trials: pl.DataFrame) -> Runs:
        trials = trials.with_columns((pl.col("reason") == EPISODES).fill_null(False).alias(USED_UP))
        names = [name for name, kind in trials.schema.items() if kind.is_numeric() or kind == pl.Boolean]
        values = trials.select(pl.col(names).cast(pl.Float64)).to_numpy()
        return cls(tuple(trials["trial"]), {name: index for index, name in enumerate(names)}, values)

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, column: str) -> Floats:
        return np.asarray(self.values[:, self.columns[column]])

    def only(self, kept: Mask) -> Runs:
        return Runs(
            tuple(self.trials[index] for index in np.flatnonzero(kept)), self.columns, self.values[kept]
        )

    def with_column(self, name: str, values: Floats) -> Runs:
        """With one more column, one value per trial."""
        columns = {**self.columns, name: self.values.shape[1]}
        return Runs(self.trials, columns, np.column_stack([self.values, values]))

    def known(self, column: str) -> Floats:
        values = self[column]
        return np.asarray(values[~np.isnan(values)])

    def middle(self, column: str) -> float | None:
        """The median of what was measured."""
        values = self.known(column)
        return float(np.median(values)) if len(values) else None

    def times_to_threshold(self) -> Floats:
        """Rows of (seconds from spawn to the threshold, 1), or (to the end of the watch, 0): not reached."""
        return known_rows(self.seconds_watched())

    def steps_to_threshold(self) -> Floats:
        """Rows of (steps to the threshold, 1), or (steps of the whole run, 0) where it was not reached."""
        return known_rows(self._watched("threshold_steps", self["steps"]))

    def episodes_to_threshold(self) -> Floats:
        ends = first_known(self["threshold_episodes"], self["episodes"])
        return known_rows(stack(ends, self["threshold_reached"]))

    def training_to_threshold(self) -> Floats:
        """As `times_to_threshold`, without start-up."""
        return known_rows(self._watched("threshold_train_s", self["train_s"]))

    def seconds_watched(self) -> Floats:
        """As `times_to_threshold`, a row for every trial: NaN where something is unknown."""
        return self._watched("threshold_s", first_known(self["watched_s"], self["wall_s"]))

    def _watched(self, threshold: str, ends: Floats) -> Floats:
        rows = stack(first_known(self[threshold], ends), self["threshold_reached"])
        return out_of_episodes(rows, self[USED_UP] > 0) if USED_UP in self.columns else rows


def known_rows(rows: Floats) -> Floats:
    return np.asarray(rows[~np.isnan(rows).any(axis=1)])


def first_known(values: Floats, otherwise: Floats) -> Floats:
    return np.where(np.isnan(values), otherwise, values)


def by_contestant(trials: pl.DataFrame) -> dict[str, Runs]:
    """The finished runs of every contestant of a group, in the order of the plan; some may have none."""
    every = Runs.of(trials)
    names = trials["contestant"].to_numpy()
    done = (trials["status"] == DONE).to_numpy()
    return {name: every.only(done & (names == name)) for name in dict.fromkeys(names.tolist())}


def growth_of(results: Results, trial: str, train_start_s: float) -> float | None:
    """None where the samples do not hold it."""
    try:
        return memory_growth(results.samples(trial), train_start_s)
    except Problem:
        return None


def memory_growth(samples: pl.DataFrame, train_start_s: float) -> float | None:
    """Mean resident set over the last quarter of training, over that of its second quarter.

    The first quarter is left out: replay memory and allocators fill up there.
    """
    rss = samples.filter(pl.col("time_ns") >= train_start_s * 1e9)["rss_bytes"].drop_nulls().to_numpy()
    if len(rss) < 8:
        return None
    quarter = len(rss) // 4
    return float(rss[-quarter:].mean() / rss[quarter : 2 * quarter].mean())
