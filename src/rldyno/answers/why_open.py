"""What `rldyno open` left in a results directory: the last form of a framework, if its task is the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rldyno.answers.groups import THROUGHPUT, Group
from rldyno.answers.runs import Runs
from rldyno.division.record import OpenRecord, OpenRow, open_files, read_file
from rldyno.errors import Problem
from rldyno.results.load import Results

ENVIRONMENTS = "environments"
# As `rldyno open` runs; a comparison with other values has another task.
ALONE = {"cores": 1, "workers": 1, "max_episode_steps": None}


@dataclass(frozen=True)
class OpenForm:
    """One framework's loop: a run for each repeat, all of one process."""

    environments: int
    runs: Runs


def open_records(directory: Path) -> list[OpenRecord | str]:
    """Of the directory, and of directories in it whose names begin with `open`; of a damaged one, what is
    wrong.
    """
    return [_read(path) for path in open_files(directory)]


def _read(path: Path) -> OpenRecord | str:
    try:
        return read_file(path)
    except Problem as problem:
        return problem.message.replace(f"{path.parent}/", "")


def open_form(results: Results, framework: str, group: Group, contestant: str) -> OpenForm | str | None:
    """The framework's loop on the task of this contestant: with as many environments, else with the most.

    The reason where only loops on other terms are known; None where none is known.
    """
    reason: str | None = None
    runs = group.runs[contestant]
    for record in open_records(results.directory):
        if isinstance(record, str):
            reason = record
            continue
        rows = [row for row in record.rows if row.framework == framework and row.found is not None]
        if not rows or not _same_task(record, group):
            continue
        other = other_terms(record, results.manifest.host, results.hypers[runs.trials[0]])
        if other is None:
            here = results.hypers[runs.trials[0]].get(ENVIRONMENTS)
            same = [row for row in rows if row.environments == here]
            return _form((same or sorted(rows, key=lambda row: row.environments))[-1], runs)
        reason = other
    return reason


def _same_task(record: OpenRecord, group: Group) -> bool:
    asked = {name: getattr(record, name) for name in ("algorithm", "environment", "device", "dtype")} | ALONE
    return record.agents == 1 and all(group.axes.get(name) == value for name, value in asked.items())


def other_terms(record: OpenRecord, host: str | None, hyper: Mapping[str, Any]) -> str | None:
    """Why the two cannot be compared."""
    if record.host_sha256 != host:
        return "it was measured on another machine"
    for name in sorted((record.hyper.keys() & hyper.keys()) - {ENVIRONMENTS}):
        theirs, ours = (json.dumps(values[name], default=list) for values in (record.hyper, hyper))
        if theirs != ours:
            return f"it was measured with {name} {theirs}, not {ours}"
    return None


def _form(row: OpenRow, like: Runs) -> OpenForm:
    """Without phases: the time of the loop is `not split`."""
    assert row.found is not None
    rates = np.array(row.found.steps_per_s)
    values = np.full((len(rates), len(like.columns)), np.nan)
    known = {"steps": rates, "train_s": 1.0, "step_s": 1 / rates, THROUGHPUT.name: rates}
    for name, column in known.items():
        values[:, like.columns[name]] = column
    trials = tuple(f"{row.framework}, open division, repeat {number}" for number in range(1, len(rates) + 1))
    return OpenForm(row.environments, Runs(trials, like.columns, values))
