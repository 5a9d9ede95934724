"""What the benchmarks share: running one trial outside a study, and printing and keeping a table."""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from rldyno.machine.cpus import available_cpus, place
from rldyno.processes import caches
from rldyno.records import files as records
from rldyno.session.preparation import trial_file, write_trial
from rldyno.study.plan import Cell, Trial
from rldyno.toolchains.resolve import ensure
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.envs.atari_rules import AtariRules, rules_for
from rldyno_rig.schema import OUTCOME_FILE
from rldyno_rig.team.share import WEAK
from rldyno_rig.team.team import NONE
from rldyno_rig.trial_file import Budget


class Team(NamedTuple):
    """The workers of a trial."""

    workers: int
    collective: str
    scaling: str = WEAK

    @property
    def collectives(self) -> list[str]:
        """Those that a toolchain may need a part for."""
        return [] if self.collective == NONE else [self.collective]


ALONE = Team(1, NONE)
NAMES = ("algorithm", "contestant", "collective", "best_of_its_framework", "interval")
"""Columns of words."""
HOME = Path(__file__).resolve().parent.parent
Json = dict[str, Any]


def extent(description: str | None, rounds: int) -> tuple[int, float]:
    """(rounds, share of the steps): all of them, or with `--short` just enough to see that it works."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--short", action="store_true", help="one round, a tenth of the steps")
    return (1, 0.1) if options.parse_args().short else (rounds, 1.0)


@contextmanager
def warm_results(contestants: Iterable[str]) -> Iterator[Path]:
    """A results directory: trials of a contestant share what it compiled, which is removed at the end."""
    with tempfile.TemporaryDirectory() as name:
        results = Path(name)
        try:
            yield results
        finally:
            caches.remove(caches.warm_place(results, contestant) for contestant in contestants)


def run_trial(
    contestant: str,
    algorithm: str,
    environment: str,
    steps: int,
    seed: int = 0,
    *,
    team: Team = ALONE,
    warm: Path | None = None,
    **changes: Any,
) -> tuple[Json, float]:
    """(outcome.json, wall seconds of the whole process that a launcher starts) of one trial.

    Each worker has one core. Caches are cold, or those of the results directory `warm`. The other arguments
    are hyper-parameters.
    """
    values = values_of(algorithm, environment, changes)
    cell = Cell(
        contestant,
        algorithm,
        environment,
        max_episode_steps=None,
        atari=rules_for(environment, AtariRules()),
        device="cpu",
        cores=1,
        workers=team.workers,
        collective=team.collective,
        scaling=team.scaling,
        share_gpu=False,
        dtype="float32",
        division="closed",
        caches=caches.COLD if warm is None else caches.WARM,
        hyper=values,
        budget=Budget(steps),
    )
    probe_cpu, cpus = place(available_cpus(), 1, 1, workers=team.workers)
    command = [sys.executable, "-m", "rldyno.trial.entry"]
    with tempfile.TemporaryDirectory() as name:
        # Warm caches belong to the directory two levels above the trial's.
        directory = Path(name if warm is None else tempfile.mkdtemp(dir=_trials(warm)))
        interpreter = ensure([cell.framework], needs={cell.framework: {*team.collectives, *cell.needs}})[
            cell.framework
        ]
        write_trial(directory, trial_file(Trial(cell, seed, 0), interpreter))
        where = [] if cpus is None else ["--cpus", ",".join(map(str, cpus[: team.workers]))]
        watched = [] if probe_cpu is None else ["--probe-cpu", str(probe_cpu)]
        started = time.monotonic()
        done = subprocess.run([*command, str(directory), *where, *watched], capture_output=True, text=True)
        wall_s = time.monotonic() - started
        if done.returncode:
            sys.exit(f"{contestant} {algorithm} failed:\n{done.stdout}{done.stderr}")
        return records.read_json(directory / OUTCOME_FILE), wall_s


def _trials(results: Path) -> Path:
    trials = results / "trials"
    trials.mkdir(exist_ok=True)
    return trials


def values_of(algorithm: str, environment: str, changes: Mapping[str, Any]) -> Any:
    """The shipped hyper-parameters with these changes."""
    return dataclasses.replace(ALGORITHMS[algorithm].defaults(environment), **changes)


def report(name: str, title: str, rows: Sequence[Mapping[str, Any]], notes: Sequence[str] = ()) -> None:
    """Print the rows as a table and keep the same figures in .bench/<name>.json."""
    console = Console(width=180, highlight=False)
    table = Table(title=title)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    for column in columns:
        table.add_column(
            column.replace("_", " "),
            justify="left" if column in NAMES else "right",
            no_wrap=column in NAMES,
        )
    for row in rows:
        table.add_row(*(shown(row.get(column, "–")) for column in columns))
    console.print(table)
    for note in notes:
        console.print(note)
    path = HOME / ".bench" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"title": title, "rows": list(rows), "notes": list(notes)}, indent=1) + "\n")
    console.print(f"figures: {path.relative_to(HOME)}")


def shown(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def median(values: Sequence[float]) -> float:
    return statistics.median(values)
