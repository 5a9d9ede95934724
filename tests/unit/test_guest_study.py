"""Scripts in studies: their tables, their hashes, and who may start them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rldyno.errors import Problem
from rldyno.guests.start import find_guests, guest_file, placed
from rldyno.records.seal import write_record
from rldyno.records.trial_id import trial_id
from rldyno.records.trial_records import read_trial
from rldyno.sharing.anonymous import make_anonymous
from rldyno.studies.given import given_study
from rldyno.study import scripts
from rldyno.study.file import check_study, differences
from rldyno.study.plan import Plan, make_plan
from rldyno.toml.source import parse
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.guest.file import GUEST, Guest
from rldyno_rig.trial_file import TrialFile

STUDY = """
contestants = ["script:train.py", "numpy:eager"]
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 2

[budget]
steps = 100

[script."train.py"]
arguments = ["--seed", "{seed}", "--total-timesteps={steps}", "--lr", "{learning_rate}"]
toolchain = "numpy"
variables = { MY_FLAG = "1" }
"""
HASH = '[script_sha256]\n"train.py" = "abc"\n'
STARTED = "script:train.py"


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study file with its script beside it."""
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")
    (folder / "study.toml").write_text(STUDY)
    return folder / "study.toml"


def plan_of(text: str) -> Plan:
    return make_plan(check_study(parse("study.toml", text)))


def files(plan: Plan) -> list[TrialFile]:
    return [trial.to_file() for trial in plan.trials if trial.cell.guest is not None]


def test_arguments_are_filled_in_for_each_trial() -> None:
    found = sorted(file.guest.arguments for file in files(plan_of(STUDY + HASH)) if file.guest)
    assert [arguments[1] for arguments in found] == ["0", "1"]
    assert found[0][0] == "--seed"
    assert found[0][2] == "--total-timesteps=100"
    assert float(found[0][4]) > 0


def test_the_id_of_a_trial_follows_from_the_script_and_not_from_its_place() -> None:
    first, other = (files(plan_of(STUDY + hashes))[0] for hashes in (HASH, HASH.replace("abc", "def")))
    assert first.trial != other.trial
    assert trial_id(TrialFile.from_json(first.to_json())) == first.trial
    moved = first.to_json()
    moved["guest"]["script"] = "/elsewhere/train.py"
    assert trial_id(TrialFile.from_json(moved)) == first.trial


def test_other_contestants_are_no_guests() -> None:
    others = [trial.to_file() for trial in plan_of(STUDY + HASH).trials if trial.cell.guest is None]
    assert {str(file.contestant) for file in others} == {"numpy:eager"}
    assert all(file.to_json()["guest"] is None for file in others)


def test_a_script_runs_only_the_tasks_that_it_names() -> None:
    text = STUDY.replace('algorithms = "dqn"', 'algorithms = ["dqn", "ppo"]')
    plan = plan_of(text + 'algorithms = "ppo"\n' + HASH)
    assert {cell.algorithm for cell in plan.cells if cell.guest} == {"ppo"}
    assert {cell.algorithm for cell in plan.cells if not cell.guest} == {"dqn", "ppo"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('toolchain = "numpy"', "", "either `interpreter`"),
        ('toolchain = "numpy"', 'toolchain = "nunpy"', "did you mean 'numpy'"),
        ("{seed}", "{sead}", "did you mean 'seed'"),
        ("{seed}", "{seed", "not closed"),
        *(
            ("{seed}", field, f"nothing is known as `{field}`; write `{{seed}}` alone")
            for field in ("{seed:>99999999999}", "{seed:{x}}", "{seed!z}", "{seed:s}")
        ),
        ("{seed}", "{seed.real}", "did you mean 'seed'"),
        ("steps = 100", "episodes = 5", "`{steps}` needs `steps`"),
        ('"script:train.py", ', "", "no contestant `script:train.py`"),
        ('"script:train.py"', '"script:trian.py"', "no table"),
        ('algorithms = "dqn"', 'algorithms = ["dqn", "ppo"]', "pass `{algorithm}` on"),
        ("MY_FLAG = ", "MY_FLAG = 1, X = ", "must be a text"),
        *(("MY_FLAG = ", f'"{name}" = ', f"'{name}' is no name of a variable") for name in ("", "A=B")),
    ],
)
def test_mistakes_are_named(old: str, new: str, words: str) -> None:
    with pytest.raises(Problem) as caught:
        plan_of(STUDY.replace(old, new, 1) + HASH)
    assert words in f"{caught.value.message}\n{caught.value.detail}"


def test_a_study_that_is_not_read_from_a_file_has_no_scripts() -> None:
    with pytest.raises(Problem, match="beside a study file"):
        plan_of(STUDY)


