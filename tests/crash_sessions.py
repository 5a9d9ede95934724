"""A session killed at every change of a file: the same command goes on, and nothing is lost or mixed up."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from crash import FAILED, crash_points, in_child
from rldyno.launch.launcher import EndedTrial, PreparedTrial, RunningTrial
from rldyno.machine.facts import machine_facts
from rldyno.records.attempts import ATTEMPTS, put_aside
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import write_json
from rldyno.records.outcome import Noise, Outcome
from rldyno.records.trial_records import read_outcome
from rldyno.records.trial_state import trial_state
from rldyno.session import manifest, session
from rldyno.session.preparation import find_interpreters
from rldyno.session.reruns import NoiseLimit
from rldyno.session.session import Options, Session
from rldyno_rig import schema
from rldyno_rig.result_file import WorkerResult

STUDY = """
contestants = "numpy:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = {seeds}
[budget]
steps = 300
"""
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
        write_json(trial.directory / schema.OUTCOME_FILE, outcome(trial.file.trial, attempt).to_json())
        return [EndedTrial(trial, 1.0, 0, "")]

    def stop(self) -> None:
        pass


def outcome(trial: str, attempt: int) -> Outcome:
    score = {1: 0.9, 2: 0.5}.get(attempt, 0.7)
    return Outcome(
        trial=trial,
        attempt=attempt,
        status="done",
        reason="steps",
        wall_s=2.0,
        noise=Noise(host="here", calibration_ns=1000, calibration_spread=0.0, score=score),
        result=WorkerResult("steps", steps=300, train_start_ns=10**9, train_ns=10**9),
    )


def run(folder: Path, noise_limit: NoiseLimit | None) -> None:
    study = folder.parent / "study.toml"
    options = Options(
        out=folder / "out",
        overrides={"numpy": Path(sys.executable)},
        verify=False,
        limits=False,
        report=False,
        noise_limit=noise_limit,
    )
    launched = Session(study, options, Console(file=io.StringIO()), RecordingLauncher())
    launched.answer = lambda: None  # type: ignore[method-assign]  # reads only
    assert launched.run()


def flaws(root: Path) -> list[str]:
    """What is wrong with a results directory whose run has ended."""
    directory = ResultsDirectory(root)
    found = [f"left over: {path.relative_to(root)}" for path in root.rglob(".*")]
    for trial in directory.read_manifest().trials:
        home = directory.trial(trial)
        if not trial_state(home).done:
            found.append(f"{trial} is not done")
            continue
        for folder in (home, *(home / ATTEMPTS).glob("*")):
            found += [f"{folder.relative_to(root)}: {flaw}" for flaw in attempt_flaws(folder)]
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


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts that take long to find, and do not change files, are found once for all points."""
    interpreters = find_interpreters(["numpy"], {"numpy": Path(sys.executable)}, None, Console())
    facts = machine_facts()
    monkeypatch.setattr(session, "find_interpreters", lambda *_: interpreters)
    monkeypatch.setattr(manifest, "machine_facts", lambda: facts)
    monkeypatch.setattr(manifest, "git_revision", lambda: None)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "limit"), [(2, None), (2, NoiseLimit(0.1, 3))], ids=["plain", "max-noise"])
def test_a_run_goes_on_after_a_kill_at_any_change_of_a_file(
    tmp_path: Path, seeds: int, limit: NoiseLimit | None
) -> None:
    (tmp_path / "study.toml").write_text(STUDY.format(seeds=seeds))
    bad = []
    number = -1
    for number, change, home in crash_points(lambda folder: run(folder, limit), tmp_path):
        code = in_child(lambda home=home: run(home, limit), home, None, tmp_path / "again")
        wrong = ["the same command fails"] if code == FAILED else flaws(home / "out")
        bad += [f"{number} before {change}: {flaw}" for flaw in wrong]
    assert number > 10
    assert not bad, f"{len(bad)} flaws\n" + "\n".join(bad)
