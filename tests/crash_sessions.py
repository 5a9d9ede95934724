"""Sessions that are killed at changes of a file: the same command goes on, nothing is lost or mixed up.

A session with adaptive seeds uses polars, whose threads do not survive a fork: the process that forks the
children must not have used it, so `crash_points.py` runs this in a process of its own.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from crash import KILLED, Case, in_child
from rldyno.launch.launcher import EndedTrial, PreparedTrial, RunningTrial
from rldyno.machine.facts import machine_facts
from rldyno.records.attempts import ATTEMPTS, put_aside
from rldyno.records.directory import ResultsDirectory
from rldyno.records.outcome import Noise, Outcome
from rldyno.records.seal import file_hashes, write_record
from rldyno.records.trial_records import read_outcome
from rldyno.records.trial_state import trial_state
from rldyno.session import manifest, session
from rldyno.session.preparation import find_interpreters
from rldyno.session.reruns import NoiseLimit
from rldyno.session.session import Options, Session
from rldyno_rig import schema
from rldyno_rig.result_file import WorkerResult

STUDY = """
contestants = {contestants}
algorithms = "dqn"
environments = "CartPole-v1"
seeds = {seeds}
[budget]
steps = 300
"""
CONTESTANTS = ("numpy:eager", "torch:eager")
FILES = (schema.FACTS_FILE, schema.EPISODES_FILE, schema.SAMPLES_FILE, schema.RESULT_FILE)


@dataclass
class RecordingLauncher:
    """Writes the files of each trial as its runner does. Of three attempts the second is the quietest."""

    current: list[RunningTrial] = field(default_factory=list)

    def has_room(self, trial: PreparedTrial) -> bool:
        return not self.current

    def start(self, trial: PreparedTrial) -> None:
        self.current.append(RunningTrial(trial))

    def running(self) -> Sequence[RunningTrial]:
        return self.current

    def wait(self, timeout_s: float) -> list[EndedTrial]:
        trial = self.current.pop().trial
        attempt = put_aside(trial.directory)
        for name in FILES:
            (trial.directory / name).write_text(json.dumps({"attempt": attempt}))
        ended = replace(outcome(trial.file.trial, attempt), files=file_hashes(trial.directory))
        write_record(trial.directory / schema.OUTCOME_FILE, ended.to_json())
        return [EndedTrial(trial, 1.0, 0, "")]

    def stop(self) -> None:
        pass


def outcome(trial: str, attempt: int) -> Outcome:
    score = {1: 0.9, 2: 0.5}.get(attempt, 0.7)
    train_ns = 10**9 + zlib.crc32(trial.encode()) % 10**9
    return Outcome(
        trial=trial,
        attempt=attempt,
        status="done",
        reason="steps",
        wall_s=2.0,
        noise=Noise(host="here", calibration_ns=1000, calibration_spread=0.0, score=score),
        result=WorkerResult("steps", steps=300, train_start_ns=10**9, train_ns=train_ns),
    )


def run(folder: Path, noise_limit: NoiseLimit | None = None, study: Path | None = None) -> None:
    study = study or folder.parent / "study.toml"
    options = Options(
        out=folder / "out",
        overrides=dict.fromkeys(("numpy", "torch"), Path(sys.executable)),
        verify=False,
        limits=False,
        report=False,
        noise_limit=noise_limit,
    )
    launched = Session(study, options, Console(file=io.StringIO()), RecordingLauncher())
    launched.answer = lambda: None  # type: ignore[method-assign]  # reads only
    assert launched.run()


def flaws(root: Path, repeats: bool = False) -> list[str]:
    """What is wrong with a results directory whose run has ended. `repeats`: a trial may be done twice."""
    directory = ResultsDirectory(root)
    found = [f"left over: {path.relative_to(root)}" for path in root.rglob(".*")]
    for trial in directory.read_manifest().trials:
        home = directory.trial(trial)
        if not trial_state(home).done:
            found.append(f"{trial} is not done")
            continue
        attempts = list((home / ATTEMPTS).glob("*"))
        for folder in (home, *attempts):
            found += [f"{folder.relative_to(root)}: {flaw}" for flaw in attempt_flaws(folder)]
        if not repeats and any((folder / schema.OUTCOME_FILE).exists() for folder in attempts):
            found.append(f"{trial} was done and has run again")
    return found


def attempt_flaws(folder: Path) -> list[str]:
    """An attempt with an outcome has the files of that attempt and no others."""
    if not (folder / schema.OUTCOME_FILE).exists():
        return []
    said = json.dumps({"attempt": read_outcome(folder).attempt})
    return [
        f"{name} is missing or of another attempt"
        for name in FILES
        if not (folder / name).exists() or (folder / name).read_text() != said
    ]


def checks(root: Path) -> list[tuple[int, list[str]]]:
    """The interim checks of adaptive seeds, but for the time of day."""
    adaptive = ResultsDirectory(root).read_manifest().adaptive
    assert adaptive is not None
    return [(check.added, [str(group.to_json()) for group in check.groups]) for check in adaptive.checks]


@contextmanager
def known_machine() -> Iterator[None]:
    """Facts that take long to find, and do not change files, are found once for all points."""
    numpy = find_interpreters(["numpy"], {"numpy": Path(sys.executable)}, None, Console())[0]["numpy"]
    interpreters = {"numpy": numpy, "torch": replace(numpy, framework="torch")}
    facts = machine_facts()
    with (
        patch.object(session, "find_interpreters", lambda *_: (interpreters, {})),
        patch.object(session, "check_environments", lambda *_: None),
        patch.object(manifest, "machine_facts", lambda: facts),
        patch.object(manifest, "git_revision", lambda: None),
    ):
        yield


def write_study(folder: Path, seeds: str, contestants: Sequence[str] = CONTESTANTS[:1]) -> None:
    (folder / "study.toml").write_text(STUDY.format(seeds=seeds, contestants=json.dumps(list(contestants))))


def plain(folder: Path) -> Case:
    write_study(folder, "2")
    return Case(run, lambda home: flaws(home / "out"))


def max_noise(folder: Path) -> Case:
    write_study(folder, "2")
    limit = NoiseLimit(0.1, 3)
    return Case(lambda home: run(home, limit), lambda home: flaws(home / "out", repeats=True))


def resume(folder: Path, first_kill: float) -> Case:
    """`rldyno run DIR`, where the first run was killed on its way."""
    write_study(folder, "3")
    whole, killed = folder / "whole", folder / "killed"
    for home in (whole, killed):
        home.mkdir()
    assert in_child(lambda: run(whole), whole, None, folder / "points") == 0
    point = int(first_kill * len((folder / "points").read_text().splitlines()))
    assert in_child(lambda: run(killed), killed, point, folder / "cut") == KILLED
    return Case(
        lambda home: run(home, study=home / "out"),
        lambda home: flaws(home / "out"),
        lambda home: shutil.copytree(killed, home),
    )


def adaptive(folder: Path) -> Case:
    """Two contestants whose comparison stays open: every seed is added, and the decisions stay the same."""
    import rldyno.answers.adaptive
    import rldyno.results.load  # noqa: F401 (imported once, not by each child; polars is not used here)

    write_study(folder, "{ min = 2, max = 4 }", CONTESTANTS)
    whole = folder / "whole"
    whole.mkdir()
    assert in_child(lambda: run(whole), whole, None, folder / "points") == 0
    expected = ResultsDirectory(whole / "out").read_manifest().trials
    assert len(expected) == 8

    def judge(home: Path) -> list[str]:
        found = flaws(home / "out")
        if ResultsDirectory(home / "out").read_manifest().trials != expected:
            found.append("other trials than without the kill")
        if checks(home / "out") != checks(whole / "out"):
            found.append("other interim checks than without the kill")
        return found

    return Case(run, judge)
