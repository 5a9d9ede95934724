"""Whole sessions on a fake Slurm: they submit and leave, a job goes on, nothing runs twice."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fake_slurm import FakeSlurm
from rldyno.cli import app
from rldyno.config import SlurmSettings
from rldyno.errors import Problem
from rldyno.launch import slurm as launcher
from rldyno.launch.launcher import DetachedError
from rldyno.launch.slurm_ledger import Ledger
from rldyno.proofs.certificate import Subject
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import write_json
from rldyno.records.locks import locked
from rldyno.records.outcome import Noise, Outcome
from rldyno.records.slurm_jobs import SlurmFolder, SlurmJobs
from rldyno.records.trial_state import trial_state
from rldyno.session import cluster
from rldyno.session.cluster import Cluster, ClusterOptions
from rldyno.session.reruns import NoiseLimit
from rldyno.session.session import Options, Session
from rldyno_rig.result_file import WorkerResult

STUDY = """
contestants = "numpy:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 3
[budget]
steps = 300
"""
SETTINGS = SlurmSettings(lost_after_s=0.0, poll_s=0.01, attempts=2)


def outcome(status: str = "done", noise: float = 0.0) -> Outcome:
    return Outcome(
        status=status,
        reason="steps" if status == "done" else "crashed",
        wall_s=2.0,
        noise=Noise(host="node", calibration_ns=1000, score=noise),
        result=WorkerResult("steps", steps=300, train_start_ns=10**9, train_ns=10**9),
    )


class Lab:
    """A user on a login node."""

    def __init__(self, folder: Path) -> None:
        self.slurm = FakeSlurm(folder / "bin")
        self.study = folder / "study.toml"
        self.study.write_text(STUDY)
        self.directory = ResultsDirectory(folder / "out")
        self.printed = ""

    def run(self, cluster: ClusterOptions | None, **options: Any) -> bool:
        stream = io.StringIO()
        quick = {"verify": False, "report": False, "out": self.directory.root, "cluster": cluster}
        chosen = Options(**{**quick, **options}, overrides={"numpy": Path(sys.executable)})
        try:
            return Session(self.study, chosen, Console(file=stream, width=200)).run()
        finally:
            self.printed = stream.getvalue()

    def submit(self, **options: Any) -> str:
        with pytest.raises(DetachedError) as left:
            self.run(ClusterOptions(SETTINGS, detach=True), **options)
        return str(left.value)

    def go_on(self, **options: Any) -> bool:
        """As the last job of a wave does."""
        return self.run(ClusterOptions(SETTINGS, continued=True), keep_failed=True, **options)

    @property
    def jobs(self) -> SlurmJobs:
        found = SlurmFolder(self.directory.root).read()
        assert found is not None
        return found

    def work(self, **noise: float) -> None:
        """The nodes run every queued trial; a seed's status is failed where its noise is negative."""
        for trial, job in self.jobs.jobs():
            if job in self.slurm.live():
                home = self.directory.trial(trial)
                seed = next(part for part in trial.split(".") if part[0] == "s" and part[1:].isdigit())
                score = noise.get(seed, 0.0)
                made = outcome("failed" if score < 0 else "done", max(0.0, score))
                write_json(home / "outcome.json", made.to_json())
                self.slurm.set(job, "COMPLETED")
        for job in self.slurm.live():
            self.slurm.set(job, "COMPLETED")

    def states(self) -> list[str]:
        manifest = self.directory.read_manifest()
        return [trial_state(self.directory.trial(trial)).name for trial in manifest.trials]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(tmp_path)
    monkeypatch.setenv("PATH", f"{made.slurm.folder}:/usr/bin:/bin")
    return made


def test_what_a_login_node_cannot_prove_counts_once_a_job_has_proven_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = Subject.of("torch:eager", "dqn", "mlp", "cuda")
    on_cpu, apart, shared = (
        replace(alone, device="cpu"),
        *(alone.in_a_team("native", share_gpu=share) for share in (False, True)),
    )
    wanted, proven, said = [on_cpu, alone, shared, apart], set[Subject](), list[str]()
    monkeypatch.setattr(
        cluster, "to_make", lambda wanted, interpreters: [one for one in wanted if one not in proven]
    )
    own = Cluster(ClusterOptions(SETTINGS), Options(), lab.directory, said.append)

    def provable(gpus: int) -> list[Subject]:
        said.clear()
        monkeypatch.setattr(cluster, "usable_gpus", lambda: (gpus, None))
        return own.provable_here(wanted, {})

    assert provable(0) == [on_cpu]
    assert said[0].startswith("not proven, because this machine has no GPU: torch:eager. In a job with 2: ")
    assert f"rldyno verify --study {lab.directory.root}" in said[0]
    assert provable(1) == [on_cpu, alone, shared]
    assert "has 1 GPU only" in said[0]
    assert provable(2) == wanted
    proven |= {alone, shared, apart}
    assert provable(0) == wanted, "their certificates are copied beside the results"
    assert said == []


