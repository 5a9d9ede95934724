"""Where contestants of one seed part ways: they take the same actions until rounding flips one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rldyno.records import files as records
from rldyno.results.load import Results
from rldyno_rig import schema


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
    done = trials.filter(pl.col("status") == "done")
    for contestant, seed, trial in done.select("contestant", "seed", "trial").iter_rows():
        rows.setdefault(contestant, []).append((seed, trial))
    return rows


def first_divergence(mine: NDArray[np.int64], theirs: NDArray[np.int64]) -> int | None:
    shared = min(len(mine), len(theirs))
    differs = np.flatnonzero(mine[:shared] != theirs[:shared])
    return int(differs[0]) + 1 if len(differs) else None


def read_actions(results: Results, trial: str) -> NDArray[np.int64]:
    """The first actions of a trial; none where the file is missing or damaged."""
    path: Path = records.Results(results.directory).trial(trial) / schema.ACTIONS_FILE
    try:
        lines = records.complete_lines(path.read_bytes()).split()
        return np.array([int(line) for line in lines], dtype=np.int64)
    except (OSError, ValueError):
        return np.zeros(0, dtype=np.int64)
