"""What a study's teams need of toolchains: built with them, and absent without stopping the rest."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from rldyno.errors import Problem
from rldyno.processes.rig import Runtime
from rldyno.records.directory import ResultsDirectory
from rldyno.records.trial_records import read_outcome
from rldyno.session import preparation
from rldyno.session.preparation import find_interpreters, prepare, trial_file
from rldyno.study.file import load_study
from rldyno.study.plan import Plan, make_plan
from rldyno.toolchains.parts import InstalledPart
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.team.team import HOROVOD, HOST, NATIVE, NONE

STUDY = """
contestants = "torch:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 1
[budget]
steps = 300
"""
COLLECTIVES = (NONE, NATIVE, HOST, HOROVOD)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The collectives with which interpreters were asked for. Horovod cannot be built."""
    asked = []

    def ensure(
        frameworks: Sequence[str],
        overrides: object,
        pip_args: object,
        on_progress: object,
        collectives: Mapping[str, Sequence[str]],
    ) -> dict[str, Interpreter]:
        (framework,) = frameworks
        used = tuple(collectives[framework])
        asked.append(used)
        if HOROVOD in used:
            raise Problem("no compiler")
        parts = {"mpi": InstalledPart("mpi", {}, {"SITE": "there"})} if HOST in used else {}
        return {framework: Interpreter(framework, Path(sys.executable), "given", "3.11", {}, None, parts)}

    monkeypatch.setattr(preparation, "ensure", ensure)
    return asked


def console() -> Console:
    return Console(file=io.StringIO())


def test_a_part_that_cannot_be_built_is_absent_for_its_teams_only(asked: list[tuple[str, ...]]) -> None:
    found, absent = find_interpreters(["torch"], None, None, console(), {"torch": COLLECTIVES})
    assert asked == [(), (HOROVOD,), (HOST,)]
    assert set(found["torch"].parts) == {"mpi"}
    assert {name: problem.message for name, problem in absent.items()} == {
        "torch with horovod": "no compiler"
    }


@pytest.mark.parametrize(
    ("framework", "workers", "collective", "by_mpi"),
    [
        ("chainer", 2, NATIVE, True),
        ("chainer", 2, HOST, True),
        ("chainer", 1, NONE, False),
        ("torch", 2, NATIVE, False),
        ("torch", 2, HOST, True),
    ],
)
def test_a_trial_has_mpiexec_where_its_workers_meet_through_mpi(
    framework: str, workers: int, collective: str, by_mpi: bool, tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(STUDY.replace("torch", framework))
    trial = make_plan(load_study(tmp_path / "study.toml")).trials[0]
    trial = replace(trial, cell=replace(trial.cell, workers=workers, collective=collective))
    parts = {"mpi": InstalledPart("mpi", {}, {}, Path("/part/mpiexec"))}
    interpreter = Interpreter(framework, Path("/python"), "built", "3.11", {}, "cpu", parts)
    file = trial_file(trial, interpreter)
    assert (file.by_mpi, file.mpiexec) == ((True, "/part/mpiexec") if by_mpi else (False, None))
    assert Runtime.of_trial(file, None).mpiexec == Runtime.of(interpreter, 1, None, collective).mpiexec


def test_without_teams_no_part_is_asked_for(asked: list[tuple[str, ...]]) -> None:
    found, absent = find_interpreters(["torch"], None, None, console(), {"torch": [NONE]})
    assert (asked, found["torch"].parts, absent) == ([()], {}, {})


def test_trials_of_such_teams_end_with_the_reason_and_the_others_run(
    tmp_path: Path, asked: list[tuple[str, ...]]
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    plan = make_plan(load_study(tmp_path / "study.toml"))
    cells = [replace(plan.cells[0], workers=2, collective=collective) for collective in (HOST, HOROVOD)]
    trials = tuple(replace(plan.trials[0], cell=cell) for cell in cells)
    found, absent = find_interpreters(["torch"], None, None, console(), {"torch": COLLECTIVES})
    directory = ResultsDirectory(tmp_path / "out")
    prepared = prepare(directory, Plan(plan.study, tuple(cells), trials), found, absent, False, console())
    assert [trial.file.collective for trial in prepared] == [HOST]
    outcome = read_outcome(directory.trial(trials[1].id))
    assert (outcome.reason, outcome.message) == ("absent", "no compiler")