@pytest.mark.slow
def test_submit_leave_and_let_the_last_job_answer(lab: Lab) -> None:
    assert lab.submit().startswith("3 trials are queued or running. A last job writes the report.")
    assert list(lab.slurm.jobs) == ["1", "2_0", "2_1", "2_2"]
    assert lab.directory.read_manifest().limits is None
    lab.work()
    assert lab.go_on()
    assert "all 3 trials have already ended" in lab.printed
    assert "numpy:eager" in lab.printed
    assert lab.slurm.live() == []


@pytest.mark.slow
def test_a_failed_trial_is_submitted_again_by_a_person_and_not_by_a_job(lab: Lab) -> None:
    lab.submit()
    lab.work(s1=-1.0)
    assert not lab.go_on()
    assert lab.slurm.live() == []
    assert lab.states().count("failed") == 1
    shown = CliRunner().invoke(app, ["status", str(lab.directory.root)]).output
    assert re.search(r"^failed  \S+\.s1\S*: job 2_1: crashed: ", shown, re.MULTILINE), shown
    lab.submit()
    assert [job for job in lab.slurm.live() if "_" in job] == ["4_0"]
    assert lab.states().count("failed") == 0, "its outcome was put aside"
    lab.work()
    assert lab.go_on()


@pytest.mark.slow
def test_lost_trials_are_submitted_again_until_their_attempts_are_spent(lab: Lab) -> None:
    lab.submit()
    for job in lab.slurm.live():
        lab.slurm.set(job, "CANCELLED")
    with pytest.raises(DetachedError, match="3 trials are queued"):
        lab.go_on()
    for job in lab.slurm.live():
        lab.slurm.set(job, "NODE_FAIL")
    assert not lab.go_on()
    assert "3 of 3 trials are not done; the same command runs them again" in lab.printed
    assert lab.printed.count(") without an outcome, the last of its attempts") == 3
    assert "job 4_1 ended (NODE_FAIL) without" in lab.printed
    assert lab.slurm.live() == []
    assert "3 trials are queued" in lab.submit()


@pytest.mark.slow
def test_nobody_leaves_without_a_job_that_goes_on(lab: Lab) -> None:
    lab.slurm.change(room=1)
    with pytest.raises(
        Problem, match=r"cannot detach: .* \(1 of 3 trials are queued or running\)"
    ) as refused:
        lab.run(ClusterOptions(SETTINGS, detach=True))
    assert "without --detach" in (refused.value.fix or "")
    lab.slurm.change(room=4)
    assert "3 trials are queued or running. A last job writes the report." in lab.submit()


@pytest.mark.slow
def test_who_leaves_with_ctrl_c_reads_whether_a_job_goes_on(lab: Lab) -> None:
    def left() -> str:
        cluster = Cluster(ClusterOptions(SETTINGS), Options(), lab.directory, lambda _: None)
        cluster.attach()
        return str(cluster.interrupted())

    assert "the jobs go on. No job goes on after them yet. " in left()
    lab.submit()
    assert "the jobs go on. A last job writes the report. " in left()


