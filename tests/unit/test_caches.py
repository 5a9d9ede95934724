"""Caches of trials: cold ones are empty and end with the trial, warm ones are filled before the first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rldyno.answers.analysis import Analysis
from rldyno.answers.groups import STARTUP, THROUGHPUT
from rldyno.errors import Problem
from rldyno.launch.launcher import PreparedTrial
from rldyno.launch.local import LocalLauncher
from rldyno.processes import caches
from rldyno.processes.rig import Runtime
from rldyno.records.outcome import Outcome
from rldyno.results.load import load_results
from rldyno.study.file import load_study
from rldyno.study.plan import make_plan
from rldyno.toolchains.catalogue import CACHE_VARIABLES, catalogue
from rldyno.trial.runner import run_trial
from rldyno_rig.contestant import Contestant
from rldyno_rig.trial_file import Budget, TrialFile
from synthetic import Shape, write_results

WORKER = """#!/bin/sh
# $job: what the rig is asked to do. Says what it finds in its caches and leaves something there.
for word in "$@"; do [ "$word" = train ] && job=train; [ "$word" = fill ] && job=fill; done
echo "$job found: $(ls $TMPDIR $XDG_CACHE_HOME $OWN | grep -v : | tr '\\n' ' ')" >> {log}
touch $TMPDIR/in-temporary $XDG_CACHE_HOME/in-xdg $OWN/in-own
{then}
"""
VARIABLES = {**CACHE_VARIABLES, "OWN": "{caches}/own"}
KEYS = (
    'contestants = "numpy:eager"\nalgorithms = "dqn"\nenvironments = "CartPole-v1"\nseeds = 1\n'
    "{}[budget]\nsteps = 100\n"
)


@pytest.fixture(autouse=True)
def temporary_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    space = tmp_path / "space"
    space.mkdir()
    monkeypatch.setenv("TMPDIR", str(space))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return space


def make_trial(tmp_path: Path, name: str, kind: str | None, then: str = "") -> Path:
    script = tmp_path / "worker"
    script.write_text(WORKER.format(log=tmp_path / "log", then=then))
    script.chmod(0o755)
    home = tmp_path / "out" / "trials" / name
    home.mkdir(parents=True)
    file = TrialFile(
        trial=name,
        contestant=Contestant.parse("numpy:eager"),
        algorithm="dqn",
        environment="CartPole-v1",
        seed=0,
        hyper={},
        budget=Budget(steps=100),
        caches=kind,
        interpreter=str(script),
        variables=VARIABLES if kind else dict.fromkeys(("XDG_CACHE_HOME", "OWN"), str(tmp_path)),
    )
    (home / "trial.json").write_text(json.dumps(file.to_json()))
    return home


def found(tmp_path: Path) -> list[str]:
    return [" ".join(line.split()) for line in (tmp_path / "log").read_text().splitlines()]


def places(space: Path) -> list[Path]:
    return [place for home in space.glob("rldyno-*") for place in home.iterdir()]


def run(home: Path) -> Outcome:
    return run_trial(home, None, None)


def test_every_cold_trial_starts_with_empty_caches_that_end_with_it(
    tmp_path: Path, temporary_space: Path
) -> None:
    first = run(make_trial(tmp_path, "a", "cold"))
    run(make_trial(tmp_path, "b", "cold"))
    assert found(tmp_path) == ["train found:", "train found:"]
    assert places(temporary_space) == []
    section = first.sections["caches"]
    assert section is not None
    assert (section["kind"], section["filled_s"], section["bytes"]) == ("cold", None, 0)
    assert section["reasons"]["filled_s"]


def test_warm_caches_are_filled_by_one_start_that_is_not_measured(tmp_path: Path) -> None:
    first, second = (run(make_trial(tmp_path, name, "warm")) for name in "ab")
    assert found(tmp_path) == [
        "fill found:",
        "train found: in-own in-temporary in-xdg",
        "train found: in-own in-temporary in-xdg",
    ]
    sections = [outcome.sections["caches"] or {} for outcome in (first, second)]
    assert [section["kind"] for section in sections] == ["warm", "warm"]
    assert sections[0]["filled_s"] > 0
    assert sections[1]["filled_s"] is None
    assert "earlier trial" in sections[1]["reasons"]["filled_s"]


def test_another_computation_fills_the_warm_caches_again(tmp_path: Path) -> None:
    run(make_trial(tmp_path, "a", "warm"))
    other = make_trial(tmp_path, "b", "warm")
    values = json.loads((other / "trial.json").read_text())
    (other / "trial.json").write_text(json.dumps({**values, "hyper": {"batch_size": 64}}))
    run(other)
    assert [line.split()[0] for line in found(tmp_path)] == ["fill", "train", "fill", "train"]


def test_a_trial_whose_caches_cannot_be_filled_fails_and_says_so(tmp_path: Path) -> None:
    outcome = run(make_trial(tmp_path, "a", "warm", then="[ $job = fill ] && echo no compiler && exit 3"))
    assert (outcome.status, outcome.reason) == ("failed", "crashed")
    assert "fills its caches failed" in outcome.message
    assert "no compiler" in (outcome.log_tail or "")
    assert [line.split()[0] for line in found(tmp_path)] == ["fill"]


def test_a_trial_of_an_older_version_uses_the_users_own_caches(tmp_path: Path, temporary_space: Path) -> None:
    outcome = run(make_trial(tmp_path, "a", None))
    assert places(temporary_space) == []
    assert "caches" not in outcome.sections


def started(home: Path) -> subprocess.Popen[bytes]:
    """The trial in a process of its own, once its worker has left something in its caches."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rldyno.trial.entry", str(home)], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    place = caches.cold_place(home)
    while not (place / "own" / "in-own").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