def test_the_study_that_is_kept_holds_the_hashes(study: Path) -> None:
    given = given_study(study)
    assert given.folder == study.parent
    again = check_study(parse("study.toml", given.text))
    assert again.sha256 == given.study.sha256
    (study.parent / "train.py").write_text("print('changed')\n")
    assert [line.split(":")[0] for line in differences(again, given_study(study).study)] == ["script_sha256"]


def test_a_missing_script_is_a_mistake_of_the_study(study: Path) -> None:
    (study.parent / "train.py").unlink()
    with pytest.raises(Problem, match="cannot read the script"):
        given_study(study)


def test_what_is_no_plain_script_is_a_mistake_too(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = study.parent / "train.py"
    script.unlink()
    os.mkfifo(script)
    with pytest.raises(Problem, match="it is no plain file"):
        given_study(study)
    script.unlink()
    script.symlink_to("/dev/zero")
    with pytest.raises(Problem, match="it is no plain file"):
        given_study(study)
    script.unlink()
    script.write_text("#" * 100)
    monkeypatch.setattr(scripts, "MOST_BYTES", 99)
    with pytest.raises(Problem, match="it is larger than"):
        given_study(study)


def test_a_study_may_pin_its_script(study: Path) -> None:
    study.write_text(STUDY + HASH)
    with pytest.raises(Problem, match="another script now"):
        given_study(study)


def test_a_results_directory_starts_only_scripts_that_this_user_has_run(study: Path) -> None:
    plan = make_plan(given_study(study).study)
    with pytest.raises(Problem, match="not started"):
        find_guests(plan, None, {STARTED})
    assert find_guests(plan, None, ()) == {}
    mine = find_guests(plan, study.parent, {STARTED})
    assert mine[STARTED].script == study.parent / "train.py"
    assert find_guests(plan, None, {STARTED}) == mine


@pytest.mark.parametrize(
    ("old", "new"),
    [('"1"', '"2"'), ('"numpy"', '"torch"'), ('"--seed"', '"--sneaky"')],
)
def test_a_results_directory_cannot_start_a_script_in_another_way(study: Path, old: str, new: str) -> None:
    given = given_study(study)
    find_guests(make_plan(given.study), study.parent, {STARTED})
    edited = plan_of(given.text.replace(old, new, 1))
    with pytest.raises(Problem, match="not started"):
        find_guests(edited, None, {STARTED})


def test_a_study_inside_a_results_directory_is_no_word_of_the_user(study: Path) -> None:
    text = given_study(study).text
    (study.parent / "manifest.json").write_text(json.dumps({"schema": 1, "study_text": text, "trials": []}))
    study.write_text(text)
    assert given_study(study).folder is None


def test_a_trial_of_a_guest_is_complete(study: Path) -> None:
    plan = make_plan(given_study(study).study)
    plan = placed(plan, find_guests(plan, study.parent, ()))
    trial = next(trial for trial in plan.trials if trial.cell.guest)
    given = Interpreter(GUEST, Path("/usr/bin/python3"), "given", "3.12.0", {}, None)
    file = guest_file(trial, given)
    assert file.guest is not None
    assert file.guest.script == str(study.parent / "train.py")
    assert file.variables["MY_FLAG"] == "1"
    assert file.variables["OMP_NUM_THREADS"] == "1"
    assert (file.interpreter, file.isolated) == ("/usr/bin/python3", False)


@pytest.mark.parametrize("values", [{}, {"arguments": None, "variables": None}])
def test_a_guest_is_read_from_any_record(values: dict[str, Any]) -> None:
    assert Guest.from_json(values) == Guest("")


def test_the_place_of_an_interpreter_does_not_make_another_study() -> None:
    first, other = (
        plan_of(STUDY.replace('toolchain = "numpy"', f'interpreter = "{path}"') + HASH)
        for path in ("/home/me/bin/python", "/home/you/bin/python")
    )
    assert first.study.sha256 == other.study.sha256
    assert [trial.id for trial in first.trials] == [trial.id for trial in other.trials]


def test_an_anonymous_pack_does_not_say_where_a_script_was(tmp_path: Path) -> None:
    file = replace(files(plan_of(STUDY + HASH))[0], interpreter="/home/me/python")
    assert file.guest is not None
    file = replace(file, guest=replace(file.guest, script="/my work/of anna/train.py", variables=()))
    file = replace(file, trial=trial_id(file))
    write_record(tmp_path / "trial.json", file.to_json())
    assert make_anonymous(tmp_path, ["trial.json"], tmp_path).changed == ["trial.json"]
    text = (tmp_path / "trial.json").read_text()
    assert "anna" not in text
    assert trial_id(read_trial(tmp_path)) == file.trial
