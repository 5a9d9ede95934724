from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.answers.advice import Advice
from rldyno.answers.analysis import Analysis
from rldyno.answers.axes import choices_by_axis
from rldyno.answers.ranking import EXPECTED
from rldyno.answers.wording import (
    SUPERLATIVES,
    confidence_words,
    evidence_words,
    length_words,
    pick_words,
    superlative,
)
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.results.columns import column, goals
from synthetic import COMPILE, NUMPY, TORCH, Contestant, Shape, write_results


def advice(path: Path, *contestants: Contestant, goal: str | None = None, **shape: object) -> Advice:
    settings = {"algorithms": ["dqn"], "seeds": 5, "sample_hz": 2} | shape
    root = write_results(path, Shape(contestants=contestants, **settings))  # type: ignore[arg-type]
    (found,) = Analysis.load(root).advice(goal)
    return found


def test_the_pick_its_lead_its_confidence_and_its_evidence(tmp_path: Path) -> None:
    found = advice(tmp_path / "r", NUMPY, TORCH, COMPILE, seeds=10)
    (pick,) = found.picks
    assert (found.goal, pick.contestant, pick.confidence) == ("time", "numpy:eager", "high")
    assert pick.wins.point == 1.0
    said = pick_words(pick)
    assert said.startswith("Take `numpy:eager`: it learns fastest, 1.")
    assert " steps, the median of all runs; `torch:eager` takes 3." in said
    assert "10 runs of `numpy:eager` and 10 runs of `torch:eager`" in evidence_words(pick)


@pytest.mark.parametrize(
    ("goal", "pick"),
    [("throughput", "torch:compile"), ("memory", "torch:eager"), ("startup", "torch:eager")],
)
def test_goals_choose_differently(tmp_path: Path, goal: str, pick: str) -> None:
    assert advice(tmp_path / "r", TORCH, COMPILE, goal=goal).picks[0].contestant == pick


def test_without_a_stop_rule_speed_is_the_goal_and_time_is_refused(tmp_path: Path) -> None:
    assert advice(tmp_path / "r", TORCH, COMPILE, stop_return=None).goal == "throughput"
    (refusal,) = advice(tmp_path / "s", TORCH, COMPILE, stop_return=None, goal="time").refusals
    assert "no stop rule" in refusal.why


def test_few_seeds_lower_the_confidence_and_name_the_command(tmp_path: Path) -> None:
    (pick,) = advice(tmp_path / "r", NUMPY, TORCH, seeds=3).picks
    assert pick.confidence == "moderate"
    said = confidence_words(pick)
    assert f"rldyno run {tmp_path / 'r'} --seeds 5..30" in said


def test_equals_are_told_to_be_equal(tmp_path: Path) -> None:
    twin = Contestant("jax:jit", NUMPY.steps_per_s, NUMPY.startup_s)
    (pick,) = advice(tmp_path / "r", NUMPY, twin).picks
    assert pick.confidence == "low"
    said = confidence_words(pick)
    assert "may be chance" in said
    assert "--seeds 5.." in said or "no reasonable number of seeds" in said


def test_run_length_flips_the_choice(tmp_path: Path) -> None:
    """14.3 s more start-up, 3,100 against 3,900 steps/s: 216,000 steps."""
    found = advice(tmp_path / "r", TORCH, COMPILE)
    ((pick, lengths),) = found.lengths
    assert pick.contestant == lengths.shortest == "torch:eager"
    assert lengths.crossovers[0].steps.point == pytest.approx(14.2 / (1 / 3100 - 1 / 3900), rel=0.35)
    said = length_words(pick, lengths)
    assert "`torch:compile` overtakes `torch:eager` after" in said
    assert "Runs here took about " in said


def test_the_choice_changes_along_an_axis() -> None:
    def axes(cores: int, batch: int) -> dict[str, object]:
        return {"cores": cores, "hyper.batch_size": batch}

    found = choices_by_axis(
        [
            (axes(1, 32), "numpy:eager", True),
            (axes(2, 32), "numpy:eager", True),
            (axes(4, 32), "jax:jit", False),
        ]
    )
    assert [flip.words for flip in found] == [
        "The choice changes with cores: cores 1 and 2 `numpy:eager`; 4 cores `jax:jit`, which may be chance."
    ]
    crossed = choices_by_axis(
        [(axes(c, b), "jax:jit" if b > 32 else "numpy:eager", True) for c in (1, 2) for b in (512, 32)]
    )
    assert [(flip.axis, flip.setting, flip.changes) for flip in crossed] == [
        ("cores", "batch_size 512", False),
        ("cores", "batch_size 32", False),
        ("hyper.batch_size", "1 core", True),
        ("hyper.batch_size", "2 cores", True),
    ]
    assert crossed[2].stretches[0] == ((32,), "numpy:eager", True)


def test_networks_are_ordered_by_their_size() -> None:
    def choice(hidden: str, pick: str) -> tuple[dict[str, object], str, bool]:
        return {"hyper.hidden": hidden}, pick, True

    (flip,) = choices_by_axis([choice("[256, 256]", "jax:jit"), choice("[64, 64]", "numpy:eager")])
    assert [pick for _, pick, _ in flip.stretches] == ["numpy:eager", "jax:jit"]


# --- refusals -----------------------------------------------------------------------------------------------


