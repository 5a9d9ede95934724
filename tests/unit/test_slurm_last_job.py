"""The job that goes on when all others have ended: there before the trials, and never without a successor."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.launch import slurm, slurm_ledger
from rldyno.launch.slurm import SlurmLauncher
from rldyno.launch.slurm_queue import RefusedError
from slurm_launches import SETTINGS, Lab, lab_of, wait


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return lab_of(tmp_path, monkeypatch)


def leaving(lab: Lab, count: int) -> SlurmLauncher:
    launcher = lab.launcher()
    for trial in lab.trials(count):
        launcher.start(trial)
    launcher.submit(leaving=True)
    return launcher


def last_jobs(lab: Lab) -> list[str]:
    return [id_ for id_ in lab.slurm.live() if "_" not in id_]


def test_it_has_its_place_before_the_trials(lab: Lab) -> None:
    lab.slurm.change(room=3)
    launcher = leaving(lab, 5)
    assert lab.slurm.live() == ["1", "2_0", "2_1"]
    assert lab.slurm.jobs["1"]["after"] == "--dependency=afterany:2"
    assert launcher.submitted() == (2, 3)
    (said,) = lab.said
    assert said.endswith("(job submit limit))"), "it leaves, and does not try again"
    assert launcher.goes_on()


def test_it_gives_its_place_up_where_no_trial_could_run(lab: Lab) -> None:
    lab.slurm.change(room=1)
    launcher = leaving(lab, 3)
    assert lab.slurm.live() == ["2_0"]
    assert not launcher.goes_on()
    assert [words for words in lab.said if words.startswith("no job that goes on by itself yet")]


def test_it_keeps_its_place_while_nobody_answers(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> None:
        raise RefusedError("Unable to contact slurm controller", answered=False)

    monkeypatch.setattr(SlurmLauncher, "_submit_array", silent)
    launcher = leaving(lab, 3)
    assert lab.slurm.live() == ["1"]
    assert lab.slurm.jobs["1"]["after"] == "--begin=now+600"
    assert launcher.goes_on()


def test_a_lab_that_is_killed_while_it_submits_is_continued(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SlurmLauncher, "_submit_arrays", killed)
        with pytest.raises(KeyboardInterrupt):
            leaving(lab, 2)
    assert lab.slurm.jobs["1"]["after"] == "--begin=now+600"
    lab.slurm.set("1", "RUNNING")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    launcher = lab.launcher(anew=False)
    assert not launcher.goes_on(), "this job is not its own successor"
    for trial in lab.trials(2):
        launcher.start(trial)
    launcher.submit(leaving=True)
    assert lab.slurm.live() == ["1", "2", "3_0", "3_1"]
    assert lab.slurm.jobs["2"]["after"] == "--dependency=afterany:3"


def test_a_job_that_finds_all_trials_queued_has_a_successor(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.started(lab.trials(2))
    lab.slurm.set("2", "RUNNING")
    monkeypatch.setenv("SLURM_JOB_ID", "2")
    launcher = lab.launcher(anew=False)
    for trial in lab.trials(2):
        launcher.start(trial)
    launcher.submit(leaving=True)
    assert lab.slurm.live() == ["1_0", "1_1", "2", "3"]
    assert lab.slurm.jobs["3"]["after"] == "--dependency=afterany:1"


def test_it_waits_for_what_is_submitted_later(lab: Lab) -> None:
    launcher = lab.started(lab.trials(2))
    lab.slurm.set("1_1", "NODE_FAIL")
    wait(launcher)
    assert lab.slurm.jobs["2"]["after"] == "--dependency=afterany:1:3"
    assert last_jobs(lab) == ["2"]


def test_one_that_has_begun_is_replaced(lab: Lab) -> None:
    launcher = lab.started(lab.trials(2))
    lab.slurm.set("2", "RUNNING")
    lab.slurm.set("1_1", "NODE_FAIL")
    wait(launcher)
    assert last_jobs(lab) == ["4"]
    assert lab.slurm.jobs["4"]["after"] == "--dependency=afterany:1:3"


def test_one_that_has_begun_stays_while_there_is_no_room_for_another(lab: Lab) -> None:
    launcher = lab.started(lab.trials(2))
    lab.slurm.change(room=3)
    lab.slurm.set("2", "RUNNING")
    lab.slurm.set("1_1", "NODE_FAIL")
    wait(launcher)
    assert lab.slurm.live() == ["1_0", "2", "3_0"]
    assert launcher.goes_on()


@pytest.mark.parametrize("fate", ["CANCELLED", "forgotten"])
def test_one_that_is_lost_is_replaced(lab: Lab, fate: str) -> None:
    launcher = lab.started(lab.trials(2))
    if fate == "forgotten":
        lab.slurm.forget("2")
    else:
        lab.slurm.set("2", fate)
    wait(launcher)
    assert last_jobs(lab) == ["3"]
    assert len([one for one in lab.jobs.submissions if one.continues]) == 1


@pytest.mark.parametrize("seen", [True, False])
def test_a_controller_that_has_forgotten_all_jobs(lab: Lab, seen: bool) -> None:
    """It was killed before it saved them, and gives their ids again."""
    trials = lab.trials(1)
    launcher = lab.started(trials, SETTINGS.model_copy(update={"lost_after_s": 3600.0 * seen}))
    lab.slurm.change(next=1, jobs={})
    if seen:
        wait(launcher)
        assert lab.slurm.live() == [], "its files may be seen late"
        assert lab.said == []
        launcher = lab.started(trials)
    wait(launcher)
    assert lab.slurm.live() == ["1_0", "2"]
    assert lab.slurm.jobs["2"]["after"] == "--dependency=afterany:1"


def test_a_job_of_somebody_else_with_its_id_is_left_alone(lab: Lab) -> None:
    lab.started(lab.trials(2))
    state = lab.slurm.read()
    state["jobs"]["2"] |= {"name": "mine", "after": ""}
    state["jobs"]["1_1"]["state"] = "NODE_FAIL"
    lab.slurm.write(state)
    launcher = lab.started(lab.trials(2))
    assert lab.slurm.jobs["2"] == state["jobs"]["2"]
    assert last_jobs(lab) == ["2", "4"]
    for trial, job in lab.jobs.latest().items():
        lab.end(next(one for one in lab.trials(2) if one.id == trial), job)
    wait(launcher)
    launcher.stop()
    assert last_jobs(lab) == ["2"]


class Clock:
    """Sleeping takes no time, and after some of it Slurm answers again."""

    def __init__(self, lab: Lab, until: float) -> None:
        self.lab, self.until, self.now = lab, until, 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        if self.now >= self.until:
            self.lab.slurm.change(mode="")


def test_it_waits_for_a_controller_that_does_not_answer(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.started(lab.trials(1))
    lab.slurm.change(mode="down")
    clock = Clock(lab, until=500.0)
    monkeypatch.setattr(slurm_ledger, "time", clock)
    assert lab.attached() == {"c1.s0": "1_0"}
    assert clock.pauses == [5, 10, 20, 40, 80, 120, 120, 120]
    assert lab.said == ["Slurm does not answer; waiting until it does"]


def test_it_does_not_wait_for_ever(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.started(lab.trials(1))
    lab.slurm.change(mode="down")
    clock = Clock(lab, until=float("inf"))
    monkeypatch.setattr(slurm_ledger, "time", clock)
    with pytest.raises(Problem, match="Slurm does not answer"):
        lab.attached()
    assert clock.now == slurm._SILENCE_S


def test_jobs_of_other_runs_may_fill_the_queue(lab: Lab) -> None:
    """A user's limit counts all their jobs: this run waits for the others."""
    state = lab.slurm.read()
    state["jobs"]["9"] = {"state": "RUNNING", "reason": "", "node": "n1", "name": "mine", "after": ""}
    lab.slurm.write({**state, "room": 1})
    launcher = lab.started(lab.trials(1))
    wait(launcher)
    (said,) = lab.said
    assert said.startswith("Slurm takes no more jobs now")
    lab.slurm.set("9", "COMPLETED")
    wait(launcher)
    assert lab.slurm.live() == ["1_0"]
