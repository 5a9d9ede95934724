"""Open loops beside the closed trials of a results directory. Never a ranking: the loops differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rldyno.answers.groups import THROUGHPUT, Group
from rldyno.division.record import OpenRecord, OpenRow
from rldyno.records import files as records
from rldyno.records.directory import ResultsDirectory
from rldyno.results.load import Results
from rldyno.text.numbers import number
from rldyno.text.tables import Table
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.open.problem import PARTS
from rldyno_rig.schema import TRIAL_FILE
from rldyno_rig.trial_file import TrialFile

COLUMNS = (
    "Framework",
    "Environments",
    "Open, steps/s",
    "Closed contestant",
    "Closed, steps/s",
    "Times closed",
    "Share of limit",
    "Environment, µs",
    "Acting, µs",
    "Learning, µs",
)


@dataclass(frozen=True)
class Beside:
    row: OpenRow
    contestant: str | None
    """The framework's fastest in the closed division on the same task; None where none has run."""
    steps_per_s: float | None

    @property
    def times(self) -> float | None:
        if self.row.found is None or not self.steps_per_s:
            return None
        return self.row.found.best / self.steps_per_s


def beside(results: Results, groups: Sequence[Group], record: OpenRecord) -> list[Beside]:
    """Every open row with closed trials of the directory; else with those that `--closed` has measured."""
    same_machine = record.host_sha256 == results.manifest.machine.host_sha256
    found = []
    for row in record.rows:
        best = fastest(results, groups, record, row) if same_machine else None
        found.append(Beside(row, *(best or (row.closed, row.closed_steps_per_s))))
    return found


def fastest(
    results: Results, groups: Sequence[Group], record: OpenRecord, row: OpenRow
) -> tuple[str, float] | None:
    """On one core, with the same task, device, precision and hyper-parameters."""
    wanted = complete(record.algorithm, {**record.hyper, "environments": row.environments})
    place = (record.algorithm, record.environment, record.device, record.dtype, "closed", 1, 1)
    rates = []
    for group in groups:
        for one in group.rows:
            figure = one.figures.get(THROUGHPUT.name)
            if one.framework != row.framework or not one.certified or figure is None:
                continue
            trial = trial_of(results, group.runs[one.contestant].trials[0])
            task = (trial.algorithm, trial.environment, trial.device, trial.dtype, trial.division)
            if (*task, trial.cores, trial.workers) == place and complete(
                trial.algorithm, trial.hyper
            ) == wanted:
                rates.append((one.contestant, figure.estimate.point))
    return max(rates, key=lambda pair: pair[1], default=None)


def trial_of(results: Results, trial: str) -> TrialFile:
    path = ResultsDirectory(results.directory).trial(trial) / TRIAL_FILE
    return TrialFile.from_json(records.read_json(path))


def complete(algorithm: str, hyper: Mapping[str, Any]) -> object:
    """Whatever the version that recorded them; lists and tuples alike."""
    known = ALGORITHMS.get(algorithm)
    return json.loads(json.dumps(dict(hyper) if known is None else known.completed(hyper)))


def sentences(found: Sequence[Beside]) -> list[str]:
    return [
        f"`{one.row.framework}` with {one.row.environments:,} environments: the closed loop of "
        f"`{one.contestant}` leaves {number(one.times, 3)}× on the table."
        for one in found
        if one.times is not None
    ]


def beside_table(record: OpenRecord, found: Sequence[Beside]) -> Table:
    title = f"Whole loops: {record.algorithm} on {record.environment}, {record.device}, {record.dtype}"
    return Table("open-division", title, COLUMNS, tuple(map(cells, found)))


def cells(one: Beside) -> tuple[str, ...]:
    measured, share = one.row.found, one.row.share_of_limit
    parts = (measured.parts_us if measured else None) or {}
    return (
        one.row.framework,
        f"{one.row.environments:,}",
        f"{measured.best:,.0f}" if measured else f"– ({one.row.reason})",
        one.contestant or "–",
        "–" if one.steps_per_s is None else f"{one.steps_per_s:,.0f}",
        "–" if one.times is None else f"{number(one.times, 3)}×",
        "–" if share is None else f"{share:.1%}",
        *(number(parts[name], 3) if name in parts else "–" for name in PARTS),
    )