def test_no_advice_from_the_uncertified(tmp_path: Path) -> None:
    found = advice(tmp_path / "r", NUMPY, replace(TORCH, certificate="stale"))
    assert found.picks == ()
    (refusal,) = found.refusals
    assert "Only `numpy:eager` can be ranked (`torch:eager`: certificate out of date" in refusal.why
    assert refusal.instead.startswith("To prove and measure them anew: `rldyno run ")
    (refusal,) = advice(tmp_path / "s", NUMPY, replace(TORCH, certificate="absent")).refusals
    assert refusal.instead.startswith("To prove what has run: `rldyno run ")


def test_no_advice_from_the_unequal(tmp_path: Path) -> None:
    unlike = Contestant("jax:jit", 9000, needs=3)
    (refusal,) = advice(tmp_path / "r", NUMPY, unlike, steps=80_000).refusals
    assert "learns differently from numpy:eager" in refusal.why


def test_no_advice_from_one_seed(tmp_path: Path) -> None:
    (refusal,) = advice(tmp_path / "r", NUMPY, TORCH, seeds=1).refusals
    assert refusal.why == "With one seed the spread is unknown."
    assert refusal.instead == f"For more seeds: `rldyno run {tmp_path / 'r'} --seeds 5..30`"


def test_no_advice_from_a_noisy_machine(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=5))
    for path in root.glob("trials/*/outcome.json"):
        outcome = json.loads(path.read_text())
        outcome["noise"]["score"] = 6.0
        path.write_text(json.dumps(outcome))
    (found,) = Analysis.load(root).advice()
    assert found.refusals[0].why.startswith("10 of 10 trials ran on a disturbed machine")


def edit_energy(root: Path, joules: float | None, reasons: dict[str, str]) -> None:
    for path in root.glob("trials/*/outcome.json"):
        outcome = json.loads(path.read_text())
        total = joules and joules * outcome["wall_s"]
        path.write_text(json.dumps(outcome | {"energy": {"total_joules": total, "reasons": reasons}}))


def test_energy_is_not_readable_here_until_it_is(tmp_path: Path) -> None:
    found = advice(tmp_path / "r", NUMPY, TORCH, goal="energy")
    assert found.refusals[0].why == "Energy could not be measured: no counter here."
    edit_energy(tmp_path / "r", None, {"total_joules": "only root may read the CPU's energy counter"})
    (refused,) = Analysis.load(tmp_path / "r").advice("energy")
    assert refused.refusals[0].why.endswith("measured: only root may read the CPU's energy counter.")
    edit_energy(tmp_path / "r", 50.0, {})
    (again,) = Analysis.load(tmp_path / "r").advice("energy")
    assert len(again.picks) == 1
    assert again.picks[0].best.figures["energy_joules"].estimate.point > 0
    assert "it needs the least energy, " in pick_words(again.picks[0])
    shown = CliRunner().invoke(app, ["advise", str(tmp_path / "r"), "--goal", "energy"])
    assert shown.exit_code == 0, shown.output


def test_every_figure_with_a_better_direction_is_a_goal_and_has_words() -> None:
    assert set(SUPERLATIVES) - {EXPECTED.name} <= {goal.name for goal in goals()}
    assert superlative(column("cpu_s")) == "has the lowest CPU time"
    assert superlative(column("updates_per_s")) == "has the highest updates per second"


def test_nobody_learned(tmp_path: Path) -> None:
    stuck = [replace(contestant, learns=0) for contestant in (NUMPY, TORCH)]
    (refusal,) = advice(tmp_path / "r", *stuck).refusals
    assert refusal.why == "No contestant reached a mean return of 475 within the budget."


def test_unknown_names_are_told(tmp_path: Path) -> None:
    analysis = Analysis.load(write_results(tmp_path / "r", Shape(seeds=1)))
    with pytest.raises(Problem, match="unknown goal 'speed'"):
        analysis.advice("speed")
    with pytest.raises(Problem, match="no trial has algorithm rainbow"):
        analysis.advice(algorithm="rainbow")


def test_break_evens_as_json(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[TORCH, COMPILE], algorithms=["ppo"], seeds=5))
    (found,) = json.loads(CliRunner().invoke(app, ["advise", str(root), "--json"]).output)
    (turn,) = found["run_lengths"][0]["overtakes"]
    assert (turn["first"], turn["then"], turn["never"]) == ("torch:eager", "torch:compile", False)
    assert turn["updates"]["point"] == pytest.approx(turn["steps"]["point"] / 4, rel=0.01)
    assert turn["words"].startswith("`torch:compile` overtakes `torch:eager` after ")


def test_command_prints_and_fails_without_a_pick(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=5))
    shown = CliRunner().invoke(app, ["advise", str(root), "--goal", "memory"])
    assert shown.exit_code == 0
    assert "Take `numpy:eager`: it needs the least memory" in shown.output
    (found,) = json.loads(CliRunner().invoke(app, ["advise", str(root), "--json"]).output)
    assert found["picks"][0]["contestant"] == "numpy:eager"
    assert len(found["picks"][0]["trials"]) == 10
    assert found["run_lengths"] == [
        {"setting": "", "shortest": "numpy:eager", "overtakes": [], "modes": []},
    ]
    refused = CliRunner().invoke(app, ["advise", str(root), "--goal", "energy"])
    assert refused.exit_code == 1
    assert "No advice. Energy could not be measured: " in refused.output
