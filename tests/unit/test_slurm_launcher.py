"""Trials as jobs of a fake Slurm: submitted once, found again, submitted again when they are lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.launch.slurm import SlurmLauncher
from rldyno.launch.slurm_jobs import cancel_jobs, job_lines
from rldyno.records.directory import run_command
from rldyno.records.locks import locked
from rldyno.records.manifest import Manifest
from slurm_launches import SETTINGS, Lab, lab_of, wait


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return lab_of(tmp_path, monkeypatch)


def test_trials_with_the_same_needs_are_one_array(lab: Lab) -> None:
    small, large = lab.trials(3), lab.trials(2, cores=4)
    launcher = lab.started([*small, *large])
    assert list(lab.slurm.jobs) == ["1_0", "1_1", "1_2", "2_0", "2_1", "3"]
    assert lab.slurm.jobs["3"]["after"] == "--dependency=afterany:1:2"
    assert lab.jobs.latest() == {
        "c1.s0": "1_0",
        "c1.s1": "1_1",
        "c1.s2": "1_2",
        "c4.s0": "2_0",
        "c4.s1": "2_1",
    }
    assert all(entry.queued for entry in launcher.running())


def test_a_trial_has_ended_when_its_outcome_is_there(lab: Lab) -> None:
    first, second = lab.trials(2)
    launcher = lab.started([first, second])
    lab.slurm.set("1_0", "RUNNING", node="n1")
    assert wait(launcher) == []
    assert [(entry.trial.id, entry.queued) for entry in launcher.running()] == [
        ("c1.s0", False),
        ("c1.s1", True),
    ]
    lab.end(first, "1_0")
    assert [ended.trial.id for ended in wait(launcher)] == ["c1.s0"]
    lab.end(second, "1_1", "FAILED")
    assert [ended.trial.id for ended in wait(launcher)] == ["c1.s1"]
    assert not launcher.running()
    launcher.stop()
    assert lab.slurm.jobs["2"]["state"] == "CANCELLED", "the session itself goes on"


def test_arrays_are_no_longer_than_the_cluster_allows(lab: Lab) -> None:
    lab.started(lab.trials(5), SETTINGS.model_copy(update={"array_size": 2}))
    assert list(lab.slurm.jobs) == ["1_0", "1_1", "2_0", "2_1", "3_0", "4"]


@pytest.mark.parametrize("fate", ["CANCELLED", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "forgotten"])
def test_a_lost_trial_is_submitted_again_and_then_given_up(lab: Lab, fate: str) -> None:
    (trial,) = lab.trials(1)
    launcher = lab.started([trial])
    for job in ("1_0", "3_0"):
        assert lab.slurm.jobs[job]["state"] == "PENDING"
        if fate == "forgotten":
            lab.slurm.forget(job)
        else:
            lab.slurm.set(job, fate)
        ended = wait(launcher)
    (lost,) = ended
    assert "job 3_0 ended (" in lost.error_text
    assert "the last of 2" in lost.error_text
    assert ("no longer in the queue" if fate == "forgotten" else fate) in lost.error_text
    assert lab.launcher(anew=False).given_up(["c1.s0"]) == {"c1.s0"}
    assert lab.launcher(anew=True).given_up(["c1.s0"]) == set()


@pytest.mark.parametrize("seen_by", ["the lab", "the next lab"])
def test_the_state_of_a_lost_job_outlives_slurms_memory(lab: Lab, seen_by: str) -> None:
    trials = lab.trials(2)
    launcher = lab.started(trials, SETTINGS.model_copy(update={"lost_after_s": 3600.0}))
    lab.end(trials[1], "1_1")
    lab.slurm.set("1_0", "OUT_OF_MEMORY")
    if seen_by == "the lab":
        wait(launcher)
    else:
        lab.attached()
    lab.slurm.forget("1_0")
    assert lab.jobs.last_state("c1.s0") == "OUT_OF_MEMORY"
    assert lab.jobs.submissions[0].lost == {"c1.s0": "OUT_OF_MEMORY"}, "not of one with an outcome"
    assert job_lines(lab.directory)[-1] == "lost  c1.s0: job 1_0 (OUT_OF_MEMORY)"
    again = lab.launcher(anew=False)
    assert again.fate("c1.s0") == "job 1_0 ended (OUT_OF_MEMORY) without an outcome"


def test_a_requeued_job_is_not_lost(lab: Lab) -> None:
    (trial,) = lab.trials(1)
    launcher = lab.started([trial])
    for state in ("RUNNING", "COMPLETING", "PENDING", "RUNNING"):
        lab.slurm.set("1_0", state)
        assert wait(launcher) == []
    assert len(lab.jobs.jobs_of("c1.s0")) == 1


def test_a_trial_that_still_runs_is_not_lost(lab: Lab) -> None:
    """The controller lost its node, but the trial works and holds its lock."""
    (trial,) = lab.trials(1)
    launcher = lab.started([trial])
    lab.slurm.set("1_0", "NODE_FAIL")
    with locked(trial.directory / "trial.lock"):
        assert wait(launcher) == []
        lab.end(trial, "1_0", "NODE_FAIL")
        assert wait(launcher) == []
    assert [ended.trial.id for ended in wait(launcher)] == ["c1.s0"]


def test_files_may_be_seen_late(lab: Lab) -> None:
    (trial,) = lab.trials(1)
    launcher = lab.started([trial], SETTINGS.model_copy(update={"lost_after_s": 3600.0}))
    lab.slurm.set("1_0", "COMPLETED")
    assert wait(launcher) == []
    lab.end(trial, "1_0")
    assert [ended.trial.id for ended in wait(launcher)] == ["c1.s0"]


def test_a_session_that_was_killed_finds_its_jobs_again(lab: Lab) -> None:
    trials = lab.trials(3)
    lab.started(trials)
    lab.slurm.set("1_1", "CANCELLED")
    launcher = lab.started(trials)
    assert [id_ for id_ in lab.slurm.live() if "_" in id_] == ["1_0", "1_2", "3_0"]
    assert lab.slurm.jobs["2"]["after"] == "--dependency=afterany:1:3"
    assert lab.slurm.live()[-2:] == ["2", "3_0"], "no other last job"
    assert len(launcher.running()) == 3


def test_a_job_whose_id_was_never_noted_is_found_by_its_name(lab: Lab) -> None:
    """Killed between sbatch and the record, or no answer from sbatch although it took the job."""
    trials = lab.trials(2)
    lab.slurm.change(mode="mute")
    launcher = lab.launcher()
    for trial in trials:
        launcher.start(trial)
    launcher.submit()
    assert lab.jobs.latest() == {}
    lab.slurm.change(mode="")
    wait(launcher)
    assert lab.jobs.latest() == {"c1.s0": "1_0", "c1.s1": "1_1"}
    assert [id_ for id_ in lab.slurm.live() if "_" in id_] == ["1_0", "1_1"]


def test_a_submission_that_never_arrived_is_made_again(lab: Lab) -> None:
    lab.slurm.change(mode="down")
    launcher = lab.started(lab.trials(2))
    assert wait(launcher) == []
    assert lab.said.count("Slurm does not answer; waiting until it does") == 1
    lab.slurm.change(mode="")
    wait(launcher)
    assert [id_ for id_ in lab.slurm.live() if "_" in id_] == ["1_0", "1_1"]


def test_nothing_is_concluded_while_slurm_is_silent(lab: Lab) -> None:
    (trial,) = lab.trials(1)
    launcher = lab.started([trial])
    lab.slurm.change(mode="down")
    assert wait(launcher) == []
    with pytest.raises(Problem, match="Slurm does not answer, and jobs of this run may be in its queue"):
        lab.launcher()
    lab.slurm.change(mode="")
    assert wait(launcher) == []
    assert lab.slurm.live() == ["1_0", "2"]


def test_a_full_queue_takes_what_it_can(lab: Lab) -> None:
    lab.slurm.change(room=3)
    trials = lab.trials(5)
    launcher = lab.started(trials)
    assert lab.slurm.live() == ["1_0", "1_1", "2"]
    for trial, job in zip(trials, ("1_0", "1_1"), strict=False):
        lab.end(trial, job)
    lab.slurm.change(room=100)
    assert len(wait(launcher)) == 2
    wait(launcher)
    assert sorted(lab.jobs.latest()) == ["c1.s0", "c1.s1", "c1.s2", "c1.s3", "c1.s4"]
    assert launcher.submitted() == (3, 0)


def test_a_full_queue_is_offered_no_other_array(lab: Lab) -> None:
    """sbatch itself may try for two minutes."""
    lab.slurm.change(room=2)
    lab.started([*lab.trials(3), *lab.trials(3, cores=2)])
    assert lab.slurm.live() == ["1_0", "2"]
    assert [path.name[-11:] for path in sorted(lab.folder.home.glob("*.sbatch"))] == [
        "0001.sbatch",  # three trials
        "0002.sbatch",  # one
        "0003.sbatch",  # the job that goes on
    ]
    assert [words for words in lab.said if words.startswith("Slurm takes no more jobs now")]


def test_a_user_without_any_room_is_told(lab: Lab) -> None:
    lab.slurm.change(room=0)
    launcher = lab.launcher()
    launcher.start(lab.trials(1)[0])
    with pytest.raises(Problem, match="Slurm takes no job of this user"):
        launcher.wait(0)


def test_what_slurm_will_never_take_is_a_problem(lab: Lab) -> None:
    lab.slurm.change(mode="invalid partition specified: nope")
    launcher = lab.launcher()
    launcher.start(lab.trials(1)[0])
    with pytest.raises(Problem, match=r"Slurm refuses .*\.sbatch: invalid partition specified: nope"):
        launcher.wait(0)
    assert lab.jobs.submissions == ()


def test_an_array_that_is_too_large_names_the_setting(lab: Lab) -> None:
    lab.slurm.change(mode="Batch job submission failed: Invalid job array specification")
    launcher = lab.launcher()
    launcher.start(lab.trials(1)[0])
    with pytest.raises(Problem) as caught:
        launcher.wait(0)
    assert "--slurm array_size=N" in str(caught.value.fix)


def test_a_job_that_slurm_holds_after_a_failed_launch_is_replaced(lab: Lab) -> None:
    launcher = lab.started(lab.trials(1))
    lab.slurm.set("1_0", "PENDING", "launch failed requeued held")
    wait(launcher)
    assert lab.slurm.jobs["1_0"]["state"] == "CANCELLED"
    assert "3_0" in lab.slurm.live()


def test_an_id_that_slurm_gives_twice_belongs_to_the_newer_job(lab: Lab) -> None:
    """A controller that was killed may have forgotten a job that it had taken."""
    first, second = lab.trials(2)
    launcher = lab.started([first])
    lab.slurm.change(next=1, jobs={})
    launcher.start(second)
    launcher.submit()
    assert lab.jobs.latest() == {"c1.s1": "1_0"}
    wait(launcher)
    assert lab.jobs.latest() == {"c1.s1": "1_0", "c1.s0": "2_0"}
    wait(launcher)
    assert lab.slurm.live() == ["1_0", "2_0", "3"]
    assert lab.slurm.jobs["3"]["after"] == "--dependency=afterany:2:1"


def test_commands_that_continue_name_the_cluster(lab: Lab) -> None:
    assert run_command(lab.root) == f"rldyno run {lab.root}"
    lab.started(lab.trials(1))
    assert run_command(lab.root) == f"rldyno run {lab.root} --launcher slurm"


def test_scripts_without_submitting(lab: Lab) -> None:
    launcher = SlurmLauncher(lab.root, SETTINGS, ["rldyno", "run"], lab.said.append, submit=False)
    launcher.attach(anew=True)
    for trial in lab.trials(2):
        launcher.start(trial)
    launcher.submit(leaving=True)
    assert [path.suffix for path in launcher.scripts] == [".sbatch", ".sbatch"]
    assert "#SBATCH --array=0-1\n" in launcher.scripts[0].read_text()
    assert launcher.scripts[1].read_text().endswith("exec rldyno run\n")
    assert lab.slurm.jobs == {}
    assert lab.folder.read() is None


def test_cancel_ends_the_jobs_and_the_session(lab: Lab) -> None:
    launcher = lab.started(lab.trials(2))
    lab.directory.write_manifest(Manifest())
    assert cancel_jobs(lab.directory) == "3 jobs were cancelled; finished trials are kept"
    assert lab.slurm.live() == []
    with pytest.raises(Problem, match="the run was cancelled"):
        launcher.wait(0)
    assert cancel_jobs(lab.directory) == "0 jobs were cancelled; finished trials are kept"


def test_cancel_spares_jobs_of_others(lab: Lab) -> None:
    lab.started(lab.trials(1))
    lab.directory.write_manifest(Manifest())
    state = lab.slurm.read()
    state["jobs"]["9"] = {"state": "RUNNING", "reason": "", "node": "n1", "name": "mine", "after": ""}
    lab.slurm.write(state)
    cancel_jobs(lab.directory)
    assert lab.slurm.live() == ["9"]


def test_there_is_nothing_to_cancel_in_a_local_run(lab: Lab) -> None:
    lab.directory.write_manifest(Manifest())
    with pytest.raises(Problem, match="no jobs of Slurm were submitted"):
        cancel_jobs(lab.directory)


def test_status_names_the_jobs(lab: Lab) -> None:
    trials = lab.trials(4)
    lab.started(trials)
    lab.slurm.set("1_0", "RUNNING", node="n7")
    lab.slurm.set("1_1", "PENDING", "Priority")
    lab.end(trials[2], "1_2")
    lab.slurm.set("1_3", "CANCELLED")
    assert job_lines(lab.directory) == [
        "1 job queued: 1_1 (Priority)",
        "1 job running: 1_0 (n7)",
        "job 2 goes on when they have ended",
        "lost  c1.s3: job 1_3 (CANCELLED)",
    ]
    lab.slurm.set("2", "RUNNING")
    assert "job 2 goes on now" in job_lines(lab.directory)
    lab.started([trials[3]])
    lab.slurm.set("3_0", "NODE_FAIL")
    assert job_lines(lab.directory)[-1] == "lost  c1.s3: job 3_0 (NODE_FAIL), the last of 2"
    lab.slurm.change(mode="down")
    assert job_lines(lab.directory) == ["its jobs are in Slurm, which does not answer"]


@pytest.mark.parametrize(
    "content",
    ["{}", '{"token": "x", "made": 1, "submissions": [{"name": "a", "trials": [], "job": "1;rm"}]}'],
)
def test_a_damaged_record_is_a_problem(lab: Lab, content: str) -> None:
    lab.folder.make()
    lab.folder.jobs_file.write_text(content)
    with pytest.raises(Problem, match=r"jobs\.json is damaged") as caught:
        lab.launcher()
    assert "scancel" in (caught.value.fix or "")