@pytest.mark.slow
def test_caches_are_removed_however_a_trial_ends(tmp_path: Path, temporary_space: Path) -> None:
    home = make_trial(tmp_path, "a", "cold", then="exec sleep 60")
    stopped = started(home)
    stopped.terminate()
    assert stopped.wait(30) == 130
    assert places(temporary_space) == []

    killed = started(home)
    killed.kill()
    killed.wait(30)
    assert places(temporary_space) == [caches.cold_place(home)], "nobody was left to remove it"
    (tmp_path / "worker").write_text(WORKER.format(log=tmp_path / "log", then=""))
    run(home)
    assert found(tmp_path) == ["train found:"] * 3
    assert places(temporary_space) == []


def test_the_launcher_removes_the_caches_of_a_killed_trial(tmp_path: Path) -> None:
    home = make_trial(tmp_path, "a", "cold")
    caches.make(caches.cold_place(home), VARIABLES)
    launcher = LocalLauncher(1, None, None, lambda *_: ["sh", "-c", "kill -9 $$"])
    launcher.start(PreparedTrial(TrialFile.read(home), home))
    while not launcher.wait(1.0):
        pass
    launcher.stop()
    assert not caches.cold_place(home).exists()


def test_a_place_that_belongs_to_another_user_is_refused(
    tmp_path: Path, temporary_space: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (temporary_space / f"rldyno-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Problem, match="belongs to another user"):
        caches.cold_place(tmp_path)


def test_the_variables_of_a_trial_name_its_place_only() -> None:
    for chain in catalogue().values():
        variables = chain.trial_variables(1, "mlp")
        environment = Runtime(Path("/py"), True, variables, Path("/place")).environment()
        assert {name: environment[name] for name in CACHE_VARIABLES} == {
            name: value.replace("{caches}", "/place") for name, value in CACHE_VARIABLES.items()
        }
        assert not [value for value in environment.values() if "{caches}" in value]
        assert "{caches}" not in str(chain.worker_variables(1)), "proofs use the caches of the user"


@pytest.mark.parametrize(
    ("framework", "variable"),
    [
        ("torch", "TORCHINDUCTOR_CACHE_DIR"),
        ("theano", "THEANO_FLAGS"),
        ("pytensor", "PYTENSOR_FLAGS"),
    ],
)
def test_frameworks_that_keep_what_they_compiled_are_sent_to_the_place(framework: str, variable: str) -> None:
    assert "{caches}/" in catalogue()[framework].trial_variables(1, "mlp")[variable]


def test_jax_keeps_nothing_even_if_the_user_asks_for_it() -> None:
    assert catalogue()["jax"].trial_variables(1, "mlp")["JAX_ENABLE_COMPILATION_CACHE"] == "false"


def test_what_theano_is_told_elsewhere_is_told_to_trials_too() -> None:
    chain = catalogue()["theano"]
    told, trials = chain.variables["THEANO_FLAGS"], chain.caches["THEANO_FLAGS"]
    assert set(told.split(",")) < set(trials.split(","))


def test_a_study_chooses_and_a_trial_says_so(tmp_path: Path) -> None:
    studies = {}
    for name, line in (("default", ""), ("cold", 'caches = "cold"\n'), ("warm", 'caches = "warm"\n')):
        (tmp_path / f"{name}.toml").write_text(KEYS.format(line))
        studies[name] = load_study(tmp_path / f"{name}.toml")
    plans = {name: make_plan(study).trials[0] for name, study in studies.items()}
    assert [trial.to_json()["caches"] for trial in plans.values()] == ["cold", "cold", "warm"]
    assert plans["default"].id == plans["cold"].id != plans["warm"].id
    assert studies["default"].sha256 == studies["cold"].sha256 != studies["warm"].sha256


def test_trials_with_cold_warm_and_unknown_caches_are_never_averaged(tmp_path: Path) -> None:
    home = write_results(tmp_path / "r", Shape(algorithms=["dqn"]))
    files = [TrialFile.read(path) for path in sorted((home / "trials").iterdir())]
    for file, kind in zip(files, ["cold", "warm", None], strict=False):
        changed = replace(file, caches=kind)
        (home / "trials" / file.trial / "trial.json").write_text(json.dumps(changed.to_json()))
    results = load_results(home)
    assert "caches" in results.axes
    assert set(results.trials["caches"]) == {"cold", "warm", None}


@pytest.mark.parametrize(("kind", "doubted"), [("cold", False), ("warm", False), (None, True)])
def test_start_up_is_in_doubt_where_records_do_not_say_what_caches_held(
    tmp_path: Path, kind: str | None, doubted: bool
) -> None:
    home = write_results(tmp_path / "r", Shape(algorithms=["dqn"]))
    for path in (home / "trials").iterdir():
        file = replace(TrialFile.read(path), caches=kind)
        (path / "trial.json").write_text(json.dumps(file.to_json()))
    analysis = Analysis.load(home)
    (group,) = analysis.comparisons
    found = analysis.trust(group, STARTUP).about("caches")
    assert (found is not None) == doubted
    assert analysis.trust(group, THROUGHPUT).about("caches") is None


def test_a_signal_while_caches_are_filled_stops_the_trial(tmp_path: Path) -> None:
    home = make_trial(tmp_path, "a", "warm", then="kill -TERM $PPID; exec sleep 60")
    process = subprocess.run(
        [sys.executable, "-m", "rldyno.trial.entry", str(home)], capture_output=True, timeout=60, check=False
    )
    assert process.returncode == 128 + signal.SIGINT
    assert not (home / "outcome.json").exists()
