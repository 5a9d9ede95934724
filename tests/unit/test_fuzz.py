"""A few damaged and forged records and wild studies; `make fuzz` tries many."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz import fuzz
from fuzz_calls import Report, call
from fuzz_records import CHANGING, READING, REPORT
from rldyno.cli import app
from rldyno.commands.nets import nets

NO_RECORDS = {"studies", "papers", "hyper", "limits", "usability", "verify", "setup", "doctor", "new-backend"}
NO_RECORDS |= {"open", "bisect"}
"""Commands that read neither a study nor a results directory."""


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    affinity = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, affinity)


def test_every_command_that_reads_results_is_tried() -> None:
    names = {entry.name or entry.callback.__name__ for entry in app.registered_commands if entry.callback}
    tried = {command[0] for forms in (*READING, REPORT, CHANGING) for command in forms}
    assert tried == names - NO_RECORDS | {"nets"}
    assert [entry.callback.__name__ for entry in nets.registered_commands if entry.callback] == ["show"]


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_damaged_records_are_named_and_never_a_traceback(tmp_path: Path) -> None:
    report = fuzz("records", tmp_path, 0, 12, seed=1, jobs=0, through=2)
    assert report.failures == []
    assert report.cases == 12
    assert report.verdicts["named"] >= 3


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_damaged_packs_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    report = fuzz("packs", tmp_path, 0, 30, seed=1, jobs=0)
    assert report.failures == []
    assert report.verdicts["refused"] > 20


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_wild_studies_are_refused_with_a_message(tmp_path: Path) -> None:
    report = fuzz("studies", tmp_path, 0, 40, seed=1, jobs=0)
    assert report.failures == []
    assert report.verdicts["refused"] > 20
    assert report.verdicts["accepted"] > 0


def test_a_traceback_a_control_character_and_a_long_wait_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness itself can fail."""
    import fuzz_calls
    from rldyno import cli

    def ends_badly() -> None:
        print("\x1b[31m")
        raise RuntimeError("a mistake")

    monkeypatch.setattr(cli, "app", ends_badly)
    monkeypatch.setattr(fuzz_calls, "TOO_LONG_S", -1.0)
    report = Report()
    call(["status"], report, "case")
    assert [word in " ".join(report.failures) for word in ("RuntimeError", "control", "took")] == [True] * 3


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_cases_do_not_depend_on_the_number_of_jobs(tmp_path: Path) -> None:
    alone = fuzz("studies", tmp_path, 0, 6, seed=3, jobs=0)
    together = fuzz("studies", tmp_path, 0, 6, seed=3, jobs=2)
    assert (alone.verdicts, alone.calls) == (together.verdicts, together.calls)
