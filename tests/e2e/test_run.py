"""`rldyno run` and `rldyno status` with fake workers: outcomes, exit codes, messages."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from fakes import PATIENCE_S, Lab, outcome_of, rldyno, wait_until

from edited_records import edit, edit_facts
from rldyno.probe.metrics import sample_columns
from rldyno.records import csv_files
from rldyno.records.directory import ResultsDirectory


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_study_runs_and_is_answered(lab: Lab) -> None:
    done = lab.run("good", "--with-report", "--tensorboard")
    assert done.returncode == 0, done.stderr
    assert "[2/2]" in done.stdout
    assert f"report: {lab.out / 'report.html'}" in done.stdout
    assert (lab.out / "report.html").stat().st_size > 10_000
    assert [outcome_of(trial)["status"] for trial in lab.trials()] == ["done", "done"]
    manifest = json.loads((lab.out / "manifest.json").read_text())
    assert sorted(manifest["trials"]) == [trial.name for trial in lab.trials()]
    assert manifest["toolchains"]["numpy"]["origin"] == "given"
    assert (lab.out / "study.toml").read_text() == lab.study.read_text()
    trial = json.loads((lab.trials()[0] / "trial.json").read_text())
    assert trial["variables"]["OMP_NUM_THREADS"] == "1"
    assert len(list((lab.out / "tensorboard").rglob("events.out.tfevents.*"))) == 2
    assert f"tensorboard --logdir {lab.out / 'tensorboard'}" in done.stdout


def test_one_bad_trial_stops_no_other(lab: Lab) -> None:
    done = lab.run(".s0.=dies:loud")
    assert done.returncode == 1
    assert [outcome_of(trial)["status"] for trial in lab.trials()] == ["failed", "done"]
    assert "failed: crashed: exited with code 1" in done.stdout
    assert "| RuntimeError: the matrix is not a matrix" in done.stdout
    assert "1 of 2 trials are not done" in done.stdout

    status = rldyno("status", lab.out)
    assert status.returncode == 0
    assert "2 trials: 1 done, 1 failed" in status.stdout
    assert "exited with code 1" in status.stdout


def test_failed_trials_are_retried_unless_kept(lab: Lab) -> None:
    lab.run(".s0.=dies")
    first, second = (outcome_of(trial) for trial in lab.trials())
    assert lab.run("good", "--keep-failed").returncode == 1
    assert [outcome_of(trial) for trial in lab.trials()] == [first, second]
    assert lab.run("good").returncode == 0
    assert outcome_of(lab.trials()[0])["attempt"] == 2
    assert outcome_of(lab.trials()[1]) == second
    assert (lab.trials()[0] / "attempts/1/outcome.json").exists()


def test_an_absent_framework_stops_no_other(lab: Lab) -> None:
    text = lab.study.read_text().replace('["numpy:eager"]', '["numpy:eager", "torch:eager"]')
    lab.study.write_text(text)
    for attempt in (1, 2):
        done = lab.run("good", "--toolchain", "torch=/nonexistent/python")
        assert done.returncode == 1
        outcomes = {trial.name[:5]: outcome_of(trial) for trial in lab.trials()}
        assert (outcomes["numpy"]["status"], outcomes["torch"]["reason"]) == ("done", "absent")
        assert "the interpreter given for torch does not exist" in done.stdout
        assert outcomes["torch"]["attempt"] == 1, f"run {attempt} added an attempt"


def test_two_labs_on_one_directory(lab: Lab) -> None:
    first = lab.start("good:60")
    lab.worker()
    second = lab.run("good")
    assert second.returncode == 2
    assert f"another rldyno run (pid {first.pid}, since 20" in second.stderr
    status = rldyno("status", lab.out)
    assert "1 running" in status.stdout
    assert f"(pid {first.pid}, since" in status.stdout
    first.terminate()
    assert first.wait(timeout=PATIENCE_S) == 130


def test_parallel_jobs_use_different_cpus(lab: Lab) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU only: two jobs cannot run side by side")
    assert lab.run("good:1", "--jobs", "2").returncode == 0
    used = [outcome_of(trial)["affinity"]["worker"] for trial in lab.trials()]
    assert used[0] != used[1]
    starts = {outcome_of(trial)["started_at"] for trial in lab.trials()}
    assert len(starts) <= 2


def test_too_many_cores(lab: Lab) -> None:
    lab.study.write_text("cores = 4096\n" + lab.study.read_text())
    done = lab.run("good")
    assert done.returncode == 2
    assert "4096 cores are requested" in done.stderr
    assert not lab.out.exists()


def test_study_changed_since(lab: Lab) -> None:
    assert lab.run("good").returncode == 0
    before = {trial.name: outcome_of(trial) for trial in lab.trials()}
    lab.study.write_text(lab.study.read_text().replace("seeds = 2", "seeds = 3"))
    done = lab.run("good")
    assert done.returncode == 2
    assert "the study has changed since the run in" in done.stderr
    assert "| seeds: 2 → 3" in done.stderr
    assert "--amend" in done.stderr
    assert {trial.name: outcome_of(trial) for trial in lab.trials()} == before

    assert lab.run("good", "--amend").returncode == 0
    after = {trial.name: outcome_of(trial) for trial in lab.trials()}
    assert len(after) == 3
    assert {name: after[name] for name in before} == before, "unchanged trials were run again"


def test_a_run_goes_on_by_its_directory_whatever_became_of_the_study(lab: Lab) -> None:
    assert lab.run("good").returncode == 0
    copy = lab.out / "study.toml"
    copy.write_text(copy.read_text().replace("seeds = 2", "seeds = 9"))
    options = lab.arguments()[2:]
    edited = rldyno("run", copy, *options, "--amend", env=lab.environment("good"))
    assert edited.returncode == 2
    assert "was edited" in edited.stderr
    lab.study.unlink()
    more = rldyno("run", lab.out, *options, "--seeds", "3", env=lab.environment("good"))
    assert more.returncode == 0, more.stderr
    assert "seeds: 2 → 3" in more.stdout
    assert len(lab.trials()) == 3
    assert "seeds = 3" in copy.read_text()


def test_conditions_changed_since(lab: Lab) -> None:
    lab.run(".s0.=dies")
    path = lab.out / "manifest.json"
    toolchains = json.loads(path.read_text())["toolchains"]
    toolchains["numpy"]["versions"]["numpy"] = "0.0.1"
    edit(path, toolchains=toolchains)
    done = lab.run("good")
    assert done.returncode == 2
    assert "the conditions have changed" in done.stderr
    assert "numpy: numpy was 0.0.1, is" in done.stderr
    assert lab.run("good", "--amend").returncode == 0


def test_code_changed_since(lab: Lab) -> None:
    """One trial done by an older backend, one to run: refused; nothing to run: told."""
    lab.run(".s1.=dies")
    first, _ = lab.trials()
    edit_facts(first, backend_sha256="older")
    refused = lab.run("good")
    assert refused.returncode == 2
    assert "the code has changed since trials" in refused.stderr
    assert "numpy:eager: its backend" in refused.stderr
    mixed = lab.run("good", "--amend")
    assert mixed.returncode == 0
    finished = lab.run("good")
    assert finished.returncode == 0
    assert "all 2 trials have already ended" in finished.stdout
    assert "numpy:eager: its backend has changed since its trials ran" in finished.stdout


def test_a_damaged_outcome_is_told_and_run_again(lab: Lab) -> None:
    assert lab.run("good").returncode == 0
    damaged, other = lab.trials()
    kept = outcome_of(other)
    (damaged / "outcome.json").write_bytes((damaged / "outcome.json").read_bytes()[:40])
    assert "outcome.json is damaged" in rldyno("status", lab.out).stdout
    done = lab.run("good")
    assert done.returncode == 0
    assert "is run again" in done.stdout
    assert (outcome_of(damaged)["attempt"], outcome_of(other)) == (2, kept)


def test_output_below_a_file(lab: Lab) -> None:
    lab.out.write_text("I am a file")
    done = lab.run("good")
    assert done.returncode == 2
    assert f"cannot write to {lab.out}: " in done.stderr
    assert "fix: choose another directory with --out" in done.stderr


def test_read_only_output(lab: Lab, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    lab.out = small_disk / "out"
    done = lab.run("good")
    assert done.returncode == 2
    assert "Read-only file system" in done.stderr


def test_full_output_directory(lab: Lab, small_disk: Path) -> None:
    lab.out = small_disk / "out"
    done = lab.run("good")
    assert done.returncode == 2
    assert "MB are free in" in done.stderr
    assert not (lab.out / "trials").exists()


def test_directory_of_somebody_else(lab: Lab) -> None:
    lab.out.mkdir()
    (lab.out / "thesis.tex").write_text("precious")
    done = lab.run("good")
    assert done.returncode == 2
    assert "is not empty and is not a results directory of rldyno (it contains thesis.tex)" in done.stderr
    assert [entry.name for entry in lab.out.iterdir()] == ["thesis.tex"]


def test_status_of_something_else(tmp_path: Path) -> None:
    done = rldyno("status", tmp_path)
    assert done.returncode == 2
    assert "is not a results directory" in done.stderr


def test_status_while_running(lab: Lab) -> None:
    run = lab.start("good:60")
    lab.worker()
    trial = ResultsDirectory(lab.out).read_manifest().trials[0]
    wait_until(lambda: len(csv_files.last_rows(lab.out / "trials" / trial / "samples.csv", SAMPLES, 40)) > 20)
    shown = rldyno("status", lab.out, env={**os.environ, "COLUMNS": "150"}).stdout
    assert "1 running, 1 pending" in shown
    line = next(line for line in shown.splitlines() if trial in line)
    assert "20.0" in line
    assert "MiB" in line
    run.terminate()
    assert run.wait(timeout=PATIENCE_S) == 130


SAMPLES = sample_columns()
