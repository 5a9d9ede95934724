"""A user of a fake Slurm, for tests of the launcher."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fake_slurm import FakeSlurm
from rldyno.config import SlurmSettings
from rldyno.launch import slurm as module
from rldyno.launch import slurm_queue
from rldyno.launch.launcher import EndedTrial, PreparedTrial
from rldyno.launch.slurm import SlurmLauncher
from rldyno.records.directory import ResultsDirectory
from rldyno.records.slurm_jobs import SlurmFolder, SlurmJobs
from rldyno_rig.contestant import Contestant
from rldyno_rig.trial_file import Budget, TrialFile

SETTINGS = SlurmSettings(lost_after_s=0.0, poll_s=0.001, attempts=2)


class Lab:
    def __init__(self, root: Path, slurm: FakeSlurm) -> None:
        self.root, self.slurm = root, slurm
        self.said: list[str] = []
        self.directory = ResultsDirectory(root)
        self.folder = SlurmFolder(root)

    def trials(self, count: int, cores: int = 1) -> list[PreparedTrial]:
        file = TrialFile("", Contestant("numpy", "eager"), "dqn", "CartPole-v1", 0, {}, Budget(1))
        made = []
        for number in range(count):
            home = self.directory.trial(f"c{cores}.s{number}")
            home.mkdir(parents=True, exist_ok=True)
            made.append(PreparedTrial(replace(file, trial=home.name, cores=cores), home))
        return made

    def launcher(self, settings: SlurmSettings = SETTINGS, *, anew: bool = True) -> SlurmLauncher:
        launcher = SlurmLauncher(self.root, settings, ["rldyno", "run"], self.said.append)
        launcher.attach(anew=anew)
        return launcher

    def attached(self) -> dict[str, str]:
        """What a job that goes on finds."""
        return SlurmLauncher(self.root, SETTINGS, ["rldyno", "run"], self.said.append).attach(anew=False)

    def started(self, trials: list[PreparedTrial], settings: SlurmSettings = SETTINGS) -> SlurmLauncher:
        launcher = self.launcher(settings)
        for trial in trials:
            launcher.start(trial)
        assert launcher.wait(0) == []
        return launcher

    def end(self, trial: PreparedTrial, job: str, state: str = "COMPLETED") -> None:
        (trial.directory / "outcome.json").write_text("{}")
        self.slurm.set(job, state)

    @property
    def jobs(self) -> SlurmJobs:
        found = self.folder.read()
        assert found is not None
        return found


def lab_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    slurm = FakeSlurm(folder / "bin")
    monkeypatch.setenv("PATH", f"{slurm.folder}:/usr/bin:/bin")
    monkeypatch.setattr(slurm_queue, "_call", slurm.call)
    monkeypatch.setattr(module, "_RETRY_S", 0.0)
    (folder / "out").mkdir()
    return Lab(folder / "out", slurm)


def wait(launcher: SlurmLauncher, looks: int = 3) -> list[EndedTrial]:
    """Each wait either sleeps until the next look or looks."""
    return [ended for _ in range(2 * looks) for ended in launcher.wait(1.0)]