@pytest.mark.slow
def test_a_job_that_has_no_successor_stays(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.submit()
    for job in lab.slurm.live():
        lab.slurm.set(job, "CANCELLED")
    lab.slurm.change(room=1)
    monkeypatch.setattr(launcher, "_RETRY_S", 0.0)
    look = Ledger.look

    def work_then_look(ledger: Ledger, **options: Any) -> bool:
        lab.work()
        return look(ledger, **options)

    monkeypatch.setattr(Ledger, "look", work_then_look)
    assert lab.go_on(), lab.printed
    assert "it stays until trials end" in lab.printed
    assert lab.states() == ["done"] * 3
    assert lab.slurm.live() == []


@pytest.mark.slow
def test_the_same_command_attaches_to_jobs_and_leaves_their_files_alone(lab: Lab) -> None:
    lab.submit()
    files = {path: path.read_bytes() for path in lab.directory.root.glob("trials/*/trial.json")}
    assert len(files) == 3
    assert "3 trials are queued" in lab.submit()
    assert "3 trials are queued or running already" in lab.printed
    assert [job for job in lab.slurm.live() if "_" in job] == ["2_0", "2_1", "2_2"]
    assert {path: path.read_bytes() for path in files} == files


@pytest.mark.slow
def test_noisy_trials_run_again_in_a_wave_of_their_own(lab: Lab) -> None:
    limit = NoiseLimit(0.1, 2)
    lab.submit(noise_limit=limit)
    lab.work(s1=0.5)
    with pytest.raises(DetachedError, match="1 trial is queued"):
        lab.go_on(noise_limit=limit)
    assert sorted(lab.states()) == ["done", "done", "pending"], "the noisy attempt waits beside it"
    lab.work(s1=0.9)
    assert lab.go_on(noise_limit=limit)
    (noisy,) = [path for path in lab.directory.trials.iterdir() if (path / "attempts").exists()]
    counting = trial_state(noisy).outcome
    assert counting is not None
    assert counting.noise is not None
    assert counting.noise.score == 0.5, "the quietest attempt counts"


@pytest.mark.slow
def test_a_job_gives_way_to_a_session_and_to_cancel(lab: Lab) -> None:
    lab.submit()
    with locked(lab.directory.lock), pytest.raises(DetachedError, match="another `rldyno run` works here"):
        lab.go_on()
    SlurmFolder(lab.directory.root).ask_to_cancel()
    with pytest.raises(DetachedError, match="the run was cancelled"):
        lab.go_on()


@pytest.mark.slow
def test_scripts_are_written_and_nothing_is_submitted(lab: Lab) -> None:
    with pytest.raises(DetachedError) as left:
        lab.run(ClusterOptions(SETTINGS, print_scripts=True), noise_limit=NoiseLimit(0.1, 2), jobs=4)
    paths = [Path(line) for line in str(left.value).splitlines()[1:]]
    array, last = (path.read_text() for path in paths)
    assert "#SBATCH --array=0-2%4\n" in array
    assert last.endswith(
        f"-m rldyno run {lab.directory.root} --launcher slurm --continued --keep-failed "
        f"--toolchain numpy={sys.executable} --jobs 4 --max-noise 0.1 --noise-attempts 2 "
        "--no-verify --no-report\n"
    )
    assert lab.slurm.jobs == {}


@pytest.mark.slow
def test_scripts_are_those_of_trials_without_a_job(lab: Lab) -> None:
    lab.submit()
    files = {path: path.stat().st_mtime_ns for path in lab.directory.trials.glob("*/trial.json")}
    jobs = SlurmFolder(lab.directory.root).jobs_file.read_bytes()
    for state in ("PENDING", "RUNNING"):
        lab.slurm.set("2_1", state)
        with pytest.raises(DetachedError, match="nothing is left to submit"):
            lab.run(ClusterOptions(SETTINGS, print_scripts=True))
    assert {path: path.stat().st_mtime_ns for path in files} == files, "a job may be reading them"
    lost = lab.jobs.submissions[1].trials[1]
    lab.slurm.set("2_1", "CANCELLED")
    with pytest.raises(DetachedError, match="nothing was submitted") as left:
        lab.run(ClusterOptions(SETTINGS, print_scripts=True))
    array = Path(str(left.value).splitlines()[1]).read_text()
    assert "--array=0-0" in array
    assert f"trials=(\n  {lost}\n)" in array
    assert SlurmFolder(lab.directory.root).jobs_file.read_bytes() == jobs


@pytest.mark.slow
def test_a_run_on_this_machine_waits_for_the_jobs(lab: Lab) -> None:
    lab.submit()
    with pytest.raises(Problem, match=r"jobs of the run in .* are queued or running: 1"):
        lab.run(None)
    lab.work()
    assert lab.run(None, limits=False)


def test_hours_are_for_this_machine(lab: Lab) -> None:
    with pytest.raises(Problem, match="--hours needs a run on this machine"):
        lab.run(ClusterOptions(SETTINGS), hours=1.0)


def test_a_machine_without_slurm_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Problem, match="this machine has no sbatch"):
        lab.run(ClusterOptions(SETTINGS))
