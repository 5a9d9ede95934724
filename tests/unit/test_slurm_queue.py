"""What sbatch says when it does not take a job, as read in the programs and library of Slurm 22.05."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.launch import slurm_queue
from rldyno.launch.slurm_queue import Queue, RefusedError

FAILED = "sbatch: error: Batch job submission failed: "
POLICY = f"{FAILED}Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
BUSY = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n"


def answers(monkeypatch: pytest.MonkeyPatch, stderr: str | None) -> None:
    def call(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
        return None if stderr is None else subprocess.CompletedProcess(command, 1, "", stderr)

    monkeypatch.setattr(slurm_queue, "_call", call)


@pytest.mark.parametrize(
    "words",
    [
        POLICY,
        f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{POLICY}",
        f"sbatch: error: AssocGrpSubmitJobsLimit\n{POLICY}",
        f"{BUSY}{FAILED}Resource temporarily unavailable",
        "sbatch: error: Slurm job queue full, sleeping and retrying",
        f"{FAILED}Unable to create job record, try again",
        f"{FAILED}Job dependency problem",
    ],
)
def test_a_full_queue(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, words)
    with pytest.raises(RefusedError) as refused:
        Queue().submit(Path("a.sbatch"))
    assert refused.value.answered


@pytest.mark.parametrize(
    "words",
    [
        None,
        f"{FAILED}Unable to contact slurm controller (connect failure)",
        f"{FAILED}Socket timed out on send/recv operation",
        f"{FAILED}Zero Bytes were transmitted or received",
        f"{FAILED}Message receive failure",
    ],
)
def test_no_answer_may_mean_that_the_job_was_taken(
    words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, words)
    with pytest.raises(RefusedError) as refused:
        Queue().submit(Path("a.sbatch"))
    assert not refused.value.answered


@pytest.mark.parametrize(
    "words",
    [
        f"sbatch: error: AssocMaxWallDurationPerJobLimit\n{POLICY}",
        f"sbatch: error: QOSMaxCpuPerJobLimit\n{POLICY}",
        f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)",
        f"{FAILED}Invalid partition name specified",
        f"{FAILED}Invalid job array specification",
    ],
)
def test_what_no_waiting_changes(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, words)
    with pytest.raises(Problem, match=r"Slurm refuses a\.sbatch") as refused:
        Queue().submit(Path("a.sbatch"))
    fix = refused.value.fix or ""
    assert "[slurm]" in fix
    assert ("array_size" in fix) is ("job array" in words)
