"""The quick size of a study, learning rates that stay, and thresholds that end nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.commands.plan import spell_budget
from rldyno.errors import Problem
from rldyno.studies.given import given_study
from rldyno.studies.shipped import shipped_studies
from rldyno.study.file import Study, load_study
from rldyno.study.origins import inherited
from rldyno.study.plan import make_plan
from rldyno_rig.clock import Clock
from rldyno_rig.recorder import Recorder
from rldyno_rig.trial_file import Budget

TEXT = """
title = "Mine"
question = "Who wins?"
contestants = ["numpy:eager", "torch:eager"]
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 9
[budget]
steps = 1000
stop = { return = 475 }
[hyper.dqn]
batch_size = 32
"""
QUICK = """
[quick]
seeds = 2
contestants = "numpy:eager"
budget = { steps = 100 }
leaves_out = "PyTorch."
"""


def study_of(tmp_path: Path, text: str, *, quick: bool = False) -> Study:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return given_study(path, None, quick).study


# --- the quick size -----------------------------------------------------------------------------------------


def test_the_table_quick_goes_over_the_study(tmp_path: Path) -> None:
    study = study_of(tmp_path, TEXT + QUICK, quick=True)
    assert (study.contestants, len(study.seeds), study.budget.steps) == (("numpy:eager",), 2, 100)
    assert study.budget.stop is not None
    assert study.axes("dqn", "CartPole-v1") == {"batch_size": (32,)}
    assert study.title == "Mine, quick size"
    assert study.question == "Who wins? The quick size leaves out: PyTorch."


def test_without_the_option_the_table_changes_nothing(tmp_path: Path) -> None:
    assert study_of(tmp_path, TEXT + QUICK).sha256 == study_of(tmp_path, TEXT).sha256


def test_records_tell_the_quick_size(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT + QUICK)
    given = given_study(path, "4", quick=True)
    assert (given.path, given.name) == ("mine.toml --quick", "mine-quick")
    assert "leaves out: PyTorch" in given.text
    assert "[quick]" not in given.text
    assert len(given.study.seeds) == 4


def test_a_study_without_quick_size_says_so(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="mine has no quick size"):
        study_of(tmp_path, TEXT, quick=True)


def test_a_mistake_in_the_quick_size_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="did you mean 'seeds'"):
        study_of(tmp_path, TEXT + QUICK + "sedes = 3\n", quick=True)


PAPERS = [name for name in shipped_studies() if name[-2:].isdigit() or name.endswith(("-gpu", "-workers"))]


@pytest.mark.parametrize("name", PAPERS)
def test_studies_of_papers_have_a_quick_size_that_says_what_it_leaves_out(name: str) -> None:
    whole, quick = (given_study(Path(name), None, quick=quick).study for quick in (False, True))
    assert "The quick size leaves out: " in quick.question
    assert len(make_plan(quick).trials) < len(make_plan(whole).trials)


def test_plan_shows_the_quick_size() -> None:
    shown = CliRunner().invoke(app, ["plan", "seong2024", "--quick"]).output
    assert "quick size" in shown
    assert "The quick size leaves out: " in shown


# --- learning rates -----------------------------------------------------------------------------------------


def rates(study: Study) -> set[tuple[float, float]]:
    hypers = [cell.hyper for cell in make_plan(study).cells]
    return {(values.learning_rate, values.learning_rate_end) for values in hypers}


def test_a_learning_rate_alone_stays(tmp_path: Path) -> None:
    """The tuned DQN goes from 1e-3 to 1e-5."""
    study = study_of(tmp_path, TEXT + "learning_rate = 0.004\n")
    assert rates(study) == {(0.004, 0.004)}
    assert "learning_rate_end" not in inherited(study, "dqn", "CartPole-v1")


def test_each_learning_rate_of_an_axis_stays(tmp_path: Path) -> None:
    assert rates(study_of(tmp_path, TEXT + "learning_rate = [0.004, 0.002]\n")) == {
        (0.004, 0.004),
        (0.002, 0.002),
    }


def test_a_rate_and_its_end_are_kept_as_given(tmp_path: Path) -> None:
    both = "learning_rate = 0.004\nlearning_rate_end = 0.001\n"
    assert rates(study_of(tmp_path, TEXT + both)) == {(0.004, 0.001)}
    assert rates(study_of(tmp_path, TEXT)) == {(1e-3, 1e-5)}


# --- thresholds that are only noted -------------------------------------------------------------------------


def test_a_noted_threshold_is_part_of_the_trial(tmp_path: Path) -> None:
    noted = TEXT.replace("{ return = 475 }", "{ return = 475, ends = false }")
    budgets = [make_plan(study_of(tmp_path, text)).trials[0].to_json()["budget"] for text in (TEXT, noted)]
    assert "stop_ends" not in budgets[0]
    assert budgets[1]["stop_ends"] is False
    assert spell_budget(Budget.from_json(budgets[1])) == (
        "1,000 steps; notes when the mean return of 100 episodes is ≥ 475"
    )


@pytest.mark.parametrize(("ends", "reason"), [(True, "return"), (False, "episodes")])
def test_the_worker_goes_on_after_a_noted_threshold(tmp_path: Path, ends: bool, reason: str) -> None:
    budget = Budget(episodes=3, stop_return=10.0, stop_episodes=1, stop_ends=ends)
    recorder = Recorder(tmp_path, budget, Clock(), 0)
    recorder.start()
    while recorder.reason is None:
        recorder.episode(0, 7 * (recorder.episodes + 1), 100, 12.0, 7, True)
    assert recorder.reason == reason
    assert recorder.threshold is not None
    assert recorder.threshold["episode"] == 1
    assert recorder.episodes == (1 if ends else 3)


def test_shipped_studies_load() -> None:
    for path in shipped_studies().values():
        load_study(path)
