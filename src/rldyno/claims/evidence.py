"""The runs that decide claims: done and certified, in cells that differ in nothing but the seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rldyno.answers import trust
from rldyno.answers.axes import TEAM_AXES
from rldyno.answers.comparison import group_frames
from rldyno.answers.groups import axis_words
from rldyno.answers.runs import by_contestant, growth_of
from rldyno.claims import boards, nets
from rldyno.claims.form import HYPER, Condition
from rldyno.claims.metrics import GROWTH, metric, of_series, row_columns
from rldyno.columns import Column
from rldyno.curves.curve import ExternalCurve
from rldyno.curves.store import known_curves
from rldyno.errors import Problem
from rldyno.nets.record import NetsRecord, read_record
from rldyno.proofs.certificate import VALID
from rldyno.records.directory import MANIFEST_FILE
from rldyno.records.files import Json
from rldyno.records.machine_facts import MachineFacts
from rldyno.records.status import DONE
from rldyno.results.integrals import trial_integrals
from rldyno.results.load import AXES, Results, load_results
from rldyno.stats.anytime import widened
from rldyno.stats.censored import out_of_episodes
from rldyno.stats.estimates import Sampler, point_of
from rldyno.stats.moments import Floats
from rldyno.usability.record import UsabilityFile
from rldyno_rig.hyper import network_kind
from rldyno_rig.schema import EPISODES

Conditions = dict[str, Condition]


@dataclass(frozen=True)
class Evidence:
    rows: tuple[Json, ...]
    """Usable trials: columns of the results table, `system`, `execution`, `network`, every `hyper.<name>`."""
    uncertified: frozenset[tuple[str, str]]
    """(contestant, algorithm) whose trials are left out because they have no valid certificate."""
    axes: tuple[str, ...]
    """What tells cells apart."""
    has_gpu: bool
    whole: Evidence | None = None
    """With the trials of comparisons that noise bars, each with its `objection`; None where none are."""
    curves: tuple[ExternalCurve, ...] = ()
    """By others: kept with the results, or shipped."""
    _codes: dict[str, tuple[list[Any], NDArray[np.intp]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def admitted(self, *selectors: Conditions) -> list[Json]:
        """The rows that meet all conditions. A column holds a handful of values: each is tested once."""
        kept = np.ones(len(self.rows), dtype=bool)
        for selector in selectors:
            for key, condition in selector.items():
                values, codes = self._coded(key)
                kept &= np.array([condition.admits(value) for value in values], dtype=bool)[codes]
        return [self.rows[index] for index in np.flatnonzero(kept)]

    def _coded(self, key: str) -> tuple[list[Any], NDArray[np.intp]]:
        """The values of a column, and of each row which of them it has."""
        if key not in self._codes:
            column = [row.get(key) for row in self.rows]
            numbers = {value: index for index, value in enumerate(dict.fromkeys(column))}
            codes = np.array([numbers[value] for value in column], dtype=np.intp)
            self._codes[key] = list(numbers), codes
        return self._codes[key]

    @cached_property
    def columns(self) -> dict[str, set[Any]]:
        found: dict[str, set[Any]] = {}
        for row in self.rows:
            for key, value in row.items():
                if isinstance(value, str | int | float | bool):
                    found.setdefault(key, set()).add(value)
        return found


def gather(
    several: Sequence[Results], timed: Sequence[NetsRecord] = (), usable: Sequence[UsabilityFile] = ()
) -> Evidence:
    """Runs of several results directories, records of networks timed alone (`timed`) and what TensorBoard
    costs (`usable`).

    Their machines are not mixed.
    """
    rows: list[Json] = []
    noisy: list[Json] = []
    uncertified: set[tuple[str, str]] = set()
    axes = dict.fromkeys(("framework", "mode", *PLACE, "suite", "game", *AXES))
    for results in several:
        place, adaptive = place_of(results.manifest.machine), results.manifest.adaptive is not None
        axes |= dict.fromkeys(results.axes)
        objections = barred_by_noise(results)
        for row in results.trials.iter_rows(named=True):
            if row["status"] != DONE:
                continue
            if row["certificate"] != VALID:
                uncertified.add((row["contestant"], row["algorithm"]))
                continue
            values = results.hypers[row["trial"]]
            kept = noisy if row["trial"] in objections else rows
            kept.append(
                {f"{HYPER}{name}": plain(value) for name, value in values.items()}
                | row
                | row_columns(row)
                | place
                | {
                    "network": network_kind(values.get("convolutions") or ()),
                    "results": results,
                    "adaptive": adaptive,
                    "objection": objections.get(row["trial"], ""),
                }
            )
    for record in timed:
        axes |= dict.fromkeys(nets.NETS_AXES)
        uncertified |= nets.unproven(record)
        rows += nets.rounds(record, place_of(record.machine))
    for file in usable:
        for row in boards.rounds(file, place_of(file.machine)):
            (noisy if row["objection"] else rows).append(row)
    machines = [
        *(results.manifest.machine for results in several),
        *(record.machine for record in timed),
        *(file.machine for file in usable),
    ]
    gpus = any(machine.gpus for machine in machines)
    known = frozenset(uncertified), tuple(axes), gpus
    whole = Evidence((*rows, *noisy), *known) if noisy else None
    curves = {curve.key: curve for results in several for curve in known_curves(results.directory)}
    return Evidence(tuple(rows), *known, whole, tuple(curves.values()))


def barred_by_noise(results: Results) -> dict[str, str]:
    """Trial → why its comparison decides nothing: by the rule that every answer follows."""
    found: dict[str, str] = {}
    for _, trials in group_frames(results):
        objection = trust.disturbed(results, list(by_contestant(trials).values()))
        if objection is not None and objection.bars:
            found |= dict.fromkeys(trials["trial"], objection.words)
    return found


def gather_in(directories: Iterable[Path]) -> Evidence:
    """All that lies in some directories: results, networks timed alone, what TensorBoard costs."""
    several, timed, usable = [], [], []
    for directory in directories:
        records, files = beside_trials(directory)
        timed += records
        usable += files
        if not (records or files) or (directory / MANIFEST_FILE).exists():
            several.append(load_results(directory))
    return gather(several, timed, usable)


def beside_trials(directory: Path) -> tuple[list[NetsRecord], list[UsabilityFile]]:
    """What a directory holds besides trials: networks timed alone, what TensorBoard costs."""
    record = read_record(directory)
    return [] if record is None else [record], boards.read(directory)


PLACE = ("system", "hardware", "machine")


def place_of(machine: MachineFacts) -> Json:
    """Where a run was made: operating system, hardware without a name, and which machine it was."""
    gpus = [gpu.name for gpu in machine.gpus]
    hardware = (machine.cpu, machine.cores_logical, machine.memory_total_bytes, gpus)
    known = machine.os or "unknown", str(hardware), machine.host_sha256 or "unknown"
    return dict(zip(PLACE, known, strict=True))


def plain(value: Any) -> Any:
    return str(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ in nothing but the seed, and one metric of them."""

    keys: Json
    values: Floats
    """One per run, or (value, reached) where runs may be censored."""
    draws: Floats = field(repr=False)
    """What `point` may be, as far as so few runs tell."""
    trials: tuple[str, ...]
    adaptive: bool = False
    """Its seeds were added after interim checks: `draws` are as much wider as that requires."""

    @property
    def contestant(self) -> str:
        return f"{self.keys['framework']}:{self.keys['mode']}"

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def point(self) -> float:
        return point_of(self.values)


