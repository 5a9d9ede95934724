"""The time left: estimates give way to what the trials of the run really took."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldyno.session.eta import Ahead, Eta, Pace, Running
from rldyno.study.file import load_study
from rldyno.study.plan import Cell, make_plan

STUDY = """
contestants = ["numpy:eager", "torch:eager"]
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 1
budget.steps = 10
hyper.batch_size = [32, 64]
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Cell]:
    path: Path = tmp_path_factory.mktemp("eta") / "x.toml"
    path.write_text(STUDY)
    found = make_plan(load_study(path)).cells
    return {(cell.contestant.partition(":")[0], cell.hyper.batch_size): cell for cell in found}  # type: ignore[attr-defined]


def test_estimates_count_until_trials_have_ended(cells: dict[tuple[str, int], Cell]) -> None:
    numpy, torch = cells["numpy", 32], cells["torch", 32]
    eta = Eta({"a": Ahead(numpy, 100.0), "b": Ahead(torch, 10.0)})
    assert eta.remaining_s({}) == 110.0
    assert Eta({"a": Ahead(numpy, 100.0), "b": Ahead(torch, 10.0)}, jobs=2).remaining_s({}) == 55.0


def test_the_pace_of_one_contestant_does_not_correct_another(cells: dict[tuple[str, int], Cell]) -> None:
    """The sum over all would say that torch, too, takes a tenth of its estimate."""
    numpy, torch = cells["numpy", 32], cells["torch", 32]
    pace = Pace()
    for _ in range(9):
        pace.add(numpy, 10.0, 100.0)
        pace.add(torch, 40.0, 10.0)
    assert pace.expected_s(Ahead(numpy, 100.0)) == pytest.approx(10.0)
    assert pace.expected_s(Ahead(torch, 10.0)) == pytest.approx(40.0)
    assert pace.expected_s(Ahead(cells["torch", 64], 20.0)) == pytest.approx(80.0)


def test_an_estimate_that_is_far_off_is_forgotten(cells: dict[tuple[str, int], Cell]) -> None:
    """A stop rule ends trials after 5 s that may take 1,000 s."""
    cell = cells["numpy", 32]
    eta = Eta({str(seed): Ahead(cell, 1000.0) for seed in range(20)})
    eta.finished("0", 5.0, done=True)
    assert eta.remaining_s({}) == pytest.approx(19 * 5.0)
    eta.finished("1", 6.0, done=True)
    assert eta.remaining_s({}) == pytest.approx(18 * 5.5)


def test_trials_without_an_estimate_take_as_long_as_the_others(cells: dict[tuple[str, int], Cell]) -> None:
    cell = cells["numpy", 32]
    eta = Eta({name: Ahead(cell, None) for name in "abc"})
    assert eta.remaining_s({}) is None
    eta.finished("a", 7.0, done=True)
    assert eta.remaining_s({}) == 14.0


def test_a_failed_trial_says_nothing_of_the_others(cells: dict[tuple[str, int], Cell]) -> None:
    cell = cells["numpy", 32]
    eta = Eta({"a": Ahead(cell, 100.0), "b": Ahead(cell, 100.0)})
    eta.finished("a", 0.5, done=False)
    assert eta.remaining_s({}) == 100.0
    eta.finished("b", 100.0, done=True)
    assert eta.remaining_s({}) is None


def test_a_running_trial_is_judged_by_its_own_speed(cells: dict[tuple[str, int], Cell]) -> None:
    eta = Eta({"a": Ahead(cells["numpy", 32], 10.0)})
    assert eta.remaining_s({"a": Running(0.0, 0.0)}) == 10.0
    # Half of the budget took 50 s: 100 s at this speed, halfway between that and the estimate.
    assert eta.remaining_s({"a": Running(50.0, 0.5)}) == pytest.approx(55.0 - 50.0)
    assert eta.remaining_s({"a": Running(90.0, 0.9)}) == pytest.approx(0.9 * 100 + 0.1 * 10 - 90.0)
    assert eta.remaining_s({"a": Running(20.0, 0.0)}) == 0.0