def run_groups(
    evidence: Evidence, rows: Sequence[Json], metric_name: str, rng: np.random.Generator
) -> list[RunGroup]:
    """One cell per contestant and setting that has the metric at all."""
    measure = metric(metric_name)
    by_cell: dict[tuple[Any, ...], list[tuple[Json, float, bool]]] = {}
    for row in rows:
        found = figure(row, measure)
        if found is not None:
            key = tuple(row.get(axis) for axis in evidence.axes)
            by_cell.setdefault(key, []).append((row, *found))
    made = []
    for key, runs in by_cell.items():
        values = np.array([(value, reached) for _, value, reached in runs], dtype=np.float64)
        if not measure.censored_at:
            values = values[:, 0]
        elif measure.censored_at != EPISODES:
            values = out_of_episodes(values, np.array([row.get("reason") == EPISODES for row, _, _ in runs]))
        trials = tuple(str(row["trial"]) for row, _, _ in runs)
        keys = dict(zip(evidence.axes, key, strict=True)) | {"execution": runs[0][0]["execution"]}
        draws = Sampler(rng).draws(values)
        adaptive = any(row.get("adaptive") for row, _, _ in runs)
        if adaptive:
            draws = widened(draws, point_of(values), len(values))
        made.append(RunGroup(keys, values, draws, trials, adaptive))
    return made


def figure(row: Json, measure: Column) -> tuple[float, bool] | None:
    """The run's value and whether it was reached; where it was not, the end of the watch."""
    if of_series(measure):
        value = figure_of_series(row, measure) if "results" in row else None
        return None if value is None else (value, True)
    if measure.censored_at and row.get("threshold_reached") is False:
        end = row.get(measure.censored_at)
        return None if end is None else (float(end), False)
    value = row.get(measure.name)
    return None if value is None else (float(value), True)


def figure_of_series(row: Json, measure: Column) -> float | None:
    results: Results = row["results"]
    if measure is GROWTH:
        return growth_of(results, row["trial"], row.get("startup_s") or 0.0)
    try:
        return trial_integrals(results, row["trial"], row.get("wall_s"), row.get("steps"))[measure.name]
    except Problem:
        return None


WORDS: Mapping[str, Callable[[Any], str]] = {
    "algorithm": str,
    "environment": str,
    "system": str,
    "machine": lambda host: f"machine {str(host)[:8]}",
}


def setting_words(keys: Json, shown: Sequence[str]) -> str:
    """`ppo, CartPole-v1, 2 cores`, from the columns that vary."""
    return ", ".join(
        WORDS[name](keys[name]) if name in WORDS else axis_words(name, keys[name])
        for name in shown
        if keys.get(name) is not None and not (name in TEAM_AXES and keys.get("workers") == 1)
    )
